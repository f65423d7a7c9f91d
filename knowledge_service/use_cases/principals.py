"""Principals: register, list and remove callers, and tell a caller who it is.

Callers are registered by those who administer the home of the account.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from knowledge_client.models import PrincipalIn, PrincipalPage, WhoAmI
from knowledge_service.domain.access_control import PLATFORM, realm_of
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Forbidden, NotFound
from knowledge_service.use_cases import authorization

if TYPE_CHECKING:
    from knowledge_service.ports import Authenticator, Store

_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):.+", re.DOTALL)


def put_principal(store: Store, principal: Principal, body: PrincipalIn) -> PrincipalIn:
    """Register a caller; repeating a registration changes nothing.

    Raises:
        ScopeForbidden, Forbidden: the caller does not administer the home or a granted scope, or
            another caller registered the account.
    """
    home = authorization.canonical_path(body.home, principal, "home")
    authorization.require_verb(principal, "admin", home)
    default_scope = body.default_scope
    if default_scope is not None:
        default_scope = authorization.canonical_path(default_scope, principal, "default_scope")
        authorization.require_verb(principal, "admin", default_scope)
    grants = []
    for grant in body.grants:
        scope = authorization.canonical_path(grant.scope, principal, "grants")
        authorization.require_verb(principal, "admin", scope)
        if grant.subtree and not principal.administers_all_below(scope):
            raise Forbidden(f"{principal.name} may not grant all below {scope}")
        grants.append(grant.model_copy(update={"scope": scope}))
    username = body.subject.username
    _require_own_account(username, home, principal)
    registered = store.principal(username)
    if registered and not principal.has_verb("admin", registered.home):
        raise Forbidden(f"{username} is registered, and not yours to move")
    registration = body.model_copy(
        update={"home": home, "default_scope": default_scope, "grants": tuple(grants)}
    )
    store.put_principal(registration, actor=authorization.actor_of(principal))
    return registration


def _require_own_account(username: str, home: str, principal: Principal) -> None:
    """Require that an account belongs to the namespace of its home.

    Other usernames, such as those of people, belong to the whole cluster: registering one decides
    what its bearer may read and do everywhere, so it takes an administrator of the platform.

    Raises:
        Forbidden: the account belongs to another namespace or to none.
    """
    account = _ACCOUNT.fullmatch(username)
    is_in_home = account is not None and realm_of(home) == f"realm:{account[1]}"
    if not is_in_home and not principal.administers_all_below(PLATFORM):
        raise Forbidden(
            f"{username} is not a ServiceAccount of {realm_of(home)};"
            " only administrators of the platform register other names"
        )


def list_principals(store: Store, principal: Principal) -> PrincipalPage:
    """Return the registrations whose home the caller administers."""
    return PrincipalPage(
        principals=tuple(
            registration
            for registration in store.principals()
            if principal.has_verb("admin", registration.home)
        )
    )


def delete_principal(store: Store, principal: Principal, username: str) -> None:
    """Remove a registration.

    Raises:
        NotFound: the account is not registered, or the caller does not administer its home.
    """
    registered = store.principal(username)
    if registered is None or not principal.has_verb("admin", registered.home):
        raise NotFound(f"principal {username} is not registered or not yours to remove")
    store.delete_principal(username, actor=authorization.actor_of(principal))


def describe_caller(store: Store, principal: Principal, authenticator: Authenticator) -> WhoAmI:
    """Return who the caller is, and which store it talks to."""
    return WhoAmI(
        name=principal.name,
        type=principal.type,
        home=principal.home,
        default_scope=principal.default_scope,
        grants=principal.grants,
        mode=authenticator.mode,
        store=store.identity(),
    )
