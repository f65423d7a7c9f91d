"""Operations of several acts, the revision of a fact, and its aliases."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import (
    AliasRemovalIn,
    AliasSetIn,
    NamedFact,
    OperationIn,
    OperationResult,
    Revised,
    ReviseIn,
)
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import alias_changes, idempotency
from knowledge_service.use_cases import operations as operation_use_cases
from knowledge_service.use_cases.operations import Performer

router = APIRouter(prefix="/v1", tags=["facts"], route_class=Endpoint)


@router.post("/operations")
def perform(
    body: OperationIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> OperationResult:
    """Do several acts in order, all or none; `:undo` of one of their facts reverts all of them."""
    operation_use_cases.charge(services, principal, body.acts)
    repeat = idempotency.bind_key(key, principal, "operations", body)
    return operation_use_cases.perform(services.store, principal, body, repeat)


@router.post("/facts/{fact_id}:revise")
def revise(
    fact_id: str, body: ReviseIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> Revised:  # fmt: skip
    """Replace a fact by a successor with the values that are set; names and links move to it."""
    repeat = idempotency.bind_key(key, principal, f"revise/{fact_id}", body)
    return operation_use_cases.revise(services.store, principal, fact_id, body, repeat)


@router.post("/facts/{fact_id}/aliases")
def set_alias(
    fact_id: str, body: AliasSetIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> NamedFact:  # fmt: skip
    """Assign an alias to a fact; with `move`, a fact that has it loses it."""
    repeat = idempotency.bind_key(key, principal, f"aliases/{fact_id}", body)
    return alias_changes.set_alias(Performer(services, principal, repeat), fact_id, body)


@router.post("/facts/{fact_id}/aliases:remove")
def remove_alias(
    fact_id: str, body: AliasRemovalIn, services: ServicesDep, principal: CallerDep,
    key: KeyHeader = None,
) -> NamedFact:  # fmt: skip
    """Free an alias of a fact, so that another fact can take it."""
    repeat = idempotency.bind_key(key, principal, f"aliases/{fact_id}:remove", body)
    return alias_changes.remove_alias(Performer(services, principal, repeat), fact_id, body)
