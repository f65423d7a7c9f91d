"""Facts: remember, list, get, correct."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response

from knowledge_client.base_model import UtcDatetime
from knowledge_client.models import (
    CorrectIn,
    CorrectionResult,
    Fact,
    FactIn,
    FactPage,
    FactsIn,
    Remembered,
    RememberedBatch,
)
from knowledge_service.routes.dependencies import (
    CallerDep,
    DryRunDep,
    KeyHeader,
    OffloadDep,
    ServicesDep,
)
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import fact_lifecycle, fact_queries, idempotency
from knowledge_service.use_cases import remember as remember_use_case
from knowledge_service.use_cases.fact_queries import FactFilters
from knowledge_service.use_cases.offload import Offload

router = APIRouter(prefix="/v1", tags=["facts"], route_class=Endpoint)


@router.post("/facts", status_code=201, responses={200: {"model": Remembered}})
async def remember(
    body: FactIn, offload: OffloadDep, response: Response, dry_run: DryRunDep,
    key: KeyHeader = None,
) -> Remembered:  # fmt: skip
    """Remember a fact: 201 when it is new, 200 when it confirms an equal one.

    With `dry_run`, nothing is stored: the status is 200, and a fact that would be new has no id.
    """
    if dry_run:
        response.status_code = 200
        return (await _dry_run([body], offload))[0]
    stored = await remember_use_case.remember_one(offload, body, key)
    if stored.status != "created":
        response.status_code = 200
    return stored


@router.post("/facts:batch", status_code=201, responses={200: {"model": RememberedBatch}})
async def remember_batch(
    body: FactsIn, offload: OffloadDep, response: Response, dry_run: DryRunDep,
    key: KeyHeader = None,
) -> RememberedBatch:  # fmt: skip
    """Remember facts, all or none; with `dry_run`, nothing is stored and the status is 200."""
    services, principal = offload.services, offload.principal
    services.rate_limiter.take(principal, {"facts": len(body.facts)})
    if dry_run:
        response.status_code = 200
        return RememberedBatch(results=await _dry_run(body.facts, offload))

    def submit() -> Awaitable[tuple[Remembered, ...]]:
        repeat = idempotency.bind_key(key, principal, "facts:batch", body)
        return remember_use_case.submit(
            services.store, principal, body.facts, repeat, analyse=services.analyse_texts
        )

    # No thread waits for the commit: recalls need the same threads.
    return RememberedBatch(results=await (await offload.run(submit)))


async def _dry_run(bodies: Sequence[FactIn], offload: Offload) -> tuple[Remembered, ...]:
    call = functools.partial(
        remember_use_case.dry_run, offload.services.store, offload.principal, bodies
    )
    return await offload.run(call, "writes")


@router.get("/facts")
def list_facts(
    services: ServicesDep,
    principal: CallerDep,
    filters: Annotated[FactFilters, Query()],
) -> FactPage:
    """List visible facts, newest first; closed ones too, unless `lifecycle` is set."""
    return fact_queries.list_facts(services.store, principal, filters)


@router.get("/facts/{fact_id}")
def get_fact(
    fact_id: str, services: ServicesDep, principal: CallerDep, known_at: UtcDatetime | None = None
) -> Fact:
    """Read one visible fact, as it is now or, with `known_at`, as it was known then."""
    return fact_queries.get_readable_fact(services.store, principal, fact_id, known_at=known_at)


@router.post("/facts/{fact_id}:correct")
def correct(
    fact_id: str, body: CorrectIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> CorrectionResult:  # fmt: skip
    """Close a fact; a `replacement` becomes its successor."""
    repeat = idempotency.bind_key(key, principal, f"correct/{fact_id}", body)
    return fact_lifecycle.correct(services.store, principal, fact_id, body, repeat)
