"""Principals: registered by who administers their home, and what a caller is told about itself."""

from __future__ import annotations

import re

from fastapi import APIRouter

from knowledge_client.models import PrincipalIn, PrincipalPage, WhoAmI
from knowledge_service.domain.access_control import PLATFORM, Principal, realm_of
from knowledge_service.errors import Forbidden, NotFound
from knowledge_service.routes.dependencies import CallerDep, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import authorization

router = APIRouter(prefix="/v1", tags=["principals"], route_class=Endpoint)
_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):.+", re.DOTALL)


@router.put("/principals")
def put_principal(body: PrincipalIn, services: ServicesDep, principal: CallerDep) -> PrincipalIn:
    """Register a caller; repeating it is harmless. Nobody grants what it has not itself."""
    home = authorization.path_of(body.home, principal, "home")
    authorization.require(principal, "admin", home)
    grants = []
    for grant in body.grants:
        scope = authorization.path_of(grant.scope, principal, "grants")
        authorization.require(principal, "admin", scope)
        if grant.subtree and not principal.administers_all_below(scope):
            raise Forbidden(f"{principal.name} may not grant all below {scope}")
        grants.append(grant.model_copy(update={"scope": scope}))
    username = body.subject.username
    _require_own(username, home, principal)
    known = services.store.principal(username)
    if known and not principal.may("admin", known.home):
        raise Forbidden(f"{username} is registered, and not yours to move")
    settled = body.model_copy(update={"home": home, "grants": tuple(grants)})
    services.store.put_principal(settled, actor=authorization.actor(principal))
    return settled


def _require_own(username: str, home: str, principal: Principal) -> None:
    """Raise Forbidden unless the account is one of the home's own namespace.

    Other names, such as those of people, are the cluster's: who registers one decides what its
    bearer sees and does, so only who administers all of the platform does that.
    """
    account = _ACCOUNT.fullmatch(username)
    is_own = account is not None and realm_of(home) == f"realm:{account[1]}"
    if not is_own and not principal.administers_all_below(PLATFORM):
        raise Forbidden(
            f"{username} is not a ServiceAccount of {realm_of(home)};"
            " only administrators of the platform register other names"
        )


@router.get("/principals")
def list_principals(services: ServicesDep, principal: CallerDep) -> PrincipalPage:
    """List the registrations whose home the caller administers."""
    found = services.store.principals()
    return PrincipalPage(principals=tuple(p for p in found if principal.may("admin", p.home)))


@router.delete("/principals", status_code=204)
def delete_principal(username: str, services: ServicesDep, principal: CallerDep) -> None:
    """Forget a registration."""
    found = services.store.principal(username)
    if found is None or not principal.may("admin", found.home):
        raise NotFound(f"principal {username} is not registered or not yours to remove")
    services.store.delete_principal(username, actor=authorization.actor(principal))


@router.get("/whoami")
def whoami(services: ServicesDep, principal: CallerDep) -> WhoAmI:
    """Tell the caller who it is, and which store it talks to."""
    return WhoAmI(
        name=principal.name,
        type=principal.type,
        home=principal.home,
        grants=principal.grants,
        mode=services.authenticator.mode,
        store=services.store.identity(),
    )
