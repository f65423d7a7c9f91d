"""What this process told the store and heard from it; see `ports.StoreMemory`.

A bounded cache: what it forgets is told again, which the store takes as a repeat. The statistics
are read by `store_watch`, which asks here what is due.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kais import scopes
from kais_operator.ports import Clock
from knowledge_client import models

FRESH_S = 30.0
"""A change of an object's statistics reaches its status at most this often (api.md)."""
POLL_S = 300.0
"""Blueprints that nothing here changed are read this often: other writers use the ledger too."""
REFUSED_S = 3600.0
"""What the store refused for good is told again this late: it may have been mended."""
_BOUND = 20_000  # an arbitrary size: some ten times the missions of a busy hour

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Bounded(Generic[K, V]):
    """A map that drops what was set longest ago."""

    def __init__(self) -> None:
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def set(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > _BOUND:
            self._items.popitem(last=False)

    def known(self) -> list[K]:
        return list(self._items)

    def items(self) -> list[tuple[K, V]]:
        return list(self._items.items())

    def clear(self) -> None:
        self._items.clear()


@dataclass
class _Wanted(Generic[V]):
    """One question for statistics and its last answer.

    The first answer fills in what is missing and counts for nothing; `told_at` is when a change
    after it was told. From `stale_at` on the answer is known to be old.
    """

    answer: V | None = None
    read_at: float | None = None
    told_at: float | None = None
    stale_at: float | None = None

    def is_due(self, now: float, *, poll_s: float) -> bool:
        if self.read_at is None:
            return True
        if self.told_at is not None and now - self.told_at < FRESH_S:
            return False
        is_stale = self.stale_at is not None and now >= self.stale_at
        return is_stale or now - self.read_at >= poll_s

    def note_stale(self, at: float) -> None:
        self.stale_at = at if self.stale_at is None else min(self.stale_at, at)


class StoreMemory:
    """The StoreMemory port."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._problem: str | None = None
        self._store: models.StoreIdentity | None = None
        self._principals: _Bounded[str, models.PrincipalIn] = _Bounded()
        self._scopes: _Bounded[str, models.ScopeConfig] = _Bounded()
        self._settled: set[str] = set()
        self._open: _Bounded[tuple[str | None, str], bool] = _Bounded()
        self._closed: _Bounded[tuple[str | None, str], bool] = _Bounded()
        self._extracted: _Bounded[tuple[str | None, str], bool] = _Bounded()
        self._counted: _Bounded[tuple[str | None, str], bool] = _Bounded()
        self._refused: _Bounded[str, tuple[str, float]] = _Bounded()
        self._blueprint_stats: _Bounded[tuple[str, str], _Wanted[models.BlueprintStats]] = (
            _Bounded()
        )
        self._scope_stats: _Bounded[str, _Wanted[models.ScopeStats]] = _Bounded()
        self.wanted = asyncio.Event()
        """Set when a batch has something to read that it need not wait for."""

    # What the port offers

    def store_problem(self) -> str | None:
        """Say why the store last failed to answer; None since it answered."""
        return self._problem

    def is_registered(self, principal: models.PrincipalIn) -> bool:
        """Whether the store was told exactly this of that user."""
        return self._principals.get(principal.subject.username) == principal

    def note_registered(self, principal: models.PrincipalIn) -> None:
        """Note that the store took this registration."""
        self._principals.set(principal.subject.username, principal)

    def is_configured(self, path: str, config: models.ScopeConfig) -> bool:
        """Whether the store was given exactly this configuration."""
        return self._scopes.get(path) == config

    def note_configured(self, path: str, config: models.ScopeConfig) -> None:
        """Note that the store took this configuration."""
        self._scopes.set(path, config)
        self.note_settings(path, config)

    def note_retired(self, path: str) -> None:
        """Note that the store deleted a scope with its settings."""
        self._settled.discard(path)

    def settled_under(self, path: str) -> frozenset[str]:
        """Name this scope and those below for which the store holds more than the defaults."""
        return frozenset(p for p in self._settled if p == path or p.startswith(f"{path}/"))

    def is_run_open(self, namespace: str | None, run_id: str) -> bool:
        """Whether the ledger has this run, open or closed."""
        return self._open.get((namespace, run_id)) is not None

    def note_run_open(self, namespace: str | None, run_id: str) -> None:
        """Note that the ledger has this run."""
        self._open.set((namespace, run_id), True)

    def is_run_closed(self, namespace: str | None, run_id: str) -> bool:
        """Whether the ledger has this run's end."""
        return self._closed.get((namespace, run_id)) is not None

    def note_run_closed(self, namespace: str | None, run_id: str) -> None:
        """Note that the ledger has this run's end."""
        self._closed.set((namespace, run_id), True)

    def is_extraction_accepted(self, namespace: str | None, run_id: str) -> bool:
        """Whether the store took over this run's extraction."""
        return self._extracted.get((namespace, run_id)) is not None

    def note_extraction_accepted(self, namespace: str | None, run_id: str) -> None:
        """Note that the store took over this run's extraction."""
        self._extracted.set((namespace, run_id), True)

    def is_extraction_counted(self, namespace: str | None, run_id: str) -> bool:
        """Whether the statistics were read again since this run's extraction was done."""
        return self._counted.get((namespace, run_id)) is not None

    def note_extraction_counted(self, namespace: str | None, run_id: str) -> None:
        """Note that the statistics are read again because this run's extraction is done."""
        self._counted.set((namespace, run_id), True)

    def refusal(self, key: str) -> str | None:
        """Say why the store refused a run or settings for good; None an hour later."""
        words, at = self._refused.get(key) or ("", -REFUSED_S)
        return words if self._clock.monotonic() - at < REFUSED_S else None

    def note_refusal(self, key: str, words: str) -> None:
        """Note why the store refuses a run or settings, by their key."""
        self._refused.set(key, (words, self._clock.monotonic()))

    def blueprint_stats(self, namespace: str, name: str) -> models.BlueprintStats | None:
        """Give what the last batch said; None before it. Asking has the next batches read it."""
        return self._wanted_blueprint(namespace, name).answer

    def scope_stats(self, path: str) -> models.ScopeStats | None:
        """Give what the last batch said; None before it. Asking has the next batches read it."""
        wanted = self._scope_stats.get(path)
        if wanted is None:
            wanted = _Wanted()
            self._scope_stats.set(path, wanted)
            self.wanted.set()
        return wanted.answer

    def want_fresh(self, namespace: str, blueprint: str | None, *, soon: bool) -> None:
        """Have this Blueprint read again; with `soon` the realm's scopes too, and at once.

        At once means 30 s after the last change that was told; without `soon` it is 30 s from now.
        """
        now = self._clock.monotonic()
        if blueprint is not None:
            found = self._wanted_blueprint(namespace, blueprint)
            found.note_stale(now if soon else now + FRESH_S)
        if not soon:
            return
        realm = str(scopes.Scope(namespace))
        for path, wanted in self._scope_stats.items():
            if path == realm or path.startswith(f"{realm}/"):
                wanted.note_stale(now)
        self.wanted.set()

    # What the adapter of the store and the store watch use

    def note_problem(self, problem: str | None) -> None:
        """Note that the store did not answer and why, or that it did.

        The first reason stays until an answer: each call has its own words, and statuses that
        repeat them would be written again and again.
        """
        if problem is None or self._problem is None:
            self._problem = problem

    def note_settings(self, path: str, config: models.ScopeConfig) -> None:
        """Note which settings the store holds for a scope, whoever told it."""
        if config == models.ScopeConfig():
            self._settled.discard(path)
        else:
            self._settled.add(path)

    def note_store(self, store: models.StoreIdentity) -> bool:
        """Note who answered; forgets all and gives True when that is another store than before."""
        before, self._store = self._store, store
        if before is None or before == store:
            return False
        self.forget_told()
        for key in self._blueprint_stats.known():
            self._blueprint_stats.set(key, _Wanted())
        for path in self._scope_stats.known():
            self._scope_stats.set(path, _Wanted())
        return True

    def forget_told(self) -> None:
        """Have everything told again."""
        self._settled.clear()
        self._refused.clear()
        for told in (
            self._principals,
            self._scopes,
            self._open,
            self._closed,
            self._extracted,
            self._counted,
        ):
            told.clear()

    def forget_registrations(self) -> None:
        """Have principals and scopes told again; what the ledger has stays known."""
        self._principals.clear()
        self._scopes.clear()

    def due(self, *, limit: int = 2000) -> models.StatsIn:
        """Name what the next batch shall read, at most `limit` of each.

        What becomes stale while the batch is under way is so afterwards, hence read again.
        """
        now = self._clock.monotonic()
        blueprints = [
            (key, wanted)
            for key, wanted in self._blueprint_stats.items()
            if wanted.is_due(now, poll_s=POLL_S)
        ][:limit]
        paths = [
            (path, wanted)
            for path, wanted in self._scope_stats.items()
            if wanted.is_due(now, poll_s=FRESH_S)
        ][:limit]
        for _, asked in blueprints:
            asked.stale_at = None
        for _, about in paths:
            about.stale_at = None
        return models.StatsIn(
            blueprints=tuple(
                models.BlueprintName(namespace=key[0], name=key[1]) for key, _ in blueprints
            ),
            scopes=tuple(path for path, _ in paths),
        )

    def note_unread(self, request: models.StatsIn) -> None:
        """Note that a batch had no answer: all of it is still to be read."""
        now = self._clock.monotonic()
        for asked in request.blueprints:
            self._wanted_blueprint(asked.namespace, asked.name).note_stale(now)
        for path in request.scopes:
            wanted = self._scope_stats.get(path)
            if wanted is not None:
                wanted.note_stale(now)

    def note_stats(self, stats: models.Stats) -> tuple[list[tuple[str, str]], list[str]]:
        """Keep a batch's answers; gives the (namespace, name) and the paths that changed."""
        blueprints = [
            (answer.namespace, answer.name)
            for answer in stats.blueprints
            if self._keep(self._wanted_blueprint(answer.namespace, answer.name), answer)
        ]
        paths = [path for path, changed in self._kept_scopes(stats.scopes) if changed]
        return blueprints, paths

    def _kept_scopes(self, answers: Iterable[models.ScopeStats]) -> list[tuple[str, bool]]:
        kept = []
        for answer in answers:
            wanted = self._scope_stats.get(answer.path)
            if wanted is not None:
                kept.append((answer.path, self._keep(wanted, answer)))
        return kept

    def _keep(self, wanted: _Wanted[V], answer: V) -> bool:
        changed = wanted.answer != answer
        now = self._clock.monotonic()
        if changed and wanted.answer is not None:
            wanted.told_at = now
        wanted.answer, wanted.read_at = answer, now
        return changed

    def _wanted_blueprint(self, namespace: str, name: str) -> _Wanted[models.BlueprintStats]:
        wanted = self._blueprint_stats.get((namespace, name))
        if wanted is None:
            wanted = _Wanted()
            self._blueprint_stats.set((namespace, name), wanted)
            self.wanted.set()
        return wanted
