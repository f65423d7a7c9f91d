"""Registrations of principals, and the identity of the caller."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import PrincipalIn, PrincipalPage, WhoAmI
from knowledge_service.routes.dependencies import CallerDep, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import principals

router = APIRouter(prefix="/v1", tags=["principals"], route_class=Endpoint)


@router.put("/principals")
def put_principal(body: PrincipalIn, services: ServicesDep, principal: CallerDep) -> PrincipalIn:
    """Register a principal (idempotent). Callers can grant only the rights that they have."""
    return principals.put_principal(services.store, principal, body)


@router.get("/principals")
def list_principals(services: ServicesDep, principal: CallerDep) -> PrincipalPage:
    """List the registrations whose home the caller administers."""
    return principals.list_principals(services.store, principal)


@router.delete("/principals", status_code=204)
def delete_principal(username: str, services: ServicesDep, principal: CallerDep) -> None:
    """Remove a registration."""
    principals.delete_principal(services.store, principal, username)


@router.get("/whoami")
def whoami(services: ServicesDep, principal: CallerDep) -> WhoAmI:
    """Show who the caller is, and which store it talks to."""
    return principals.describe_caller(services.store, principal, services.authenticator)
