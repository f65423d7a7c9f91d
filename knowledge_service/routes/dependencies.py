"""What routes are given: the service's parts, the caller, the key of a repeat."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, TypeVar

import anyio
from fastapi import Depends, Header, Query, Request
from pydantic import BaseModel, BeforeValidator

from knowledge_service.clock import Clock
from knowledge_service.domain.access_control import Principal
from knowledge_service.domain.facts import FactText, canonical
from knowledge_service.errors import InvalidBody
from knowledge_service.metrics import Metrics
from knowledge_service.ports import Authenticator, Once, Store
from knowledge_service.search.text import batch_analysis
from knowledge_service.search.text.batch_analysis import Looked
from knowledge_service.use_cases import concurrency_limits, event_stream, rate_limits
from knowledge_service.use_cases.readiness import Readiness

T = TypeVar("T")
_MAX_KEY = 255
# What a body counts that does not say how long it is: as much as one may be (`middleware`).
_UNSAID_BYTES = 8 * 1024 * 1024
_DIGITS = 15  # more than any body that is let through
_QUESTIONS = frozenset({"/v1/recall", "/recall"})
# Each request of these brings one fact; how many a batch has is known when its body is read.
_ONE_FACT = frozenset({"/v1/facts", "/remember"})
# What asks a recall's question again costs what a recall does.
_AGAIN = re.compile(r"/v1/receipts/.*:(?:replay|diff|explain)", re.DOTALL)
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_BODILESS = _READING | {"DELETE"}
# Where a request keeps its caller, who is known before the body is read.
CALLER = "kais.caller"


Look = Callable[[Sequence[FactText]], Looked]


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(sum(concurrency_limits.SLOTS.values()), thread_name_prefix="request")


@dataclass(frozen=True)
class Services:
    """Everything a route may use. `wake_extractor` tells the worker that there is a new job.

    `look` analyses the texts of a batch of facts.
    """

    store: Store
    authenticator: Authenticator
    clock: Clock
    metrics: Metrics
    wake_extractor: Callable[[], None]
    readiness: Readiness
    quotas: rate_limits.Quotas = field(default_factory=rate_limits.Quotas)
    concurrency: concurrency_limits.Concurrency = field(
        default_factory=concurrency_limits.Concurrency
    )
    listeners: event_stream.Listeners = field(default_factory=event_stream.Listeners)
    look: Look = batch_analysis.look
    threads: ThreadPoolExecutor = field(default_factory=_threads)
    """As many as there are slots."""
    probes: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))
    """Threads reserved for probes."""

    def now(self) -> datetime:
        """Return the time, and never one before the last write: a clock may be set back."""
        return max(self.clock(), self.store.latest())


@dataclass(frozen=True)
class Offload:
    """Runs calls of one request in threads, each in a slot of its caller."""

    services: Services
    principal: Principal
    body: bytes

    async def run(self, call: Callable[[], T], kind: concurrency_limits.Kind = "recalls") -> T:
        """Wait for a slot, then run a call.

        Raises:
            StoreUnavailable: no slot became free in time.
        """
        async with self.services.concurrency.running(self.principal, kind):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.services.threads, call)


def offload(request: Request) -> Offload:
    """Stand for what `Endpoint` provides to a coroutine function."""
    raise NotImplementedError(request)


OffloadDep = Annotated[Offload, Depends(offload)]


async def services(request: Request) -> Services:
    """Return the parts that `create_app` put together; async only to spare a worker thread."""
    found: Services = request.app.state.services
    return found


ServicesDep = Annotated[Services, Depends(services)]


async def caller(request: Request, parts: ServicesDep) -> Principal:
    """Find out who calls, from the bearer token and nothing else; once for a request."""
    if CALLER not in request.scope:
        headers = request.headers
        what = (request.method, request.scope["path"], headers.get("content-length"))
        found = await principal_of(parts, headers.get("authorization", ""), what)
        request.scope[CALLER] = found
    principal: Principal = request.scope[CALLER]
    return principal


async def principal_of(
    parts: Services, authorization: str, what: tuple[str, str, str | None]
) -> Principal:
    """Find out who calls, and take what the request (method, path, length) costs of its share."""
    principal = await parts.authenticator.principal(bearer_of(authorization))
    amounts = shares(*what)
    if amounts:
        parts.quotas.take(principal, amounts)
    return principal


def bearer_of(authorization: str) -> str | None:
    """Return the token of an `Authorization` header."""
    scheme, _, token = authorization.partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def shares(method: str, path: str, length: str | None) -> dict[rate_limits.Share, int]:
    """Tell what a request takes from its caller's share."""
    if path in _QUESTIONS or (method == "GET" and _AGAIN.fullmatch(path)):
        return {"recalls": 1}
    if method in _READING or path == "/v1/stats:batch":
        return {"reads": 1}
    writes: dict[rate_limits.Share, int] = {"writes": 1}
    if path in _ONE_FACT:
        writes["facts"] = 1
    return {**writes, "bytes": body_bytes(method, length)}


def body_bytes(method: str, length: str | None) -> int:
    """Return how many bytes a request's body may have, by its `Content-Length`."""
    if length is None:
        return 0 if method in _BODILESS else _UNSAID_BYTES
    is_number = length.isdecimal() and len(length) <= _DIGITS
    return int(length) if is_number else _UNSAID_BYTES


CallerDep = Annotated[Principal, Depends(caller)]
_Flag = Annotated[bool, BeforeValidator(lambda said: True if said == "" else said)]


def is_rehearsal(
    *, dry_run: _Flag = False, camel: Annotated[_Flag, Query(alias="dryRun")] = False
) -> bool:
    """Tell whether nothing is to be kept: `?dry_run`, with or without a value, in both spellings.

    What asks for nothing to be kept must never be overheard.
    """
    return dry_run or camel


RehearsalDep = Annotated[bool, Depends(is_rehearsal)]
Namespace = Annotated[
    str | None,
    Query(max_length=63, description="the run's, where several realms have one of this id"),
]
KeyHeader = Annotated[str | None, Header(alias="Idempotency-Key")]


def once(key: str | None, principal: Principal, route: str, body: BaseModel) -> Once | None:
    """Make the key of a repeat: per principal, bound to route and body; None without a header."""
    if key is None:
        return None
    if not 0 < len(key) <= _MAX_KEY:
        raise InvalidBody(f"Idempotency-Key must have 1 to {_MAX_KEY} characters")
    text = canonical([route, body.model_dump(mode="json", by_alias=True)])
    return Once(principal.identity, key, hashlib.sha256(text.encode()).hexdigest())
