"""What every half of the in-memory store shares."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from knowledge_client.models import (
    Episode,
    Extraction,
    Fact,
    PrincipalIn,
    Run,
    ScopeConfig,
)
from knowledge_service import clock as clocks
from knowledge_service import ids
from knowledge_service.domain.visibility import (
    View,
    lineage,
)
from knowledge_service.errors import (
    IdempotencyConflict,
    StoreUnavailable,
)
from knowledge_service.ports import (
    NewReceipt,
    Once,
)

T = TypeVar("T")


@dataclass
class Row:
    """A fact with what the port does not show."""

    number: int
    fact: Fact
    content_hash: bytes
    key_hash: bytes | None
    terms: Counter[str]
    closed_reason: str | None = None


@dataclass
class StoredScope:
    path: str
    realm_uid: str | None = None
    config: ScopeConfig | None = None
    last_write_at: datetime | None = None
    rows: list[Row] = field(default_factory=list)


class Base:
    """Everything that is kept, in dictionaries under one lock."""

    def __init__(self, clock: clocks.Clock = clocks.now) -> None:
        self.problem: str | None = None
        self.links: set[tuple[str, str, str]] = set()
        self._clock = clock
        self._lock = threading.RLock()
        self._ids = ids.IdMaker()
        self._last: datetime | None = None
        self._numbers = 0
        self._scopes: dict[str, StoredScope] = {}
        self._retired_uids: set[tuple[str, str]] = set()
        self._principals: dict[str, PrincipalIn] = {}
        self._receipts: dict[str, NewReceipt] = {}
        self._usage: Counter[tuple[str, str, str]] = Counter()
        self._runs: dict[str, Run] = {}
        self._run_realms: dict[str, StoredScope] = {}
        self._last_at: dict[str, datetime] = {}
        self._credited: set[str] = set()
        self._episodes: dict[str, list[Episode]] = {}
        self._episode_keys: set[tuple[str, int, str]] = set()
        self._extractions: dict[str, Extraction] = {}
        self._limits: dict[str, int] = {}
        self._answers: dict[tuple[str, str], tuple[str, Any]] = {}

    def _now(self) -> datetime:
        now = self._clock()
        self._last = now if self._last is None else max(self._last, now)
        return self._last

    def _check(self) -> None:
        if self.problem:
            raise StoreUnavailable(self.problem)

    def _once(self, once: Once | None, work: Callable[[], T]) -> T:
        with self._lock:
            self._check()
            if once is None:
                return work()
            key = (once.principal, once.key)
            if key in self._answers:
                body_hash, answer = self._answers[key]
                if body_hash != once.body_hash:
                    raise IdempotencyConflict(
                        f"Idempotency-Key {once.key!r} was used with another body within 24 h;"
                        " send a new key"
                    )
                return answer
            answer = work()
            self._answers[key] = (once.body_hash, answer)
            return answer

    def _scope(self, path: str) -> StoredScope:
        for each in lineage(path):
            self._scopes.setdefault(each, StoredScope(each))
        return self._scopes[path]

    def _seen(self, view: View, named: tuple[str, ...] | None) -> list[StoredScope]:
        return [
            scope
            for path, scope in self._scopes.items()
            if view.sees(path) and (named is None or path in named)
        ]

    def _paths(self, view: View, named: tuple[str, ...] | None) -> set[str]:
        found = {scope.path for scope in self._seen(view, named)}
        return found | {path for path in lineage(view.home) if named is None or path in named}
