"""Facts that are told: together when they touch nothing, else one by one at the verbs' uow.

A fact that has no key and no equal touches nothing: many of these are one event and a few
statements.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowledge_client import base_model
from knowledge_client.models import Remembered
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import fact_event_json, fact_events
from knowledge_service.event_log.events import EncodedEvent
from knowledge_service.fact_operations import remember
from knowledge_service.ports import Actor
from knowledge_service.search.text import term_ids
from knowledge_service.store.sqlite import postings
from knowledge_service.store.sqlite.db.transaction import Mergeable, Transaction
from knowledge_service.store.sqlite.projections import bulk_facts
from knowledge_service.store.sqlite.repositories import base, capacity
from knowledge_service.store.sqlite.repositories.unit_of_work import SqliteUnitOfWork

_NEXT = "SELECT coalesce(max(fact_no), 0) FROM fact"


class WorkedOut(NamedTuple):
    """What of a fact is known before it is written: what is indexed, and its line in the log."""

    text: postings.Text
    line: bytes


class _Told(NamedTuple):
    """What becomes one event: facts of one scope that touch nothing, and who told them."""

    scope_no: int
    actor: str
    facts: list[NewFact]
    fact_ids: list[str]
    worked_out: list[WorkedOut]


@dataclass(frozen=True)
class Telling(Mergeable):
    """Facts that one call tells, none of which has a key, a name, or is told again under a key.

    `worked_out` is what `work_out` gives for them.
    """

    facts: Sequence[NewFact]
    actor: Actor
    worked_out: Sequence[WorkedOut]

    def __call__(self, tx: Transaction) -> tuple[Remembered, ...]:
        """Store them or confirm their equals."""
        return store_all(tx, self.facts, self.actor, self.worked_out)

    def together(self, tx: Transaction, jobs: Sequence[Telling]) -> list[tuple[Remembered, ...]]:
        """Store what several calls told, up to the first fact that has an equal."""
        facts = [new for job in jobs for new in job.facts]
        scopes: dict[str, int] = {}
        for job in jobs:
            scopes |= _scopes(tx, [new for new in job.facts if new.scope not in scopes], job.actor)
        known = _equals(tx, facts, scopes)
        told: list[_Told] = []
        room = _Room(tx)
        for job in jobs:
            scope_no = scopes[job.facts[0].scope]
            keys = {(scopes[new.scope], new.content_hash) for new in job.facts}
            if len(keys) < len(job.facts) or keys & known or {no for no, _ in keys} != {scope_no}:
                break
            if not room.takes(scope_no, len(keys), job.actor):
                break
            known |= keys
            fact_ids = tx.new_ids(len(job.facts))
            parts = (list(job.facts), fact_ids, list(job.worked_out))
            told.append(_Told(scope_no, job.actor.name, *parts))
        _record(tx, told)
        return [tuple(map(_created, one.fact_ids)) for one in told]


class _Room:
    """What still fits into scopes while several calls are done as one."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._taken: Counter[int] = Counter()

    def takes(self, scope_no: int, count: int, actor: Actor) -> bool:
        """Reserve room for `count` facts of an agent; False when there is none."""
        self._taken[scope_no] += count
        return not actor.is_bounded or capacity.has_room(self._tx, scope_no, self._taken[scope_no])


def is_plain(new: NewFact) -> bool:
    """Tell whether a fact can be part of a `Telling`."""
    return new.key_hash is None and not new.aliases


def work_out(facts: Sequence[NewFact]) -> list[WorkedOut]:
    """Do what can be done of facts while the writer is at others.

    Of a single one its terms are left to the writer: it has them for all of a commit.
    """
    lines = fact_event_json.encode_without_ids(facts)
    if len(facts) == 1:
        return [WorkedOut(facts[0].rendering, lines[0])]
    return [
        WorkedOut(term_ids.packed_of(new.rendering) if new.terms is None else new.terms, line)
        for new, line in zip(facts, lines, strict=True)
    ]


