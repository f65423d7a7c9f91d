"""Writes facts: in bulk when they affect no other fact, else one by one through the unit of work.

A fact that has neither a key nor an equal affects no other fact, so a batch of them is written as
one event with a few statements.
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
from knowledge_service.fact_transactions import store_fact
from knowledge_service.ports import Actor
from knowledge_service.search.text import term_ids
from knowledge_service.store.sqlite.db import posting_table
from knowledge_service.store.sqlite.db.transaction import BatchableJob, Transaction
from knowledge_service.store.sqlite.projections import bulk_facts, trigram_index
from knowledge_service.store.sqlite.repositories import base, capacity
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_NEXT = "SELECT coalesce(max(fact_no), 0) FROM fact"


class PreparedFact(NamedTuple):
    """What is computed for a fact before it is written: the text to index, and its log line."""

    text: posting_table.Text
    line: bytes


class _FactsEvent(NamedTuple):
    """The content of one event: facts of one scope that affect no others, and their actor."""

    scope_no: int
    actor: str
    facts: list[NewFact]
    fact_ids: list[str]
    prepared: list[PreparedFact]


@dataclass(frozen=True)
class BulkRemember(BatchableJob):
    """The facts of one call, none of which has a key or an alias; the call has no idempotency key.

    `prepared` is the result of `prepare_facts` for them.
    """

    facts: Sequence[NewFact]
    actor: Actor
    prepared: Sequence[PreparedFact]

    def __call__(self, tx: Transaction) -> tuple[Remembered, ...]:
        """Store the facts, or confirm their equals."""
        return remember_all(tx, self.facts, self.actor, self.prepared)

    def run_batch(
        self, tx: Transaction, jobs: Sequence[BulkRemember]
    ) -> list[tuple[Remembered, ...]]:
        """Store the facts of several calls, up to the first fact that has an equal."""
        facts = [new for job in jobs for new in job.facts]
        scopes: dict[str, int] = {}
        for job in jobs:
            scopes |= _scopes(tx, [new for new in job.facts if new.scope not in scopes], job.actor)
        existing = _existing_equals(tx, facts, scopes)
        events: list[_FactsEvent] = []
        room = _CapacityReservation(tx)
        for job in jobs:
            scope_no = scopes[job.facts[0].scope]
            keys = {(scopes[new.scope], new.content_hash) for new in job.facts}
            if (
                len(keys) < len(job.facts)
                or keys & existing
                or {key_scope for key_scope, _ in keys} != {scope_no}
            ):
                break
            if not room.reserve(scope_no, len(keys), job.actor):
                break
            existing |= keys
            fact_ids = tx.new_ids(len(job.facts))
            parts = (list(job.facts), fact_ids, list(job.prepared))
            events.append(_FactsEvent(scope_no, job.actor.name, *parts))
        _record(tx, events)
        return [tuple(map(_created, event.fact_ids)) for event in events]


class _CapacityReservation:
    """The remaining capacity of scopes while several calls are merged."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._taken: Counter[int] = Counter()

    def reserve(self, scope_no: int, count: int, actor: Actor) -> bool:
        """Reserve room for `count` facts of an agent; return False when there is none."""
        self._taken[scope_no] += count
        return not actor.is_bounded or capacity.has_room(self._tx, scope_no, self._taken[scope_no])


def can_bulk_insert(new: NewFact) -> bool:
    """Return whether a fact can be part of a `BulkRemember`."""
    return new.key_hash is None and not new.aliases


def prepare_facts(facts: Sequence[NewFact]) -> list[PreparedFact]:
    """Prepare facts outside the writer thread.

    The terms of a single fact are left to the writer, which computes them for a whole commit.
    """
    lines = fact_event_json.encode_without_ids(facts)
    if len(facts) == 1:
        return [PreparedFact(facts[0].rendering, lines[0])]
    return [
        PreparedFact(term_ids.term_ids_of(new.rendering) if new.terms is None else new.terms, line)
        for new, line in zip(facts, lines, strict=True)
    ]


