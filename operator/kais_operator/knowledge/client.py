"""The knowledge service over HTTP; records in the sync state whether it is available.

There are no retries here: the work queue repeats the whole reconcile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from kais_operator.knowledge.circuit_breaker import CircuitBreaker, NotSent
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.knowledge.transport import AiohttpTransport
from kais_operator.ports import Clock, Knowledge
from knowledge_client import AsyncKnowledgeClient, errors, models, retries

Count = Callable[[str], None]
CountRun = Callable[[str, float | None], None]
"""Takes the outcome, and the duration in seconds."""
TIMEOUT_S = 5.0
"""Timeout of a call: an arbitrary number, far above the p99 of the service."""


def connect(url: str, *, token_file: str | None) -> AsyncKnowledgeClient:
    """Create the client that `MonitoredKnowledge` wraps; the caller closes it."""
    return AsyncKnowledgeClient(
        url,
        token_file=token_file,
        timeout_s=TIMEOUT_S,
        retries=retries.NO_RETRIES,
        transport=AiohttpTransport(url),
    )


CountUsage = Callable[[Mapping[str, int], float | None], None]
"""Takes the counters of an ended run, and its cost in US dollars if it is known."""


def _uncounted_usage(_: Mapping[str, int], __: float | None) -> None:
    """Count nothing."""


def _uncounted(_: str, __: float | None = None) -> None:
    """Count nothing."""


def _seconds(run: models.RunIn) -> float | None:
    """Return the duration of a run; None if it continues or never started."""
    if run.outcome is None or run.started_at is None or run.finished_at is None:
        return None
    return max(0.0, (run.finished_at - run.started_at).total_seconds())


class MonitoredKnowledge:
    """Wraps the Knowledge port and keeps `sync_state.unavailable_reason()` current.

    While the service hangs, calls that reconciles make are refused at once. What only reads may be
    answered when its disk hangs, so writes are refused by themselves; a recall writes a receipt.
    The batches of the sync loop are always sent: they hold no reconcile, and may take long.

    `count_run` gets the outcome of each run that the service recorded, `opened` for one that
    continues, and its duration. `count_usage` gets the usage of a run that ended.
    `count_extraction` gets `accepted` or `failed`.
    """

    def __init__(
        self,
        inner: Knowledge,
        sync_state: KnowledgeSyncState,
        clock: Clock,
        *,
        count_run: CountRun = _uncounted,
        count_extraction: Count = _uncounted,
        count_usage: CountUsage = _uncounted_usage,
    ) -> None:
        self._inner = inner
        self._sync_state = sync_state
        self._reads = CircuitBreaker(clock)
        self._writes = CircuitBreaker(clock)
        self._count_run = count_run
        self._count_extraction = count_extraction
        self._count_usage = count_usage

    @contextlib.contextmanager
    def _monitor(self, breaker: CircuitBreaker | None = None) -> Iterator[None]:
        """Record whether the service answers the call of this context, if it may be sent."""
        try:
            with breaker.call() if breaker is not None else contextlib.nullcontext():
                yield
        except errors.KnowledgeUnavailable as exc:
            self._sync_state.record_availability(str(exc))
            raise
        except errors.KnowledgeError:
            self._sync_state.record_availability(None)  # it refused, so it is available
            raise
        self._sync_state.record_availability(None)

    async def whoami(self) -> models.WhoAmI:
        """Return the operator's identity at the service, and the id of its store.

        This is always sent; its answer has reads sent again, and tries a write.
        """
        with self._monitor(), self._reads.observe():
            answer = await self._inner.whoami()
        self._writes.allow_try()
        return answer

    async def put_principal(self, principal: models.PrincipalIn) -> models.PrincipalIn:
        """Register who a caller is."""
        with self._monitor(self._writes):
            return await self._inner.put_principal(principal)

    async def put_scope(self, path: str, config: models.ScopeConfig) -> models.ScopeOut:
        """Configure a scope."""
        with self._monitor(self._writes):
            return await self._inner.put_scope(path, config)

    async def delete_scope(self, path: str, *, erase: bool = False) -> None:
        """Retire exactly this scope's knowledge, or erase it."""
        with self._monitor(self._writes):
            await self._inner.delete_scope(path, erase=erase)

    async def list_scopes(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> models.ScopePage:
        """Return a page of all scopes."""
        with self._monitor():
            return await self._inner.list_scopes(cursor=cursor, limit=limit)

    async def put_run(self, run_id: str, run: models.RunIn) -> models.Run:
        """Open a run or close it."""
        with self._monitor(self._writes):
            recorded_run = await self._inner.put_run(run_id, run)
        self._count_run(run.outcome or "opened", _seconds(run))
        if run.outcome is not None:
            self._count_usage(run.counters or {}, run.cost)
        return recorded_run

    async def get_run(self, run_id: str, *, namespace: str | None = None) -> models.RunDetail:
        """Read a run; an id names one in each namespace."""
        with self._monitor(self._reads):
            return await self._inner.get_run(run_id, namespace=namespace)

    async def add_episodes(self, episodes: models.EpisodesIn) -> models.EpisodesAccepted:
        """Add to a run's record."""
        with self._monitor(self._writes):
            return await self._inner.add_episodes(episodes)

    async def recall(
        self, query: models.RecallIn, *, idempotency_key: str | None = None
    ) -> models.Recalled:
        """Recall facts; the same key returns the same answer."""
        with self._monitor(self._writes):
            return await self._inner.recall(query, idempotency_key=idempotency_key)

    async def start_extraction(self, request: models.ExtractionIn) -> models.Extraction:
        """Start the extraction of a run."""
        try:
            with self._monitor(self._writes):
                accepted = await self._inner.start_extraction(request)
        except NotSent:
            raise
        except errors.KnowledgeError:
            self._count_extraction("failed")
            raise
        self._count_extraction("accepted")
        return accepted

    async def get_extraction(
        self, run_id: str, *, namespace: str | None = None
    ) -> models.Extraction:
        """Read the state of the extraction of a run of that namespace."""
        with self._monitor(self._reads):
            return await self._inner.get_extraction(run_id, namespace=namespace)

    async def stats_batch(self, request: models.StatsIn) -> models.Stats:
        """Read statistics of many objects in one call."""
        with self._monitor():
            return await self._inner.stats_batch(request)

    async def blueprint_stats(
        self, namespace: str, name: str, *, canary: int | None = None, since: datetime | None = None
    ) -> models.BlueprintStats:
        """Read the statistics of one Blueprint, with the runs of its canary."""
        with self._monitor(self._reads):
            return await self._inner.blueprint_stats(namespace, name, canary=canary, since=since)

    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket:
        """Get a ticket for a call to a cell."""
        with self._monitor(self._reads):
            return await self._inner.issue_ticket(call)
