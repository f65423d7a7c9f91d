"""The knowledge service over HTTP; records in the sync state whether it is available.

There are no retries here: the work queue repeats the whole reconcile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TypeVar

from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.knowledge.transport import AiohttpTransport
from kais_operator.ports import Knowledge
from knowledge_client import AsyncKnowledgeClient, errors, models, retries

T = TypeVar("T")
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

    `count_run` gets the outcome of each run that the service recorded, `opened` for one that
    continues, and its duration. `count_usage` gets the usage of a run that ended.
    `count_extraction` gets `accepted` or `failed`.
    """

    def __init__(
        self,
        inner: Knowledge,
        sync_state: KnowledgeSyncState,
        *,
        count_run: CountRun = _uncounted,
        count_extraction: Count = _uncounted,
        count_usage: CountUsage = _uncounted_usage,
    ) -> None:
        self._inner = inner
        self._sync_state = sync_state
        self._count_run = count_run
        self._count_extraction = count_extraction
        self._count_usage = count_usage

    async def _monitor(self, call: Awaitable[T]) -> T:
        try:
            answer = await call
        except errors.KnowledgeUnavailable as exc:
            self._sync_state.record_availability(str(exc))
            raise
        except errors.KnowledgeError:
            self._sync_state.record_availability(None)  # it refused, so it is available
            raise
        self._sync_state.record_availability(None)
        return answer

    async def whoami(self) -> models.WhoAmI:
        """Return the operator's identity at the service, and the id of its store."""
        return await self._monitor(self._inner.whoami())

    async def put_principal(self, principal: models.PrincipalIn) -> models.PrincipalIn:
        """Register who a caller is."""
        return await self._monitor(self._inner.put_principal(principal))

    async def put_scope(self, path: str, config: models.ScopeConfig) -> models.ScopeOut:
        """Configure a scope."""
        return await self._monitor(self._inner.put_scope(path, config))

    async def delete_scope(self, path: str, *, erase: bool = False) -> None:
        """Retire exactly this scope's knowledge, or erase it."""
        await self._monitor(self._inner.delete_scope(path, erase=erase))

    async def list_scopes(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> models.ScopePage:
        """Return a page of all scopes."""
        return await self._monitor(self._inner.list_scopes(cursor=cursor, limit=limit))

    async def put_run(self, run_id: str, run: models.RunIn) -> models.Run:
        """Open a run or close it."""
        recorded_run = await self._monitor(self._inner.put_run(run_id, run))
        self._count_run(run.outcome or "opened", _seconds(run))
        if run.outcome is not None:
            self._count_usage(run.counters or {}, run.cost)
        return recorded_run

    async def get_run(self, run_id: str, *, namespace: str | None = None) -> models.RunDetail:
        """Read a run; an id names one in each namespace."""
        return await self._monitor(self._inner.get_run(run_id, namespace=namespace))

    async def add_episodes(self, episodes: models.EpisodesIn) -> models.EpisodesAccepted:
        """Add to a run's record."""
        return await self._monitor(self._inner.add_episodes(episodes))

    async def recall(
        self, query: models.RecallIn, *, idempotency_key: str | None = None
    ) -> models.Recalled:
        """Recall facts; the same key returns the same answer."""
        return await self._monitor(self._inner.recall(query, idempotency_key=idempotency_key))

    async def start_extraction(self, request: models.ExtractionIn) -> models.Extraction:
        """Start the extraction of a run."""
        try:
            accepted = await self._monitor(self._inner.start_extraction(request))
        except errors.KnowledgeError:
            self._count_extraction("failed")
            raise
        self._count_extraction("accepted")
        return accepted

    async def get_extraction(
        self, run_id: str, *, namespace: str | None = None
    ) -> models.Extraction:
        """Read the state of the extraction of a run of that namespace."""
        return await self._monitor(self._inner.get_extraction(run_id, namespace=namespace))

    async def stats_batch(self, request: models.StatsIn) -> models.Stats:
        """Read statistics of many objects in one call."""
        return await self._monitor(self._inner.stats_batch(request))

    async def blueprint_stats(
        self, namespace: str, name: str, *, canary: int | None = None, since: datetime | None = None
    ) -> models.BlueprintStats:
        """Read the statistics of one Blueprint, with the runs of its canary."""
        return await self._monitor(
            self._inner.blueprint_stats(namespace, name, canary=canary, since=since)
        )

    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket:
        """Get a ticket for a call to a cell."""
        return await self._monitor(self._inner.issue_ticket(call))
