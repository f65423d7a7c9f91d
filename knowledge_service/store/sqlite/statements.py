"""Facts that are told: together when they touch nothing, else one by one at the verbs' desk.

A fact that has no key and no equal touches nothing: many of these are one event and a few
statements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from knowledge_client.models import Remembered
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite import part, written
from knowledge_service.store.sqlite.desk import TableDesk
from knowledge_service.store.sqlite.projections import facts as projected
from knowledge_service.store.sqlite.transaction import Transaction
from knowledge_service.store.verbs import storing

_EQUAL = "SELECT 1 FROM fact WHERE scope_no = ? AND content_hash = ? LIMIT 1"
_EQUALS = """SELECT content_hash FROM fact WHERE scope_no = ?
  AND content_hash IN (SELECT unhex(value) FROM json_each(?))"""
_NEXT = "SELECT coalesce(max(fact_no), 0) FROM fact"


class _Waiting(NamedTuple):
    """A fact that touches nothing, to be written with others of its scope."""

    new: NewFact
    fact_id: str


def store_all(tx: Transaction, facts: Sequence[NewFact], actor: Actor) -> tuple[Remembered, ...]:
    """Store facts inside a write, or confirm their equals; the answers are in their order.

    Raises:
        RetractedBefore: an equal was retracted in the scope.
    """
    answers: list[Remembered] = []
    waiting: dict[int, list[_Waiting]] = {}
    scopes = _scopes(tx, facts, actor)
    known = _equals(tx, facts, scopes)
    for new in facts:
        scope_no = scopes[new.scope]
        key = (scope_no, new.content_hash)
        if new.key_hash is None and key not in known:
            known.add(key)
            fact_id = tx.new_id()
            waiting.setdefault(scope_no, []).append(_Waiting(new, fact_id))
            answers.append(Remembered(fact_id=fact_id, status="created"))
        else:
            known.add(key)
            _write(tx, waiting, actor)
            answers.append(storing.store(TableDesk(tx), new, actor))
    _write(tx, waiting, actor)
    return tuple(answers)


def _scopes(tx: Transaction, facts: Sequence[NewFact], actor: Actor) -> dict[str, int]:
    paths = dict.fromkeys([new.scope for new in facts])
    return {path: part.ensure_scope(tx, path, actor.name) for path in paths}


def _equals(
    tx: Transaction, facts: Sequence[NewFact], scopes: Mapping[str, int]
) -> set[tuple[int, bytes]]:
    """Find which of the facts have an equal, by scope and hash, with one question a scope."""
    asked: dict[int, list[bytes]] = {}
    for new in facts:
        asked.setdefault(scopes[new.scope], []).append(new.content_hash)
    found: set[tuple[int, bytes]] = set()
    for scope_no, hashes in asked.items():
        if len(hashes) == 1:
            rows = [hashes[0]] if tx.one(_EQUAL, (scope_no, hashes[0])) else []
        else:
            text = json.dumps([each.hex() for each in hashes])
            rows = [row[0] for row in tx.all(_EQUALS, (scope_no, text))]
        found.update([(scope_no, each) for each in rows])
    return found


def _write(tx: Transaction, waiting: dict[int, list[_Waiting]], actor: Actor) -> None:
    for scope_no, facts in waiting.items():
        _record(tx, scope_no, facts, actor)
    waiting.clear()


def _record(tx: Transaction, scope_no: int, facts: Sequence[_Waiting], actor: Actor) -> None:
    first = int((tx.one(_NEXT) or (0,))[0]) + 1
    sources: dict[int, dict[str, Any]] = {}  # facts told together mostly share the object
    parts = [
        {"no": number, **written.fields(each.new, each.fact_id, sources)}
        for number, each in enumerate(facts, start=first)
    ]
    event = tx.append(projected.RECORDED, scope_no=scope_no, actor=actor.name, parts=parts)
    hashes = [(each.new.content_hash, each.new.key_hash) for each in facts]
    projected.record(tx.connection, event, hashes)
    tx.index(scope_no, projected.texts(event))
