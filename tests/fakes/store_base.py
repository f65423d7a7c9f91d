"""What every half of the in-memory store shares."""

from __future__ import annotations

import copy
import itertools
import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar, cast

from knowledge_client.models import (
    Episode,
    Extraction,
    Fact,
    PrincipalIn,
    Run,
    ScopeConfig,
)
from knowledge_service import clock as clocks
from knowledge_service import uuid7
from knowledge_service.domain.access_control import (
    View,
    lineage,
    realm_of,
)
from knowledge_service.domain.capacity import UNDECLARED_FACTS
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import (
    IdempotencyConflict,
    ServiceError,
    StoreUnavailable,
)
from knowledge_service.event_log import times
from knowledge_service.fact_transactions.dry_run import DryRunRollback
from knowledge_service.fact_transactions.unit_of_work import RunExposure
from knowledge_service.ports import (
    Actor,
    IdempotencyKey,
    NewReceipt,
)
from knowledge_service.search import pipeline
from knowledge_service.search.pipeline import RankerConfig
from tests.fakes.store_unit_of_work import Book

T = TypeVar("T")
Slot = tuple[int, str]
"""Number of the realm's scope, and run id."""


@dataclass
class Row:
    """A fact with what the port does not show."""

    number: int
    fact: Fact
    content_hash: bytes
    key_hash: bytes | None
    terms: Counter[str]


@dataclass
class Entry:
    """A run with all that is recorded of it."""

    run: Run
    last_at: datetime
    by_agent: bool = False
    is_credited: bool = False
    episodes: list[Episode] = field(default_factory=list)
    episode_keys: set[tuple[int, str]] = field(default_factory=set)
    extraction: Extraction | None = None
    limit: int = 0
    retry_at: datetime | None = None
    called_at: datetime | None = None
    cost: Decimal = Decimal(0)


_numbers = itertools.count(1)


@dataclass
class StoredScope:
    """A scope; `number` tells it from a later one of its path."""

    path: str
    number: int = field(default_factory=lambda: next(_numbers))
    realm_uid: str | None = None
    config: ScopeConfig | None = None
    last_write_at: datetime | None = None
    rows: list[Row] = field(default_factory=list)