def store_all(
    tx: Transaction,
    facts: Sequence[NewFact],
    actor: Actor,
    worked_out: Sequence[WorkedOut] | None = None,
) -> tuple[Remembered, ...]:
    """Store facts inside a write, or confirm their equals; the answers are in their order.

    `worked_out` is what `work_out` gives for the facts, when that is known.

    Raises:
        RetractedBefore: an equal was retracted in the scope.
    """
    scopes = _scopes(tx, facts, actor)
    known = _equals(tx, facts, scopes)
    worked_out = work_out(facts) if worked_out is None else worked_out
    if not known and _are_apart(facts, scopes):
        fact_ids = tx.new_ids(len(facts))
        _write(tx, zip(facts, fact_ids, worked_out, strict=True), scopes, actor)
        return tuple(map(_created, fact_ids))
    answers: list[Remembered] = []
    waiting: list[tuple[NewFact, str, WorkedOut]] = []
    for new, more in zip(facts, worked_out, strict=True):
        key = (scopes[new.scope], new.content_hash)
        if new.key_hash is None and key not in known:
            known.add(key)
            fact_id = tx.new_id()
            waiting.append((new, fact_id, more))
            answers.append(_created(fact_id))
        else:
            known.add(key)
            _write(tx, waiting, scopes, actor)
            waiting = []
            answers.append(remember.remember_fact(SqliteUnitOfWork(tx), new, actor))
    _write(tx, waiting, scopes, actor)
    return tuple(answers)


def _are_apart(facts: Sequence[NewFact], scopes: Mapping[str, int]) -> bool:
    """Tell whether no fact has a key or says what another of them does."""
    said = {(scopes[new.scope], new.content_hash) for new in facts}
    return len(said) == len(facts) and all(new.key_hash is None for new in facts)


_NOTHING_ELSE: Mapping[str, Any] = Remembered(fact_id="", status="created").__dict__


def _created(fact_id: str) -> Remembered:
    return base_model.construct_unchecked(Remembered, {**_NOTHING_ELSE, "fact_id": fact_id})


def _scopes(tx: Transaction, facts: Sequence[NewFact], actor: Actor) -> dict[str, int]:
    paths = dict.fromkeys([new.scope for new in facts])
    if len(paths) <= 1:
        return {path: base.ensure_scope(tx, path, actor.name) for path in paths}
    return base.ensure_scopes(tx, paths, actor.name)


def _equals(
    tx: Transaction, facts: Sequence[NewFact], scopes: Mapping[str, int]
) -> set[tuple[int, bytes]]:
    """Find which of the facts have an equal, by scope and hash."""
    asked: dict[int, list[bytes]] = {}
    for new in facts:
        asked.setdefault(scopes[new.scope], []).append(new.content_hash)
    found: set[tuple[int, bytes]] = set()
    for scope_no, hashes in asked.items():
        found.update([(scope_no, each) for each in tx.equals.among(scope_no, hashes)])
    return found


def _write(
    tx: Transaction,
    given: Iterable[tuple[NewFact, str, WorkedOut]],
    scopes: Mapping[str, int],
    actor: Actor,
) -> None:
    told: dict[int, _Told] = {}
    for new, fact_id, more in given:
        scope_no = scopes[new.scope]
        if scope_no not in told:
            told[scope_no] = _Told(scope_no, actor.name, [], [], [])
        told[scope_no].facts.append(new)
        told[scope_no].fact_ids.append(fact_id)
        told[scope_no].worked_out.append(more)
    for scope_no, one in told.items():
        if actor.is_bounded:
            capacity.require_room(tx, scope_no, len(one.facts))
    _record(tx, list(told.values()))


def _record(tx: Transaction, told: Sequence[_Told]) -> None:
    if not told:
        return
    first = int((tx.one(_NEXT) or (0,))[0]) + 1
    firsts = list(itertools.accumulate((len(one.facts) for one in told), initial=first))
    said = [
        EncodedEvent(
            one.scope_no,
            one.actor,
            fact_event_json.with_ids([more.line for more in one.worked_out], one.fact_ids, no),
        )
        for one, no in zip(told, firsts, strict=False)
    ]
    seqs = tx.append_encoded(fact_events.RECORDED, said)
    new = [
        bulk_facts.New(one.scope_no, seq, no, one.fact_ids, one.facts)
        for one, seq, no in zip(told, seqs, firsts, strict=False)
    ]
    bulk_facts.record(tx.connection, new, tx.at_us)
    for one, no in zip(told, firsts, strict=False):
        numbers = range(no, no + len(one.facts))
        tx.equals.add(one.scope_no, [new.content_hash for new in one.facts], numbers)
        tx.index(one.scope_no, zip(numbers, [more.text for more in one.worked_out], strict=True))
