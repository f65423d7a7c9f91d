"""What becomes of a fact inside a write: stored, confirmed, closed, linked; each with its event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from kais import facts as kais_facts
from knowledge_client.models import Remembered
from knowledge_service.domain import supersession
from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.errors import RetractedBefore
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite import part, postings, times
from knowledge_service.store.sqlite.transaction import Transaction

_EQUAL = """SELECT fact_no, id, lifecycle, closed_reason, tags, confidence FROM fact
  WHERE scope_no = ? AND content_hash = ?
  ORDER BY CASE lifecycle WHEN 'live' THEN 0 WHEN 'retracted' THEN 1 ELSE 2 END, id DESC LIMIT 1"""
_HOLDERS = """SELECT fact_no, id, coalesce(valid_from, recorded_at), review = 'approved' FROM fact
  WHERE scope_no = ? AND key_hash = ? AND lifecycle = 'live'"""
_INSERT = """INSERT INTO fact(id, scope_no, kind, title, content, data, schema, about, position,
  subject, predicate, key_hash, tags, confidence, source, source_type, lifecycle, expires_at,
  valid_from, valid_until, recorded_at, closed_at, closed_reason, content_hash)
  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_CURRENT = "SELECT id, scope_no, tags, confidence FROM fact WHERE fact_no = ?"
_TAG = "INSERT OR IGNORE INTO fact_tag(scope_no, tag, fact_no) VALUES(?, ?, ?)"
_CONFIRM = "UPDATE fact SET tags = ?, confidence = ?, version = version + 1 WHERE fact_no = ?"
_CONFIRMATION = "INSERT INTO confirmation(fact_no, at, seq, session, actor) VALUES(?, ?, ?, ?, ?)"
_CLOSE = """UPDATE fact SET lifecycle = ?, closed_at = ?, closed_reason = ?, closed_by = ?,
  valid_until = coalesce(?, valid_until), version = version + 1 WHERE fact_no = ?"""
_LINK = """INSERT OR IGNORE INTO link(id, from_no, to_no, type, actor, recorded_at)
  VALUES(?, ?, ?, ?, ?, ?)"""
_ENDS = """SELECT a.id, b.id, a.scope_no FROM fact a, fact b
  WHERE a.fact_no = ? AND b.fact_no = ?"""
_COUNT = "UPDATE scope SET live_facts = live_facts + ?, last_write_at = ? WHERE scope_no = ?"


@dataclass(frozen=True)
class Stored:
    """What became of a fact, with its internal number."""

    fact_no: int
    remembered: Remembered


def store(tx: Transaction, folder: postings.Folder, new: NewFact, actor: Actor) -> Stored:
    """Store one fact inside a write, or confirm its equal.

    Raises:
        RetractedBefore: its equal was retracted in the scope.
    """
    scope_no = part.ensure_scope(tx, new.scope, actor.name)
    equal = tx.one(_EQUAL, (scope_no, new.content_hash))
    if equal and equal[2] == "live":
        confirm(tx, equal[0], new, actor)
        return Stored(equal[0], Remembered(fact_id=equal[1], status="confirmed"))
    if equal and equal[2] == "retracted":
        raise RetractedBefore(
            f"an equal fact was retracted in {new.scope}: {equal[3]}; say what is different"
        )
    stored = _create(tx, folder, scope_no, new, actor)
    if equal:
        link(tx, stored.fact_no, equal[0], "derived_from", actor)
    return stored


def confirm(tx: Transaction, fact_no: int, new: NewFact, actor: Actor) -> str:
    """Add a confirmation to a fact: tags merged, the higher confidence; return its id."""
    row = tx.one(_CURRENT, (fact_no,))
    assert row is not None  # noqa: S101 - the caller found it in this transaction
    fact_id, scope_no, old_tags, confidence = row
    tags = kais_facts.merged_tags(json.loads(old_tags), new.tags)
    tx.execute(_CONFIRM, (canonical(tags), max(confidence, new.confidence), fact_no))
    _tag(tx, scope_no, fact_no, tags)
    payload = {"fact": fact_id, "session": new.session, "tags": tags, "confidence": new.confidence}
    tx.emit("fact.confirmed", scope_no=scope_no, actor=actor.name, payload=payload)
    tx.execute(_CONFIRMATION, (fact_no, tx.at_us, tx.head.seq, new.session, actor.name))
    tx.execute(_COUNT, (0, tx.at_us, scope_no))
    return str(fact_id)


