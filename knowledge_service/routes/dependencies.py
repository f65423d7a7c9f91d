"""What routes are given: the service's parts, the caller, the key of a repeat."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Query, Request
from pydantic import BeforeValidator

from knowledge_service.domain.access_control import Principal
from knowledge_service.use_cases import concurrency_limits, rate_limits
from knowledge_service.use_cases.services import Services

T = TypeVar("T")
# What a body counts that does not say how long it is: as much as one may be (`middleware`).
_ASSUMED_BODY_BYTES = 8 * 1024 * 1024
_MAX_LENGTH_DIGITS = 15  # more than any body that is let through
_RECALL_PATHS = frozenset({"/v1/recall", "/recall"})
# Each request of these brings one fact; how many a batch has is known when its body is read.
_SINGLE_FACT_PATHS = frozenset({"/v1/facts", "/remember"})
# What asks a recall's question again costs what a recall does.
_RERUN_PATHS = re.compile(r"/v1/receipts/.*:(?:replay|diff|explain)", re.DOTALL)
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_BODILESS_METHODS = _READ_METHODS | {"DELETE"}


@dataclass(frozen=True)
class Offload:
    """Runs calls of one request in threads, each in a slot of its caller."""

    services: Services
    principal: Principal
    body: bytes

    async def run(self, call: Callable[[], T], kind: concurrency_limits.SlotKind = "recalls") -> T:
        """Wait for a slot, then run a call.

        Raises:
            StoreUnavailable: no slot became free in time.
        """
        async with self.services.concurrency_limiter.hold_slot(self.principal, kind):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.services.threads, call)


def offload(request: Request) -> Offload:
    """Stand for what `Endpoint` provides to a coroutine function."""
    raise NotImplementedError(request)


OffloadDep = Annotated[Offload, Depends(offload)]


def services(request: Request) -> Services:
    """Stand for the parts that `create_app` put together; `Endpoint` provides them."""
    raise NotImplementedError(request)


ServicesDep = Annotated[Services, Depends(services)]


def caller(request: Request) -> Principal:
    """Stand for the caller, whom `Endpoint` finds by the bearer token and nothing else."""
    raise NotImplementedError(request)


CallerDep = Annotated[Principal, Depends(caller)]


async def authenticate(
    services: Services, authorization: str, request_line: tuple[str, str, str | None]
) -> Principal:
    """Find out who calls, and take what the request (method, path, length) costs of its share."""
    principal = await services.authenticator.principal(bearer_token_of(authorization))
    costs = quota_cost(*request_line)
    if costs:
        services.rate_limiter.take(principal, costs)
    return principal


def bearer_token_of(authorization: str) -> str | None:
    """Return the token of an `Authorization` header."""
    scheme, _, token = authorization.partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def quota_cost(method: str, path: str, length: str | None) -> dict[rate_limits.QuotaName, int]:
    """Tell what a request takes from its caller's share."""
    if path in _RECALL_PATHS or (method == "GET" and _RERUN_PATHS.fullmatch(path)):
        return {"recalls": 1}
    if method in _READ_METHODS or path == "/v1/stats:batch":
        return {"reads": 1}
    cost: dict[rate_limits.QuotaName, int] = {"writes": 1}
    if path in _SINGLE_FACT_PATHS:
        cost["facts"] = 1
    return {**cost, "bytes": body_bytes(method, length)}


def body_bytes(method: str, length: str | None) -> int:
    """Return how many bytes a request's body may have, by its `Content-Length`."""
    if length is None:
        return 0 if method in _BODILESS_METHODS else _ASSUMED_BODY_BYTES
    is_number = length.isdecimal() and len(length) <= _MAX_LENGTH_DIGITS
    return int(length) if is_number else _ASSUMED_BODY_BYTES


_Flag = Annotated[bool, BeforeValidator(lambda said: True if said == "" else said)]


def is_dry_run(
    *, dry_run: _Flag = False, dry_run_camel_case: Annotated[_Flag, Query(alias="dryRun")] = False
) -> bool:
    """Tell whether nothing is to be kept: `?dry_run`, with or without a value, in both spellings.

    What asks for nothing to be kept must never be overheard.
    """
    return dry_run or dry_run_camel_case


DryRunDep = Annotated[bool, Depends(is_dry_run)]
Namespace = Annotated[
    str | None,
    Query(max_length=63, description="the run's, where several realms have one of this id"),
]
KeyHeader = Annotated[str | None, Header(alias="Idempotency-Key")]
