"""What the knowledge service has confirmed to this process; see `ports.KnowledgeSyncState`.

A bounded cache: what it drops is sent again, which the service treats as a repeat. `sync_loop`
reads the statistics that are due here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kais import scopes
from kais_operator.planning import memo
from kais_operator.ports import Clock
from knowledge_client import models

REFRESH_PERIOD_S = 30.0
"""A change of an object's statistics reaches its status at most this often (api.md)."""
POLL_PERIOD_S = 300.0
"""Blueprints without local changes are read this often: others write to the ledger too."""
REFUSAL_RETRY_S = 3600.0
"""Refused data is sent again after this time, in case the cause is gone."""
_MAX_ITEMS = 20_000  # arbitrary: some ten times the missions of a busy hour

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _BoundedMap(Generic[K, V]):
    """A map that drops the entries that were set longest ago."""

    def __init__(self) -> None:
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def set(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > _MAX_ITEMS:
            self._items.popitem(last=False)

    def drop(self, key: K) -> None:
        self._items.pop(key, None)

    def list_keys(self) -> list[K]:
        return list(self._items)

    def items(self) -> list[tuple[K, V]]:
        return list(self._items.items())

    def clear(self) -> None:
        self._items.clear()


@dataclass
class _StatsQuery(Generic[V]):
    """A query for statistics and its last answer.

    `announced_at` is when a change was last reported; the first answer is not a change. From
    `stale_at` on the answer is known to be old.
    """

    answer: V | None = None
    read_at: float | None = None
    announced_at: float | None = None
    stale_at: float | None = None

    def is_due(self, now: float, *, period_s: float) -> bool:
        if self.read_at is None:
            return True
        if self.announced_at is not None and now - self.announced_at < REFRESH_PERIOD_S:
            return False
        is_stale = self.stale_at is not None and now >= self.stale_at
        return is_stale or now - self.read_at >= period_s

    def mark_stale(self, stale_at: float) -> None:
        self.stale_at = stale_at if self.stale_at is None else min(self.stale_at, stale_at)


class KnowledgeSyncState:
    """The KnowledgeSyncState port."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unavailable_reason: str | None = None
        self._store: models.StoreIdentity | None = None
        self._principals: _BoundedMap[str, bytes] = _BoundedMap()  # digests: models take 4 KB
        self._scopes: _BoundedMap[str, models.ScopeConfig] = _BoundedMap()
        self._configured_paths: set[str] = set()
        self._open: _BoundedMap[tuple[str | None, str], bool] = _BoundedMap()
        self._closed: _BoundedMap[tuple[str | None, str], bool] = _BoundedMap()
        self._extracted: _BoundedMap[tuple[str | None, str], bool] = _BoundedMap()
        self._counted: _BoundedMap[tuple[str | None, str], bool] = _BoundedMap()
        self._refused: _BoundedMap[str, tuple[str, float]] = _BoundedMap()
        self._refused_episodes: _BoundedMap[str, str] = _BoundedMap()
        self._failed: _BoundedMap[str, tuple[type[Exception], str]] = _BoundedMap()
        self._blueprint_stats: _BoundedMap[tuple[str, str], _StatsQuery[models.BlueprintStats]] = (
            _BoundedMap()
        )
        self._scope_stats: _BoundedMap[str, _StatsQuery[models.ScopeStats]] = _BoundedMap()
        self.refresh_requested = asyncio.Event()
        """Set when statistics are to be read without waiting for the next period."""

    # The port

    def unavailable_reason(self) -> str | None:
        """Return why the service did not answer the last call; None if it did."""
        return self._unavailable_reason

    def is_registered(self, principal: models.PrincipalIn) -> bool:
        """Return whether the service has exactly this registration."""
        return self._principals.get(principal.subject.username) == _digest(principal)

    def mark_registered(self, principal: models.PrincipalIn) -> None:
        """Record that the service has this registration."""
        self._principals.set(principal.subject.username, _digest(principal))

    def is_configured(self, path: str, config: models.ScopeConfig) -> bool:
        """Return whether the service has exactly this configuration."""
        return self._scopes.get(path) == config

    def mark_configured(self, path: str, config: models.ScopeConfig) -> None:
        """Record that the service has this configuration."""
        self._scopes.set(path, config)
        self.record_settings(path, config)

    def mark_deleted(self, path: str) -> None:
        """Record that a scope was deleted with its settings; they may be declared again."""
        self._scopes.drop(path)
        self._configured_paths.discard(path)

    def configured_below(self, path: str) -> frozenset[str]:
        """Return this scope and those below it that have other settings than the defaults."""
        return frozenset(p for p in self._configured_paths if p == path or p.startswith(f"{path}/"))

    def is_run_open(self, namespace: str | None, run_id: str) -> bool:
        """Return whether the ledger has this run, open or closed."""
        return self._open.get((namespace, run_id)) is not None

    def mark_run_open(self, namespace: str | None, run_id: str) -> None:
        """Record that the ledger has this run."""
        self._open.set((namespace, run_id), True)

    def is_run_closed(self, namespace: str | None, run_id: str) -> bool:
        """Return whether the ledger has the end of this run."""
        return self._closed.get((namespace, run_id)) is not None

    def mark_run_closed(self, namespace: str | None, run_id: str) -> None:
        """Record that the ledger has the end of this run."""
        self._closed.set((namespace, run_id), True)

    def is_extraction_accepted(self, namespace: str | None, run_id: str) -> bool:
        """Return whether the service accepted the extraction of this run."""
        return self._extracted.get((namespace, run_id)) is not None

    def mark_extraction_accepted(self, namespace: str | None, run_id: str) -> None:
        """Record that the service accepted the extraction of this run."""
        self._extracted.set((namespace, run_id), True)

    def is_extraction_counted(self, namespace: str | None, run_id: str) -> bool:
        """Return whether the statistics include the extraction of this run."""
        return self._counted.get((namespace, run_id)) is not None

    def mark_extraction_counted(self, namespace: str | None, run_id: str) -> None:
        """Record that the statistics are read again after the extraction of this run."""
        self._counted.set((namespace, run_id), True)

    def refusal(self, key: str) -> str | None:
        """Return why the service refused a run or settings; None after an hour."""
        message, refused_at = self._refused.get(key) or ("", -REFUSAL_RETRY_S)
        return message if self._clock.monotonic() - refused_at < REFUSAL_RETRY_S else None

    def record_refusal(self, key: str, message: str) -> None:
        """Record why the service refuses a run or settings, by their key."""
        self._refused.set(key, (message, self._clock.monotonic()))

    def episodes_refusal(self, key: str) -> str | None:
        """Return why the service took no episodes of a run that is recorded without them."""
        return self._refused_episodes.get(key)

    def record_episodes_refusal(self, key: str, message: str) -> None:
        """Record why the service takes no episodes of a run, by its key."""
        self._refused_episodes.set(key, message)

    def failure(self, key: str) -> str | None:
        """Return why calls about a run, an account or settings fail; None if they do not."""
        failed = self._failed.get(key)
        return None if failed is None else failed[1]

    def record_failure(self, key: str, error: Exception) -> None:
        """Record why a call fails that is repeated; the first error of a class stays.

        Each call may have its own message, and statuses would be written again for each. An error
        of another class has another cause, such as missing rights after a service that was away.
        """
        failed = self._failed.get(key)
        if failed is None or failed[0] is not type(error):
            self._failed.set(key, (type(error), str(error)))

    def forget_failure(self, key: str) -> None:
        """Record that the service took a call."""
        self._failed.drop(key)

    def blueprint_stats(self, namespace: str, name: str) -> models.BlueprintStats | None:
        """Return the answer of the last batch, None before it; later batches include it."""
        return self._blueprint_query(namespace, name).answer

    def scope_stats(self, path: str) -> models.ScopeStats | None:
        """Return the answer of the last batch, None before it; later batches include it."""
        query = self._scope_stats.get(path)
        if query is None:
            query = _StatsQuery()
            self._scope_stats.set(path, query)
            self.refresh_requested.set()
        return query.answer

    def request_refresh(self, namespace: str, blueprint: str | None, *, is_urgent: bool) -> None:
        """Include a Blueprint in a next batch; if urgent, at once, with the realm's scopes.

        At once means 30 s after the last reported change; otherwise it is 30 s from now.
        """
        now = self._clock.monotonic()
        if blueprint is not None:
            blueprint_query = self._blueprint_query(namespace, blueprint)
            blueprint_query.mark_stale(now if is_urgent else now + REFRESH_PERIOD_S)
        if not is_urgent:
            return
        realm = str(scopes.Scope(namespace))
        for path, query in self._scope_stats.items():
            if path == realm or path.startswith(f"{realm}/"):
                query.mark_stale(now)
        self.refresh_requested.set()

    # For `client` and `sync_loop`

    def record_availability(self, problem: str | None) -> None:
        """Record why the service did not answer; None if it did.

        The first reason stays until an answer: each call has its own message, and statuses would be
        written again for each.
        """
        if problem is None or self._unavailable_reason is None:
            self._unavailable_reason = problem

    def record_settings(self, path: str, config: models.ScopeConfig) -> None:
        """Record the settings that the service has for a scope, no matter who set them."""
        if config == models.ScopeConfig():
            self._configured_paths.discard(path)
        else:
            self._configured_paths.add(path)

    def record_store(self, store: models.StoreIdentity) -> bool:
        """Record which store answered; clear everything and return True if it is another one."""
        previous, self._store = self._store, store
        if previous is None or previous == store:
            return False
        self.clear()
        for key in self._blueprint_stats.list_keys():
            self._blueprint_stats.set(key, _StatsQuery())
        for path in self._scope_stats.list_keys():
            self._scope_stats.set(path, _StatsQuery())
        return True

    def clear(self) -> None:
        """Drop everything that was confirmed, so that it is sent again."""
        self._configured_paths.clear()
        self._refused.clear()
        self._refused_episodes.clear()
        self._failed.clear()
        for confirmed in (
            self._principals,
            self._scopes,
            self._open,
            self._closed,
            self._extracted,
            self._counted,
        ):
            confirmed.clear()

    def clear_registrations(self) -> None:
        """Drop principals and scopes, so that they are sent again; runs stay."""
        self._principals.clear()
        self._scopes.clear()

    def due_stats(self, *, limit: int = 2000) -> models.StatsIn:
        """Return what the next batch reads, at most `limit` of each kind.

        Statistics that become stale while the batch is read stay stale, and are read again.
        """
        now = self._clock.monotonic()
        blueprints = [
            (key, query)
            for key, query in self._blueprint_stats.items()
            if query.is_due(now, period_s=POLL_PERIOD_S)
        ][:limit]
        paths = [
            (path, query)
            for path, query in self._scope_stats.items()
            if query.is_due(now, period_s=REFRESH_PERIOD_S)
        ][:limit]
        for _, blueprint_query in blueprints:
            blueprint_query.stale_at = None
        for _, scope_query in paths:
            scope_query.stale_at = None
        return models.StatsIn(
            blueprints=tuple(
                models.BlueprintName(namespace=key[0], name=key[1]) for key, _ in blueprints
            ),
            scopes=tuple(path for path, _ in paths),
        )

    def mark_unread(self, request: models.StatsIn) -> None:
        """Record that a batch failed: all of it is due."""
        now = self._clock.monotonic()
        for blueprint in request.blueprints:
            self._blueprint_query(blueprint.namespace, blueprint.name).mark_stale(now)
        for path in request.scopes:
            query = self._scope_stats.get(path)
            if query is not None:
                query.mark_stale(now)

    def record_stats(self, stats: models.Stats) -> tuple[list[tuple[str, str]], list[str]]:
        """Store the answers of a batch; return the (namespace, name) and the paths that changed."""
        blueprints = [
            (answer.namespace, answer.name)
            for answer in stats.blueprints
            if self._record_answer(self._blueprint_query(answer.namespace, answer.name), answer)
        ]
        paths = [path for path, changed in self._record_scopes(stats.scopes) if changed]
        return blueprints, paths

    def _record_scopes(self, answers: Iterable[models.ScopeStats]) -> list[tuple[str, bool]]:
        changes = []
        for answer in answers:
            query = self._scope_stats.get(answer.path)
            if query is not None:
                changes.append((answer.path, self._record_answer(query, answer)))
        return changes

    def _record_answer(self, query: _StatsQuery[V], answer: V) -> bool:
        changed = query.answer != answer
        now = self._clock.monotonic()
        if changed and query.answer is not None:
            query.announced_at = now
        query.answer, query.read_at = answer, now
        return changed

    def _blueprint_query(self, namespace: str, name: str) -> _StatsQuery[models.BlueprintStats]:
        query = self._blueprint_stats.get((namespace, name))
        if query is None:
            query = _StatsQuery()
            self._blueprint_stats.set((namespace, name), query)
            self.refresh_requested.set()
        return query


def _digest(principal: models.PrincipalIn) -> bytes:
    return memo.digest(principal.model_dump_json())