def _create(
    tx: Transaction, folder: postings.Folder, scope_no: int, new: NewFact, actor: Actor
) -> Stored:
    since = times.to_us(new.valid_from) if new.valid_from else tx.at_us
    holders = tx.all(_HOLDERS, (scope_no, new.key_hash)) if new.key_hash else []
    verdict = supersession.decide(
        [supersession.Holder(row[1], times.from_us(row[2]), bool(row[3])) for row in holders],
        times.from_us(since),
        actor.type,
    )
    number_of = {row[1]: row[0] for row in holders}
    fact_id = tx.new_id()
    fact_no = _insert(tx, scope_no, fact_id, new, verdict)
    folder.grew(postings.add(tx, scope_no, fact_no, new.rendering))
    for older in verdict.closes:
        close(tx, number_of[older], "superseded", f"superseded by {fact_id}", actor, until=since)
        link(tx, fact_no, number_of[older], "supersedes", actor)
    for other in verdict.contradicts:
        link(tx, fact_no, number_of[other], "contradicts", actor)
    if verdict.superseded_by:
        link(tx, number_of[verdict.superseded_by], fact_no, "supersedes", actor)
    tx.execute(_COUNT, (0 if verdict.superseded_by else 1, tx.at_us, scope_no))
    remembered = Remembered(
        fact_id=fact_id,
        status="created",
        superseded=verdict.closes,
        contradicts=verdict.contradicts,
    )
    return Stored(fact_no, remembered)


def _insert(
    tx: Transaction, scope_no: int, fact_id: str, new: NewFact, verdict: supersession.Verdict
) -> int:
    data = None if new.data is None else canonical(new.data)
    source = canonical(new.source.model_dump(mode="json", exclude_none=True))
    closed = verdict.superseded_by is not None
    valid_until = times.to_us(verdict.until or new.valid_until)
    fact_no = tx.insert(
        _INSERT,
        (
            fact_id, scope_no, new.kind, new.title, new.content, data, new.schema, new.about,
            new.position, new.subject, new.predicate, new.key_hash, canonical(new.tags),
            new.confidence, source, new.source.type, "superseded" if closed else "live",
            times.to_us(new.expires_at), times.to_us(new.valid_from), valid_until, tx.at_us,
            tx.at_us if closed else None,
            f"superseded by {verdict.superseded_by}" if closed else None, new.content_hash,
        ),
    )  # fmt: skip
    _tag(tx, scope_no, fact_no, new.tags)
    payload = {
        "fact": fact_id, "kind": new.kind, "title": new.title, "content": new.content,
        "data": new.data, "schema": new.schema, "about": new.about, "position": new.position,
        "subject": new.subject, "predicate": new.predicate, "tags": new.tags,
        "confidence": new.confidence,
        "source": new.source.model_dump(mode="json", exclude_none=True),
        "expires_at": times.to_us(new.expires_at), "valid_from": times.to_us(new.valid_from),
        "valid_until": valid_until, "superseded_by": verdict.superseded_by,
    }  # fmt: skip
    actor = new.source.actor or "unknown"
    tx.emit("fact.recorded", scope_no=scope_no, actor=actor, payload=payload)
    return fact_no


def close(
    tx: Transaction, fact_no: int, lifecycle: str, reason: str, actor: Actor, *, until: int | None
) -> None:
    """End a live fact; `until` ends its validity in the world too."""
    row = tx.one(_CURRENT, (fact_no,))
    assert row is not None  # noqa: S101 - the caller found it in this transaction
    tx.execute(_CLOSE, (lifecycle, tx.at_us, reason, actor.name, until, fact_no))
    tx.execute(_COUNT, (-1, tx.at_us, row[1]))
    payload = {"fact": row[0], "lifecycle": lifecycle, "reason": reason, "valid_until": until}
    tx.emit("fact.closed", scope_no=row[1], actor=actor.name, payload=payload)


def link(tx: Transaction, from_no: int, to_no: int, kind: str, actor: Actor) -> None:
    """Link two facts; a link that is live already stays as it is."""
    tx.execute(_LINK, (tx.new_id(), from_no, to_no, kind, actor.name, tx.at_us))
    if tx.changes():
        row = tx.one(_ENDS, (from_no, to_no))
        assert row is not None  # noqa: S101 - both are there by foreign key
        payload = {"from": row[0], "to": row[1], "type": kind}
        tx.emit("link.made", scope_no=row[2], actor=actor.name, payload=payload)


def _tag(tx: Transaction, scope_no: int, fact_no: int, tags: Sequence[str]) -> None:
    tx.executemany(_TAG, [(scope_no, kais_facts.normal_tag(tag), fact_no) for tag in tags])
