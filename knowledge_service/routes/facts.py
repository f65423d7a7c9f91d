"""Facts: remember, list, get, correct."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from knowledge_client.models import (
    Corrected,
    CorrectIn,
    Fact,
    FactIn,
    FactPage,
    FactsIn,
    Remembered,
    RememberedBatch,
)
from knowledge_client.wire import Moment
from knowledge_service.domain import told
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.told import Told
from knowledge_service.domain.visibility import Principal
from knowledge_service.flows import access, preparing, remembering
from knowledge_service.index.looking import Looked
from knowledge_service.ports import Listing, Once
from knowledge_service.routes import cursors
from knowledge_service.routes.bodies import StrictRoute
from knowledge_service.routes.dependencies import (
    CallerDep,
    KeyHeader,
    RehearsalDep,
    Services,
    ServicesDep,
    once,
)

router = APIRouter(prefix="/v1", tags=["facts"], route_class=StrictRoute)


class ListQuery(BaseModel):
    """Which facts to list; each filter narrows."""

    scope: str | None = None
    kind: str | None = None
    tag: str | None = None
    lifecycle: Literal["live", "superseded", "retracted", "archived"] | None = None
    source: str | None = None
    review: Literal["none", "draft", "approved", "rejected"] | None = None
    valid_at: Moment | None = None
    known_at: Moment | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


@router.post("/facts", status_code=201, responses={200: {"model": Remembered}})
def remember(
    body: FactIn, services: ServicesDep, principal: CallerDep, response: Response,
    dry_run: RehearsalDep, key: KeyHeader = None,
) -> Remembered:  # fmt: skip
    """Remember a fact: 201 when it is new, 200 when it confirms an equal one.

    With `dry_run` nothing is kept: 200, and a fact that would be new has no id.
    """
    fact = preparing.prepare(services.store, principal, body)
    if dry_run:
        response.status_code = 200
        return remembering.rehearse(services.store, principal, [fact])[0]
    repeat = once(key, principal, "facts", body)
    (found,) = services.store.remember([fact], actor=access.actor(principal), once=repeat)
    response.status_code = 201 if found.status == "created" else 200
    return found


@router.post("/facts:batch", status_code=201, responses={200: {"model": RememberedBatch}})
def remember_batch_or_rehearse(
    body: FactsIn, services: ServicesDep, principal: CallerDep, response: Response,
    dry_run: RehearsalDep, key: KeyHeader = None,
) -> RememberedBatch:  # fmt: skip
    """Remember facts together, all or none; with `dry_run` nothing is kept (200)."""
    if not dry_run:
        return remember_batch(body, services, principal, key)
    response.status_code = 200
    services.quotas.take(principal, {"facts": len(body.facts)})
    facts = preparing.prepare_all(services.store, principal, body.facts)
    return RememberedBatch(results=remembering.rehearse(services.store, principal, facts))


def remember_batch(
    body: FactsIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> RememberedBatch:
    """Remember facts together, all or none."""
    facts, repeat = prepared(body, services, principal, key)
    found = services.store.remember(facts, actor=access.actor(principal), once=repeat)
    return RememberedBatch(results=found)


def prepared(
    body: FactsIn, services: Services, principal: Principal, key: str | None
) -> tuple[list[NewFact], Once | None]:
    """Do of a batch all that comes before it is stored."""
    services.quotas.take(principal, {"facts": len(body.facts)})
    facts = preparing.prepare_all(services.store, principal, body.facts)
    return facts, once(key, principal, "facts:batch", body)


def prepared_told(
    body: tuple[Told, ...], looked: Looked, services: Services, principal: Principal,
    key: str | None,
) -> tuple[list[NewFact], Once | None]:  # fmt: skip
    """Do what `prepared` does with facts that say nothing unusual."""
    services.quotas.take(principal, {"facts": len(body)})
    facts = preparing.prepare_told(services.store, principal, body, looked)
    if key is None:
        return facts, None
    return facts, once(key, principal, "facts:batch", told.facts_in(body))


@router.get("/facts")
def list_facts(
    services: ServicesDep,
    principal: CallerDep,
    filters: Annotated[ListQuery, Query()],
) -> FactPage:
    """List visible facts, newest first, whatever their lifecycle unless one is named."""
    scopes = access.readable([filters.scope], principal) if filters.scope else None
    listing = Listing(
        view=principal.view,
        limit=filters.limit + 1,
        scopes=scopes,
        kind=filters.kind,
        tag=filters.tag,
        lifecycle=filters.lifecycle,
        source=filters.source,
        before=cursors.unseal(filters.cursor),
        review=filters.review,
        valid_at=filters.valid_at,
        known_at=filters.known_at,
    )
    found = services.store.list_facts(listing)
    page = found[: filters.limit]
    return FactPage(
        facts=page, cursor=cursors.seal(page[-1].id) if len(found) > len(page) else None
    )


@router.get("/facts/{fact_id}")
def get_fact(
    fact_id: str, services: ServicesDep, principal: CallerDep, known_at: Moment | None = None
) -> Fact:
    """Read one visible fact, as it is or as it was known at a moment."""
    return remembering.visible(services.store, principal, fact_id, known_at=known_at)


@router.post("/facts/{fact_id}:correct")
def correct(
    fact_id: str, body: CorrectIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Corrected:  # fmt: skip
    """Close a fact's validity, with a successor when the body has a replacement."""
    repeat = once(key, principal, f"correct/{fact_id}", body)
    return remembering.correct(services.store, principal, fact_id, body, repeat)
