"""The parts of the service that an endpoint passes to use cases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import anyio

from knowledge_service.clock import Clock
from knowledge_service.domain.fact_text import FactText
from knowledge_service.extraction.job import Models
from knowledge_service.metrics import Metrics
from knowledge_service.open_reads import OpenReads
from knowledge_service.ports import Authenticator, Store
from knowledge_service.search.text import batch_analysis
from knowledge_service.search.text.batch_analysis import AnalysedBatch
from knowledge_service.use_cases import concurrency_limits, event_stream, rate_limits
from knowledge_service.use_cases.readiness import Readiness
from knowledge_service.use_cases.request_threads import RequestThreads

# How long an erasure waits for the responses of earlier reads, which have ended by then unless they
# take longer than `KAIS_READ_SECONDS`.
_RESPONSE_S = 10.0
_log = logging.getLogger(__name__)
AnalyseTexts = Callable[[Sequence[FactText]], AnalysedBatch]


@dataclass(frozen=True)
class Services:
    """Everything that an endpoint needs.

    Endpoints pass `store` to use cases and never call it. `wake_extractor` tells the worker of a
    new extraction; `analyse_texts` analyses the texts of a batch of facts.
    """

    store: Store
    authenticator: Authenticator
    clock: Clock
    metrics: Metrics
    wake_extractor: Callable[[], None]
    readiness: Readiness
    models: Models | None = None
    """The models that may extract facts; None without any."""
    rate_limiter: rate_limits.RateLimiter = field(default_factory=rate_limits.RateLimiter)
    concurrency_limiter: concurrency_limits.ConcurrencyLimiter = field(
        default_factory=concurrency_limits.ConcurrencyLimiter
    )
    subscription_limiter: event_stream.SubscriptionLimiter = field(
        default_factory=event_stream.SubscriptionLimiter
    )
    open_reads: OpenReads = field(default_factory=OpenReads)
    """The reads whose response is not sent yet; an erasure waits for them."""
    analyse_texts: AnalyseTexts = batch_analysis.analyse_batch
    threads: RequestThreads = field(
        default_factory=lambda: RequestThreads(sum(concurrency_limits.SLOTS.values()))
    )
    """At most one thread for each slot of the concurrency limits."""
    probes: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))
    """Threads reserved for probes."""

    def now(self) -> datetime:
        """Return the time, but none before the last write, because a clock may be set back."""
        return max(self.clock(), self.store.latest())

    async def wait_for_open_reads(self) -> None:
        """Wait, after an erasure, until the responses of earlier reads are sent.

        The caller holds no slot, because other writes need it. A response is sent when its
        connection has it, so a client that does not read delays nobody.
        """
        open_count = await self.open_reads.wait(self.store.erased_at_s, _RESPONSE_S)
        if open_count:
            self.metrics.record_erasure_with_open_responses()
            fields = {"responses": open_count, "waited_s": _RESPONSE_S}
            _log.warning(
                "an erasure was acknowledged before earlier responses were sent",
                extra={"fields": fields},
            )