def remember_all(
    tx: Transaction,
    facts: Sequence[NewFact],
    actor: Actor,
    prepared: Sequence[PreparedFact] | None = None,
) -> tuple[Remembered, ...]:
    """Store facts inside a write, or confirm their equals; the answers are in the same order.

    `prepared` is the result of `prepare_facts` for the facts, if it was computed before.

    Raises:
        PreviouslyRetracted: an equal was retracted in the scope.
    """
    scopes = _scopes(tx, facts, actor)
    existing = _existing_equals(tx, facts, scopes)
    prepared = prepare_facts(facts) if prepared is None else prepared
    if not existing and _are_independent(facts, scopes):
        fact_ids = tx.new_ids(len(facts))
        _write(tx, zip(facts, fact_ids, prepared, strict=True), scopes, actor)
        return tuple(map(_created, fact_ids))
    answers: list[Remembered] = []
    waiting: list[tuple[NewFact, str, PreparedFact]] = []
    for new, prepared_fact in zip(facts, prepared, strict=True):
        key = (scopes[new.scope], new.content_hash)
        if new.key_hash is None and key not in existing:
            existing.add(key)
            fact_id = tx.new_id()
            waiting.append((new, fact_id, prepared_fact))
            answers.append(_created(fact_id))
        else:
            existing.add(key)
            _write(tx, waiting, scopes, actor)
            waiting = []
            answers.append(store_fact.store_or_confirm_fact(SqliteUnitOfWork(tx), new, actor))
    _write(tx, waiting, scopes, actor)
    return tuple(answers)


def _are_independent(facts: Sequence[NewFact], scopes: Mapping[str, int]) -> bool:
    """Return whether no fact has a key or equals another one of the batch."""
    keys = {(scopes[new.scope], new.content_hash) for new in facts}
    return len(keys) == len(facts) and all(new.key_hash is None for new in facts)


_CREATED_DEFAULTS: Mapping[str, Any] = Remembered(fact_id="", status="created").__dict__


def _created(fact_id: str) -> Remembered:
    return base_model.construct_unchecked(Remembered, {**_CREATED_DEFAULTS, "fact_id": fact_id})


def _scopes(tx: Transaction, facts: Sequence[NewFact], actor: Actor) -> dict[str, int]:
    paths = dict.fromkeys([new.scope for new in facts])
    if len(paths) <= 1:
        return {path: base.ensure_scope(tx, path, actor.name) for path in paths}
    return base.ensure_scopes(tx, paths, actor.name)


def _existing_equals(
    tx: Transaction, facts: Sequence[NewFact], scopes: Mapping[str, int]
) -> set[tuple[int, bytes]]:
    """Return the facts that have an equal, by scope and hash."""
    hashes_by_scope: dict[int, list[bytes]] = {}
    for new in facts:
        hashes_by_scope.setdefault(scopes[new.scope], []).append(new.content_hash)
    existing: set[tuple[int, bytes]] = set()
    for scope_no, hashes in hashes_by_scope.items():
        existing.update(
            [
                (scope_no, content_hash)
                for content_hash in tx.hash_index.find_existing(scope_no, hashes)
            ]
        )
    return existing


def _write(
    tx: Transaction,
    new_facts: Iterable[tuple[NewFact, str, PreparedFact]],
    scopes: Mapping[str, int],
    actor: Actor,
) -> None:
    events: dict[int, _FactsEvent] = {}
    for new, fact_id, prepared_fact in new_facts:
        scope_no = scopes[new.scope]
        if scope_no not in events:
            events[scope_no] = _FactsEvent(scope_no, actor.name, [], [], [])
        events[scope_no].facts.append(new)
        events[scope_no].fact_ids.append(fact_id)
        events[scope_no].prepared.append(prepared_fact)
    for scope_no, event in events.items():
        if actor.is_bounded:
            capacity.require_room(tx, scope_no, len(event.facts))
    _record(tx, list(events.values()))


def _record(tx: Transaction, events: Sequence[_FactsEvent]) -> None:
    if not events:
        return
    first = int((tx.fetch_first(_NEXT) or (0,))[0]) + 1
    firsts = list(itertools.accumulate((len(event.facts) for event in events), initial=first))
    encoded_events = [
        EncodedEvent(
            event.scope_no,
            event.actor,
            fact_event_json.with_ids(
                [prepared_fact.line for prepared_fact in event.prepared], event.fact_ids, fact_no
            ),
        )
        for event, fact_no in zip(events, firsts, strict=False)
    ]
    seqs = tx.append_encoded(fact_events.RECORDED, encoded_events)
    new = [
        bulk_facts.NewFactsEvent(event.scope_no, seq, fact_no, event.fact_ids, event.facts)
        for event, seq, fact_no in zip(events, seqs, firsts, strict=False)
    ]
    bulk_facts.record(tx.connection, new, tx.at_us)
    for event, fact_no in zip(events, firsts, strict=False):
        numbers = range(fact_no, fact_no + len(event.facts))
        tx.hash_index.add(event.scope_no, [new.content_hash for new in event.facts], numbers)
        tx.index(
            event.scope_no,
            zip(numbers, [prepared_fact.text for prepared_fact in event.prepared], strict=True),
        )
        for number, new_fact in zip(numbers, event.facts, strict=True):
            if new_fact.kind in trigram_index.KINDS:
                texts = (new_fact.content, new_fact.title, new_fact.subject)
                entry = trigram_index.entry(event.scope_no, number, new_fact.kind, texts)
                tx.trigrams.add(entry)