class Base:
    """Everything that is kept, in dictionaries under one lock."""

    def __init__(
        self,
        clock: clocks.Clock = clocks.now,
        *,
        undeclared_facts: int = UNDECLARED_FACTS,
        ranker_config: RankerConfig = pipeline.DEFAULT_CONFIG,
    ) -> None:
        self.ranker_config = ranker_config
        self.problem: str | None = None
        self.erased_at_s = -math.inf
        self.undeclared_facts = undeclared_facts
        self.book = Book()
        self._clock = clock
        self._lock = threading.RLock()
        self._ids = uuid7.Uuid7Generator()
        self._last: datetime | None = None
        self._numbers = 0
        self._scopes: dict[str, StoredScope] = {}
        self._graves: list[tuple[datetime | None, StoredScope]] = []
        self._to_erase: list[tuple[str, str, Actor]] = []
        self._retired_uids: set[tuple[str, str]] = set()
        self._principals: dict[str, PrincipalIn] = {}
        self._receipts: dict[str, NewReceipt] = {}
        self._usage: Counter[tuple[str, str, str]] = Counter()
        self._fact_usage: Counter[tuple[str, str]] = Counter()
        self._by_observer: Counter[tuple[str, str, str]] = Counter()
        self._names: dict[tuple[str, str, str], str] = {}
        self._sequences: dict[tuple[str, str, str], int] = {}
        self._shown: dict[str, list[Slot]] = {}
        self._ledger: dict[Slot, Entry] = {}
        self._answers: dict[tuple[str, str], tuple[str, Any, datetime]] = {}

    def _now(self) -> datetime:
        now = self._clock()
        self._last = now if self._last is None else max(self._last, now)
        return self._last

    def _check(self) -> None:
        if self.problem:
            raise StoreUnavailable(self.problem)

    def _once(
        self,
        idempotency_key: IdempotencyKey | None,
        work: Callable[[], T],
        may_store: Callable[[T], bool] = lambda _: True,
    ) -> T:
        with self._lock:
            self._check()
            if idempotency_key is None:
                return self._together(work)
            key = (idempotency_key.principal, idempotency_key.key)
            self._drop_expired_answers()
            if key in self._answers:
                body_hash, answer, _ = cast("tuple[str, T, datetime]", self._answers[key])
                if body_hash != idempotency_key.body_hash:
                    raise IdempotencyConflict(
                        f"Idempotency-Key {idempotency_key.key!r} was used with another body"
                        " within 24 h; send a new key"
                    )
                return answer
            answer = self._together(work)
            if may_store(answer):
                self._answers[key] = (idempotency_key.body_hash, answer, self._now())
            return answer

    def _drop_expired_answers(self) -> None:
        oldest = self._now() - timedelta(hours=24)
        for key, (_, _, at) in list(self._answers.items()):
            if at < oldest:
                del self._answers[key]

    def _together(self, work: Callable[[], T]) -> T:
        """Do all of it or nothing."""
        scopes = {path: (scope, list(scope.rows)) for path, scope in self._scopes.items()}
        facts = [(row, row.fact) for scope in self._scopes.values() for row in scope.rows]
        book = copy.deepcopy(self.book)
        names, last = dict(self._names), dict(self._sequences)
        try:
            return work()
        except (ServiceError, DryRunRollback):
            self._scopes = {path: scope for path, (scope, _) in scopes.items()}
            for scope, rows in scopes.values():
                scope.rows = rows
            for row, fact in facts:
                row.fact = fact
            self.book = book
            self._names, self._sequences = names, last
            raise

    @property
    def live_links(self) -> set[tuple[str, str, str]]:
        """The live links as (from, to, type)."""
        return {(link.from_id, link.to_id, link.type) for link in self.book.links.values()}

    def links_live_at(self, known_at: datetime | None) -> set[tuple[str, str, str]]:
        """Return those of the live links that were made until a moment."""
        until = None if known_at is None else times.to_us(known_at)
        return {
            (item.from_id, item.to_id, item.type)
            for item in self.book.links.values()
            if until is None or self.book.linked_at[item.id] <= until
        }

    def latest(self) -> datetime:
        return self._last or datetime(1970, 1, 1, tzinfo=UTC)

    def moment(self) -> datetime:
        """Return the moment of a write."""
        return self._now()

    def make_id(self, now: datetime) -> str:
        """Return a new id."""
        return self._ids.generate(now)

    def rows(self, path: str) -> list[Row]:
        """Return the rows of a scope, the oldest first."""
        return self._scopes[path].rows if path in self._scopes else []

    def row(self, fact_id: str) -> Row | None:
        """Find a row."""
        rows = (row for scope in self._scopes.values() for row in scope.rows)
        return next((row for row in rows if row.fact.id == fact_id), None)

    def visible(self, fact_id: str, view: View) -> bool:
        """Tell whether a fact is there and seen."""
        row = self.row(fact_id)
        return row is not None and view.can_read_fact(row.fact.scope, row.fact.review)

    def add_row(
        self, fact: Fact, content_hash: bytes, key_hash: bytes | None, terms: Counter[str]
    ) -> None:
        """Keep a new fact."""
        self._numbers += 1
        row = Row(self._numbers, fact, content_hash, key_hash, terms)
        self._scope(fact.scope).rows.append(row)

    def drop_row(self, fact_id: str) -> None:
        """Forget a fact."""
        for scope in self._scopes.values():
            scope.rows = [row for row in scope.rows if row.fact.id != fact_id]

    def wrote(self, path: str, at: datetime) -> None:
        """Note when a scope was written to last."""
        self._scope(path).last_write_at = at
        self.happened(path)

    def happened(self, path: str) -> None:
        """Note in which scope the last event is."""
        self._scope(path)
        if self.book.log:
            self.book.scopes.setdefault(self.book.log[-1].seq, path)

    def declared(self, path: str) -> ScopeConfig | None:
        """Return a scope's declaration."""
        return self._scopes[path].config if path in self._scopes else None

    def drop_answers(self, fact_id: str) -> None:
        """Forget the kept answers that hold a fact; those that name it only stay."""
        for key, (_, answer, _) in list(self._answers.items()):
            if fact_id in repr(answer) and "content=" in repr(answer):
                del self._answers[key]

    def shown_in(self, fact_id: str) -> list[RunExposure]:
        """Return the closed runs of missions that had a fact in front of them."""
        run_exposures = []
        for slot in self._shown.get(fact_id, []):
            run = self._ledger[slot].run
            if run.kind != "mission":
                continue
            message = f"{run.namespace}/{run.mission}" if run.mission else run.run_id
            run_exposures.append(RunExposure(run.run_id, message, run.outcome or ""))
        return run_exposures

    def _slot(self, key: RunKey) -> Slot | None:
        realm = self._scopes.get(key.realm)
        return (realm.number, key.run_id) if realm else None

    def _entry(self, key: RunKey) -> Entry | None:
        slot = self._slot(key)
        return self._ledger.get(slot) if slot else None

    def _run_of(self, new: NewReceipt) -> Run | None:
        """Return the run that a receipt is bound to."""
        entry = self._entry(RunKey(new.realm, new.receipt.run)) if new.receipt.run else None
        return entry.run if entry else None

    def names_of(self, fact_id: str) -> list[tuple[str, str, str]]:
        """Return scope, namespace and value of each name of a fact."""
        return sorted(key for key, holder in self._names.items() if holder == fact_id)

    def named_fact(self, key: tuple[str, str, str]) -> str | None:
        """Return the fact with a name."""
        return self._names.get(key)

    def set_name(self, key: tuple[str, str, str], fact_id: str | None) -> None:
        """Give a name to a fact, or free it."""
        if fact_id is None:
            self._names.pop(key, None)
        elif self.row(fact_id):
            self._names[key] = fact_id

    def last_number(self, scope: str, namespace: str, prefix: str) -> int:
        """Return the last number of a sequence."""
        return self._sequences.get((scope, namespace, prefix), 0)

    def named_facts(self, realm: str, namespace: str, value: str) -> list[str]:
        """Return the facts of a realm with a name."""
        return sorted(
            holder
            for (scope, *name), holder in self._names.items()
            if realm_of(scope) == realm and name == [namespace, value]
        )

    def last_number_in_realm(self, realm: str, namespace: str, prefix: str) -> int:
        """Return the last number of a sequence in all scopes of a realm."""
        last = (
            number
            for (scope, *sequence), number in self._sequences.items()
            if realm_of(scope) == realm and sequence == [namespace, prefix]
        )
        return max(last, default=0)

    def take_number(self, scope: str, namespace: str, prefix: str, last: int) -> None:
        """Keep the last number of a sequence."""
        self._sequences[(scope, namespace, prefix)] = last

    def versions_of(self, fact_id: str) -> set[str]:
        """Return the ids of all versions of a fact."""
        root = self.book.roots.get(fact_id, fact_id)
        return {root, fact_id, *(each for each, first in self.book.roots.items() if first == root)}

    def _scope(self, path: str) -> StoredScope:
        for each in lineage(path):
            self._scopes.setdefault(each, StoredScope(each))
        return self._scopes[path]

    def _seen(self, view: View, named: tuple[str, ...] | None) -> list[StoredScope]:
        return [
            scope
            for path, scope in self._scopes.items()
            if view.can_read(path) and (named is None or path in named)
        ]

    def _paths(self, view: View, named: tuple[str, ...] | None) -> set[str]:
        paths = {scope.path for scope in self._seen(view, named)}
        return paths | {path for path in lineage(view.home) if named is None or path in named}

    def _fact(self, fact_id: str) -> Fact:
        row = self.row(fact_id)
        assert row is not None
        return row.fact

    def _scope_of(self, fact_id: str) -> str:
        row = self.row(fact_id)
        return row.fact.scope if row else ""
