"""Facts that are told: together when they touch nothing, else one by one at the verbs' desk.

A fact that has no key and no equal touches nothing: many of these are one event and a few
statements.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowledge_client.models import Remembered
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite import part, written
from knowledge_service.store.sqlite.desk import TableDesk
from knowledge_service.store.sqlite.projections import facts as projected
from knowledge_service.store.sqlite.transaction import Mergeable, Said, Transaction
from knowledge_service.store.verbs import storing

_EQUAL = "SELECT 1 FROM fact WHERE scope_no = ? AND content_hash = ? LIMIT 1"
_AT_ONCE = 50  # hashes to a question; an arbitrary number
_EQUALS = f"""SELECT content_hash FROM fact WHERE scope_no = ?
  AND content_hash IN ({", ".join("?" * _AT_ONCE)})"""
_NEXT = "SELECT coalesce(max(fact_no), 0) FROM fact"


class _Waiting(NamedTuple):
    """A fact that touches nothing, to be written with others of its scope."""

    new: NewFact
    fact_id: str


class _Told(NamedTuple):
    """What becomes one event: facts of one scope and who told them."""

    scope_no: int
    actor: str
    facts: Sequence[_Waiting]


@dataclass(frozen=True)
class Telling(Mergeable):
    """Facts that one call tells, none of which has a key, a name, or is told again under a key."""

    facts: Sequence[NewFact]
    actor: Actor

    def __call__(self, tx: Transaction) -> tuple[Remembered, ...]:
        """Store them or confirm their equals."""
        return store_all(tx, self.facts, self.actor)

    def together(self, tx: Transaction, jobs: Sequence[Telling]) -> list[tuple[Remembered, ...]]:
        """Store what several calls told, up to the first fact that has an equal."""
        facts = [new for job in jobs for new in job.facts]
        scopes: dict[str, int] = {}
        for job in jobs:
            scopes |= _scopes(tx, [new for new in job.facts if new.scope not in scopes], job.actor)
        known = _equals(tx, facts, scopes)
        told: list[_Told] = []
        for job in jobs:
            scope_no = scopes[job.facts[0].scope]
            keys = {(scopes[new.scope], new.content_hash) for new in job.facts}
            if len(keys) < len(job.facts) or keys & known or {no for no, _ in keys} != {scope_no}:
                break
            known |= keys
            waiting = [_Waiting(new, tx.new_id()) for new in job.facts]
            told.append(_Told(scope_no, job.actor.name, waiting))
        _record(tx, told)
        return [
            tuple(Remembered(fact_id=each.fact_id, status="created") for each in one.facts)
            for one in told
        ]


def is_plain(new: NewFact) -> bool:
    """Tell whether a fact can be part of a `Telling`."""
    return new.key_hash is None and not new.aliases


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
    """Find which of the facts have an equal, by scope and hash, with few questions a scope."""
    asked: dict[int, list[bytes]] = {}
    for new in facts:
        asked.setdefault(scopes[new.scope], []).append(new.content_hash)
    found: set[tuple[int, bytes]] = set()
    for scope_no, hashes in asked.items():
        if len(hashes) == 1:
            rows = [(hashes[0],)] if tx.one(_EQUAL, (scope_no, hashes[0])) else []
        else:
            rows = []
            for at in range(0, len(hashes), _AT_ONCE):
                some = hashes[at : at + _AT_ONCE]
                some += some[-1:] * (_AT_ONCE - len(some))  # one statement for every number
                rows += tx.all(_EQUALS, (scope_no, *some))
        found.update([(scope_no, each) for (each,) in rows])
    return found


def _write(tx: Transaction, waiting: dict[int, list[_Waiting]], actor: Actor) -> None:
    _record(tx, [_Told(scope_no, actor.name, facts) for scope_no, facts in waiting.items()])
    waiting.clear()


def _record(tx: Transaction, told: Sequence[_Told]) -> None:
    if not told:
        return
    numbers = itertools.count(int((tx.one(_NEXT) or (0,))[0]) + 1)
    sources: dict[int, dict[str, Any]] = {}  # facts told together mostly share the object
    said = [
        Said(
            one.scope_no,
            one.actor,
            [
                {"no": next(numbers), **written.fields(each.new, each.fact_id, sources)}
                for each in one.facts
            ],
        )
        for one in told
    ]
    events = tx.append_all(projected.RECORDED, said)
    hashes = [[(each.new.content_hash, each.new.key_hash) for each in one.facts] for one in told]
    projected.record_all(tx.connection, list(zip(events, hashes, strict=True)))
    for one, event in zip(told, events, strict=True):
        tx.index(one.scope_no, projected.texts(event))
