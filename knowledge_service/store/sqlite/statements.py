"""What becomes of a fact inside a write: stored, confirmed, closed, linked; each with its event.

Facts that touch nothing (no key, no equal) are stored together: one event, a few statements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais import facts as kais_facts
from knowledge_client.models import Remembered
from knowledge_service.domain import supersession
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import RetractedBefore
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite import part, postings, times
from knowledge_service.store.sqlite.projections import facts as projected
from knowledge_service.store.sqlite.transaction import Transaction

_EQUAL = """SELECT id, lifecycle, closed_reason, tags, confidence FROM fact
  WHERE scope_no = ? AND content_hash = ?
  ORDER BY CASE lifecycle WHEN 'live' THEN 0 WHEN 'retracted' THEN 1 ELSE 2 END, id DESC LIMIT 1"""
_HOLDERS = """SELECT id, coalesce(valid_from, recorded_at), review = 'approved' FROM fact
  WHERE scope_no = ? AND key_hash = ? AND lifecycle = 'live'"""
_NEXT = "SELECT coalesce(max(fact_no), 0) FROM fact"
_CURRENT = "SELECT scope_no, tags, confidence, valid_until FROM fact WHERE id = ?"
_LINKED = """SELECT 1 FROM link JOIN fact a ON a.fact_no = from_no JOIN fact b ON b.fact_no = to_no
  WHERE a.id = ? AND b.id = ? AND link.type = ? AND link.closed_at IS NULL"""


@dataclass(frozen=True)
class _Waiting:
    """A fact that touches nothing, to be written with others of its scope."""

    new: NewFact
    fact_id: str


def store_all(
    tx: Transaction, facts: Sequence[NewFact], actor: Actor
) -> tuple[Remembered, ...]:
    """Store facts inside a write, or confirm their equals; the answers are in their order.

    Raises:
        RetractedBefore: an equal was retracted in the scope.
    """
    answers: list[Remembered] = []
    waiting: dict[int, list[_Waiting]] = {}
    hashes: set[tuple[int, bytes]] = set()
    for new in facts:
        scope_no = part.ensure_scope(tx, new.scope, actor.name)
        key = (scope_no, new.content_hash)
        if new.key_hash is None and key not in hashes and not tx.one(_EQUAL, key):
            hashes.add(key)
            waiting.setdefault(scope_no, []).append(_Waiting(new, tx.new_id()))
            fact_id = waiting[scope_no][-1].fact_id
            answers.append(Remembered.model_construct(fact_id=fact_id, status="created"))
        else:
            _write(tx, waiting, actor)
            answers.append(store(tx, new, actor))
    _write(tx, waiting, actor)
    return tuple(answers)


def store(tx: Transaction, new: NewFact, actor: Actor) -> Remembered:
    """Store one fact inside a write, or confirm its equal.

    Raises:
        RetractedBefore: its equal was retracted in the scope.
    """
    scope_no = part.ensure_scope(tx, new.scope, actor.name)
    equal = tx.one(_EQUAL, (scope_no, new.content_hash))
    if equal and equal[1] == "live":
        confirm(tx, equal[0], new, actor)
        return Remembered(fact_id=equal[0], status="confirmed")
    if equal and equal[1] == "retracted":
        raise RetractedBefore(
            f"an equal fact was retracted in {new.scope}: {equal[2]}; say what is different"
        )
    stored = _create(tx, scope_no, new, actor)
    if equal:
        link(tx, stored.fact_id, equal[0], "derived_from", actor)
    return stored


def confirm(tx: Transaction, fact_id: str, new: NewFact, actor: Actor) -> str:
    """Add a confirmation to a fact: tags merged, the higher confidence; return its id."""
    scope_no, old_tags, confidence, _ = _current(tx, fact_id)
    tags = kais_facts.merged_tags(json.loads(old_tags), new.tags)
    given = {"tags": tags, "confidence": max(confidence, new.confidence)}
    parts = [{"fact": fact_id, "session": new.session, "set": given}]
    tx.record("fact.confirmed", scope_no=scope_no, actor=actor.name, parts=parts)
    return fact_id


def close(
    tx: Transaction, fact_id: str, lifecycle: str, reason: str, actor: Actor, *, until: int | None
) -> None:
    """End a live fact; `until` ends its validity in the world too."""
    scope_no, _, _, valid_until = _current(tx, fact_id)
    given = {
        "lifecycle": lifecycle, "closed_at": tx.at_us, "closed_reason": reason,
        "closed_by": actor.name, "valid_until": valid_until if until is None else until,
    }  # fmt: skip
    parts = [{"fact": fact_id, "set": given}]
    tx.record("fact.closed", scope_no=scope_no, actor=actor.name, parts=parts)


def link(tx: Transaction, from_id: str, to_id: str, kind: str, actor: Actor) -> None:
    """Link two facts; a link that is live already stays as it is."""
    if tx.one(_LINKED, (from_id, to_id, kind)):
        return
    parts = [{"id": tx.new_id(), "from": from_id, "to": to_id, "type": kind}]
    scope_no = _current(tx, from_id)[0]
    tx.record("link.made", scope_no=scope_no, actor=actor.name, parts=parts)


def _create(
    tx: Transaction, scope_no: int, new: NewFact, actor: Actor
) -> Remembered:
    since = times.to_us(new.valid_from) if new.valid_from else tx.at_us
    holders = tx.all(_HOLDERS, (scope_no, new.key_hash)) if new.key_hash else []
    verdict = supersession.decide(
        [supersession.Holder(row[0], times.from_us(row[1]), bool(row[2])) for row in holders],
        times.from_us(since),
        actor.type,
    )
    fact_id = tx.new_id()
    closed: dict[str, Any] = {}
    if verdict.superseded_by:
        closed = {
            "lifecycle": "superseded",
            "closed_reason": f"superseded by {verdict.superseded_by}",
            "valid_until": times.to_us(verdict.until or new.valid_until),
        }
    _record(tx, scope_no, [(new, _part(new, fact_id) | closed)], actor)
    for older in verdict.closes:
        close(tx, older, "superseded", f"superseded by {fact_id}", actor, until=since)
        link(tx, fact_id, older, "supersedes", actor)
    for other in verdict.contradicts:
        link(tx, fact_id, other, "contradicts", actor)
    if verdict.superseded_by:
        link(tx, verdict.superseded_by, fact_id, "supersedes", actor)
    return Remembered(
        fact_id=fact_id,
        status="created",
        superseded=verdict.closes,
        contradicts=verdict.contradicts,
    )


def _write(
    tx: Transaction, waiting: dict[int, list[_Waiting]], actor: Actor
) -> None:
    for scope_no, facts in waiting.items():
        parts = [(each.new, _part(each.new, each.fact_id)) for each in facts]
        _record(tx, scope_no, parts, actor)
    waiting.clear()


def _record(
    tx: Transaction,
    scope_no: int,
    facts: Sequence[tuple[NewFact, Mapping[str, Any]]],
    actor: Actor,
) -> None:
    first = int((tx.one(_NEXT) or (0,))[0]) + 1
    parts = [{"no": number, **fields} for number, (_, fields) in enumerate(facts, start=first)]
    event = tx.append(projected.RECORDED, scope_no=scope_no, actor=actor.name, parts=parts)
    hashes = [(new.content_hash, new.key_hash) for new, _ in facts]
    projected.record(tx.connection, event, hashes)
    postings.add(tx.connection, scope_no, projected.texts(event))


def _part(new: NewFact, fact_id: str) -> dict[str, Any]:
    """Write a fact as the log has it; what it has not is left out."""
    given = {
        "fact": fact_id, "kind": new.kind, "title": new.title, "content": new.content,
        "data": new.data, "schema": new.schema, "about": new.about, "position": new.position,
        "subject": new.subject, "predicate": new.predicate, "tags": new.tags,
        "confidence": new.confidence,
        "source": new.source.model_dump(mode="json", exclude_none=True),
        "expires_at": times.to_us(new.expires_at), "valid_from": times.to_us(new.valid_from),
        "valid_until": times.to_us(new.valid_until),
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def _current(tx: Transaction, fact_id: str) -> tuple[Any, ...]:
    row = tx.one(_CURRENT, (fact_id,))
    assert row is not None  # noqa: S101 - the caller found it in this transaction
    return row
