"""The lifecycle of facts, their history, and the review queue."""

from __future__ import annotations

import functools
from typing import Annotated

from fastapi import APIRouter, Query

from knowledge_client.models import (
    ApprovalResult,
    ApproveIn,
    ConfirmIn,
    ErasureResult,
    Fact,
    History,
    PromotionResult,
    ReasonIn,
    ReviewPage,
    UndoResult,
)
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, OffloadDep, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import fact_lifecycle, idempotency

router = APIRouter(prefix="/v1", tags=["facts"], route_class=Endpoint)


@router.post("/facts/{fact_id}:confirm")
def confirm(
    fact_id: str, body: ConfirmIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Confirm a fact; a confirmation by a person returns a flagged fact to injection."""
    repeat = idempotency.bind_key(key, principal, f"confirm/{fact_id}", body)
    return fact_lifecycle.confirm(services.store, principal, fact_id, body, repeat)


@router.post("/facts/{fact_id}:retract")
def retract(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Retract a fact; its promoted copies are retracted too, unless others confirmed them."""
    repeat = idempotency.bind_key(key, principal, f"retract/{fact_id}", body)
    return fact_lifecycle.retract(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:restore")
def restore(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Restore a closed fact."""
    repeat = idempotency.bind_key(key, principal, f"restore/{fact_id}", body)
    return fact_lifecycle.restore(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:promote")
def promote(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> PromotionResult:  # fmt: skip
    """Copy a fact to the next wider scope, or confirm an equal fact there."""
    repeat = idempotency.bind_key(key, principal, f"promote/{fact_id}", body)
    return fact_lifecycle.promote(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:approve")
def approve(
    fact_id: str, body: ApproveIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> ApprovalResult:  # fmt: skip
    """Approve a fact, or an edited version that supersedes it."""
    repeat = idempotency.bind_key(key, principal, f"approve/{fact_id}", body)
    return fact_lifecycle.approve(services.store, principal, fact_id, body, repeat)


@router.post("/facts/{fact_id}:reject")
def reject(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Fact:  # fmt: skip
    """Reject a fact: it is archived and can be restored."""
    repeat = idempotency.bind_key(key, principal, f"reject/{fact_id}", body)
    return fact_lifecycle.reject(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:undo")
def undo(
    fact_id: str, body: ReasonIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> UndoResult:  # fmt: skip
    """Undo the last operation on a fact by appending its inverse."""
    repeat = idempotency.bind_key(key, principal, f"undo/{fact_id}", body)
    return fact_lifecycle.undo(services.store, principal, fact_id, body.reason, repeat)


@router.post("/facts/{fact_id}:erase")
async def erase(
    fact_id: str, body: ReasonIn, offload: OffloadDep, key: KeyHeader = None
) -> ErasureResult:
    """Permanently delete the text of a fact and of its promoted copies."""
    services, principal = offload.services, offload.principal
    repeat = idempotency.bind_key(key, principal, f"erase/{fact_id}", body)
    call = functools.partial(
        fact_lifecycle.erase, services.store, principal, fact_id, body.reason, repeat
    )
    result = await offload.run(call, "writes")
    await services.wait_for_open_reads()
    return result


@router.get("/facts/{fact_id}/history")
def history(fact_id: str, services: ServicesDep, principal: CallerDep) -> History:
    """Read the versions of a fact and the operations on it."""
    return fact_lifecycle.get_history(services.store, principal, fact_id)


@router.get("/reviews")
def reviews(
    services: ServicesDep,
    principal: CallerDep,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> ReviewPage:
    """List live drafts and flagged facts in scopes that the caller may review, newest first."""
    return fact_lifecycle.list_reviews(services.store, principal, cursor=cursor, limit=limit)
