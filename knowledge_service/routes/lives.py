"""What is done to facts after they were remembered, their history, and the review queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from knowledge_client.models import (
    Approved,
    ApproveIn,
    ConfirmIn,
    Copied,
    Erased,
    Fact,
    History,
    ReasonIn,
    ReviewPage,
    Undone,
)
from knowledge_service.flows import living
from knowledge_service.routes import cursors
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep, once
from knowledge_service.routes.endpoint import Endpoint

router = APIRouter(prefix="/v1", tags=["facts"], route_class=Endpoint)


@router.post("/facts/{fact_id}:confirm")
def confirm(
    fact_id: str, body: ConfirmIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Confirm a fact; one by a person puts a flagged fact back into injection."""
    repeat = once(key, principal, f"confirm/{fact_id}", body)
    return living.confirm(services.store, principal, fact_id, body, repeat)


@router.post("/facts/{fact_id}:retract")
def retract(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Close a fact as wrong; its promoted copies go too, unless others confirmed them."""
    repeat = once(key, principal, f"retract/{fact_id}", body)
    return living.retract(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:restore")
def restore(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Make a closed fact live again."""
    repeat = once(key, principal, f"restore/{fact_id}", body)
    return living.restore(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:promote")
def promote(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Copied:  # fmt: skip
    """Copy a fact one level up, or confirm its equal there."""
    repeat = once(key, principal, f"promote/{fact_id}", body)
    return living.promote(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:approve")
def approve(
    fact_id: str, body: ApproveIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Approved:  # fmt: skip
    """Approve a fact; with other words, approve a successor that has them."""
    repeat = once(key, principal, f"approve/{fact_id}", body)
    return living.approve(services.store, principal, fact_id, body, repeat)


@router.post("/facts/{fact_id}:reject")
def reject(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Reject a fact: archived, and restorable."""
    repeat = once(key, principal, f"reject/{fact_id}", body)
    return living.reject(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:undo")
def undo(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Undone:  # fmt: skip
    """Append the inverse of the last thing that was done to a fact."""
    repeat = once(key, principal, f"undo/{fact_id}", body)
    return living.undo(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:erase")
def erase(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Erased:  # fmt: skip
    """Delete a fact's text for good, with its promoted copies."""
    repeat = once(key, principal, f"erase/{fact_id}", body)
    return living.erase(services.store, principal, fact_id, body.reason, repeat)


@router.get("/facts/{fact_id}/history")
def history(fact_id: str, services: ServicesDep, principal: CallerDep) -> History:
    """Read a fact's versions and what was done to it."""
    return living.history(services.store, principal, fact_id)


@router.get("/reviews")
def reviews(
    services: ServicesDep,
    principal: CallerDep,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> ReviewPage:
    """List live drafts and flagged facts in scopes that the caller reviews, newest first."""
    before = cursors.unseal(cursor)
    found = living.review_queue(services.store, principal, limit=limit + 1, before=before)
    page = found[:limit]
    more = cursors.seal(page[-1].id) if len(found) > len(page) else None
    return ReviewPage(facts=page, cursor=more)
