"""Facts: remember, list, get, correct."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

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
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports import Listing, Once
from knowledge_service.routes import pagination
from knowledge_service.routes.dependencies import (
    CallerDep,
    KeyHeader,
    Offload,
    OffloadDep,
    RehearsalDep,
    ServicesDep,
    once,
)
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import authorization, fact_validation
from knowledge_service.use_cases import remember as use_cases_remember

# A fact of at most this many bytes is judged by the gates faster than a thread starts.
_INLINE_BYTES = 1024

router = APIRouter(prefix="/v1", tags=["facts"], route_class=Endpoint)


class ListQuery(BaseModel):
    """Which facts to list; each filter narrows."""

    scope: str | None = None
    kind: str | None = None
    tag: str | None = None
    lifecycle: Literal["live", "superseded", "retracted", "archived"] | None = None
    source: str | None = None
    review: Literal["none", "draft", "approved", "rejected"] | None = None
    valid_at: UtcDatetime | None = None
    known_at: UtcDatetime | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


@router.post("/facts", status_code=201, responses={200: {"model": Remembered}})
async def remember(
    body: FactIn, offload: OffloadDep, response: Response, dry_run: RehearsalDep,
    key: KeyHeader = None,
) -> Remembered:  # fmt: skip
    """Remember a fact: 201 when it is new, 200 when it confirms an equal one.

    With `dry_run` nothing is kept: 200, and a fact that would be new has no id.
    """
    if dry_run:
        response.status_code = 200
        return (await _rehearse([body], offload))[0]
    stored = await remember_one(body, offload, key)
    if stored.status != "created":
        response.status_code = 200
    return stored


async def remember_one(body: FactIn, offload: Offload, key: str | None) -> Remembered:
    """Store a fact that came alone."""
    services, principal = offload.services, offload.principal

    def prepare() -> tuple[NewFact, Once | None]:
        repeat = once(key, principal, "facts", body)
        return fact_validation.prepare(services.store, principal, body), repeat

    # A run or another fact is looked up in the database, and the gates take time for each word;
    # the event loop must wait for neither.
    is_quick = len(offload.body) <= _INLINE_BYTES and not (body.run or body.about)
    fact, repeat = prepare() if is_quick else await offload.run(prepare)
    (stored,) = await services.store.remembered(
        [fact], actor=authorization.actor(principal), once=repeat
    )
    return stored


@router.post("/facts:batch", status_code=201, responses={200: {"model": RememberedBatch}})
async def remember_batch(
    body: FactsIn, offload: OffloadDep, response: Response, dry_run: RehearsalDep,
    key: KeyHeader = None,
) -> RememberedBatch:  # fmt: skip
    """Remember facts together, all or none; with `dry_run` nothing is kept (200)."""
    services, principal = offload.services, offload.principal
    services.quotas.take(principal, {"facts": len(body.facts)})
    if dry_run:
        response.status_code = 200
        return RememberedBatch(results=await _rehearse(body.facts, offload))

    def prepare() -> Awaitable[tuple[Remembered, ...]]:
        repeat = once(key, principal, "facts:batch", body)
        facts = fact_validation.prepare_all(services.store, principal, body.facts, services.look)
        return services.store.remembered(facts, actor=authorization.actor(principal), once=repeat)

    # No thread waits for the commit: recalls have the same threads.
    return RememberedBatch(results=await (await offload.run(prepare)))


async def _rehearse(bodies: Sequence[FactIn], offload: Offload) -> tuple[Remembered, ...]:
    store, principal = offload.services.store, offload.principal

    def rehearse() -> tuple[Remembered, ...]:
        facts = fact_validation.prepare_all(store, principal, bodies)
        return use_cases_remember.rehearse(store, principal, facts)

    return await offload.run(rehearse, "writes")


@router.get("/facts")
def list_facts(
    services: ServicesDep,
    principal: CallerDep,
    filters: Annotated[ListQuery, Query()],
) -> FactPage:
    """List visible facts, newest first, whatever their lifecycle unless one is named."""
    scopes = authorization.readable([filters.scope], principal) if filters.scope else None
    listing = Listing(
        view=principal.view,
        limit=filters.limit + 1,
        scopes=scopes,
        kind=filters.kind,
        tag=filters.tag,
        lifecycle=filters.lifecycle,
        source=filters.source,
        before=pagination.unseal(filters.cursor),
        review=filters.review,
        valid_at=filters.valid_at,
        known_at=filters.known_at,
    )
    found = services.store.list_facts(listing)
    page = found[: filters.limit]
    return FactPage(
        facts=page, cursor=pagination.seal(page[-1].id) if len(found) > len(page) else None
    )


@router.get("/facts/{fact_id}")
def get_fact(
    fact_id: str, services: ServicesDep, principal: CallerDep, known_at: UtcDatetime | None = None
) -> Fact:
    """Read one visible fact, as it is or as it was known at a moment."""
    return use_cases_remember.visible(services.store, principal, fact_id, known_at=known_at)


@router.post("/facts/{fact_id}:correct")
def correct(
    fact_id: str, body: CorrectIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> CorrectionResult:  # fmt: skip
    """Close a fact's validity, with a successor when the body has a replacement."""
    repeat = once(key, principal, f"correct/{fact_id}", body)
    return use_cases_remember.correct(services.store, principal, fact_id, body, repeat)
