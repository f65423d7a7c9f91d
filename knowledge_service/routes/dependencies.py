"""The dependencies of routes: the services, the caller, and the quota that a request costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Header, Query, Request
from pydantic import BeforeValidator

from knowledge_client import base_model
from knowledge_service.domain.principals import Principal
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import InvalidBody
from knowledge_service.use_cases import rate_limits
from knowledge_service.use_cases.offload import Offload
from knowledge_service.use_cases.services import Services

PRINCIPAL = "kais.principal"
"""Key in the scope of a request; without it, the caller is not authenticated."""
RUN = "kais.run"
"""Key in the scope of a request for the run that it wrote."""
# The length of a body without Content-Length counts as the maximum (`middleware`).
_ASSUMED_BODY_BYTES = 8 * 1024 * 1024
_MAX_LENGTH_DIGITS = 15  # more than the largest body has
_RECALL_PATHS = frozenset({"/v1/recall", "/recall"})
# A request to these has one fact; the facts of a batch are counted when its body is read.
_SINGLE_FACT_PATHS = frozenset({"/v1/facts", "/remember"})
# Rerunning a recorded query costs as much as a recall.
_RERUN_PATHS = re.compile(r"/v1/receipts/.*:(?:replay|diff|explain)", re.DOTALL)
_READS_BY_POST = frozenset({"/v1/stats:batch", "/v1/peers:ticket", "/v1/peers:verify"})
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_BODILESS_METHODS = _READ_METHODS | {"DELETE"}


def offload(request: Request) -> Offload:
    """Mark a parameter; `Endpoint` passes the `Offload` of the request to coroutine functions."""
    raise NotImplementedError(request)


OffloadDep = Annotated[Offload, Depends(offload)]


def services(request: Request) -> Services:
    """Mark a parameter; `Endpoint` passes the `Services` of the app."""
    raise NotImplementedError(request)


ServicesDep = Annotated[Services, Depends(services)]


def caller(request: Request) -> Principal:
    """Mark a parameter; `Endpoint` passes the caller, authenticated by the bearer token alone."""
    raise NotImplementedError(request)


CallerDep = Annotated[Principal, Depends(caller)]


RecordRun = Callable[[RunKey], None]


def record_run(request: Request) -> RecordRun:
    """Mark a parameter; `Endpoint` passes the function that records the run of a write."""
    raise NotImplementedError(request)


RecordRunDep = Annotated[RecordRun, Depends(record_run)]


async def authenticate(
    services: Services,
    authorization: str,
    request_line: tuple[str, str, str | None],
    speak_as: str | None,
    *,
    is_kept: bool = False,
) -> Principal:
    """Authenticate the caller, and charge its quota for the request (method, path, length).

    The response of a request that `is_kept` for repeats is stored.
    """
    principal = await services.authenticator.principal(bearer_token_of(authorization))
    principal = speaking_as(principal, speak_as)
    costs = quota_cost(*request_line, is_kept=is_kept)
    if costs:
        services.rate_limiter.take(principal, costs)
    return principal


def speaking_as(principal: Principal, speak_as: str | None) -> Principal:
    """Return the caller as its header `Kais-Speak-As` has it.

    Raises:
        InvalidBody: the header has another value than `agent`.
    """
    if speak_as is None:
        return principal
    if speak_as != base_model.SPEAK_AS_AGENT:
        raise InvalidBody(
            f"the header {base_model.SPEAK_AS_HEADER} may only be {base_model.SPEAK_AS_AGENT!r}"
        )
    return principal.as_agent()


def bearer_token_of(authorization: str) -> str | None:
    """Return the token of an `Authorization` header."""
    scheme, _, token = authorization.partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def quota_cost(
    method: str, path: str, length: str | None, *, is_kept: bool = False
) -> dict[rate_limits.QuotaName, int]:
    """Return what a request costs of its caller's quotas.

    A recall that `is_kept` for repeats also costs bytes, and is refused while the caller owes some
    for stored responses.
    """
    if path in _RECALL_PATHS or (method == "GET" and _RERUN_PATHS.fullmatch(path)):
        if is_kept:
            return {"recalls": 1, "bytes": body_bytes(method, length)}
        return {"recalls": 1}
    if method in _READ_METHODS or path in _READS_BY_POST:
        return {"reads": 1}
    cost: dict[rate_limits.QuotaName, int] = {"writes": 1}
    if path in _SINGLE_FACT_PATHS:
        cost["facts"] = 1
    return {**cost, "bytes": body_bytes(method, length)}


def body_bytes(method: str, length: str | None) -> int:
    """Return the size of a request's body by its `Content-Length`, or the maximum."""
    if length is None:
        return 0 if method in _BODILESS_METHODS else _ASSUMED_BODY_BYTES
    is_number = length.isdecimal() and len(length) <= _MAX_LENGTH_DIGITS
    return int(length) if is_number else _ASSUMED_BODY_BYTES


_Flag = Annotated[bool, BeforeValidator(lambda said: True if said == "" else said)]


def is_dry_run(
    *, dry_run: _Flag = False, dry_run_camel_case: Annotated[_Flag, Query(alias="dryRun")] = False
) -> bool:
    """Return whether this is a dry run: `?dry_run` or `?dryRun`, with or without a value.

    Both spellings count, since a dry run that is overlooked stores facts.
    """
    return dry_run or dry_run_camel_case


DryRunDep = Annotated[bool, Depends(is_dry_run)]
Namespace = Annotated[
    str | None,
    Query(max_length=63, description="of the run, when several realms have one with this id"),
]
KEY_HEADER = "Idempotency-Key"
KeyHeader = Annotated[str | None, Header(alias=KEY_HEADER)]
