"""Authorization: which scopes, runs and writes a caller is allowed.

A scope out of reach is refused by its name alone, so the answer is the same whether it exists or
not. A run that the caller may not access is refused like one that does not exist.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kais import scopes
from knowledge_client.models import Fact, ProblemViolation, Run, ScopeRef, Verb
from knowledge_client.models.facts import MINE
from knowledge_service.domain.access_control import ScopeRange, View, lineage, realm_of
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import (
    Conflict,
    Forbidden,
    InvalidBody,
    NotFound,
    ScopeForbidden,
    ScopeReadOnly,
)
from knowledge_service.ports import Actor

if TYPE_CHECKING:
    from knowledge_service.ports import Store


def actor_of(principal: Principal) -> Actor:
    """Return the caller as the event log names it."""
    return Actor(principal.name, principal.type, author=principal.author, view=principal.view)


def canonical_path(ref: ScopeRef, principal: Principal, field: str = "scope") -> str:
    """Return the canonical path of a scope; ids that it leaves out come from the caller's home.

    `mine` is the home itself.

    Raises:
        InvalidBody: the scope is malformed.
    """
    try:
        if isinstance(ref, str):
            return principal.home if ref == MINE else _canonical(ref)
        wire = ref.model_dump(exclude_none=True)
        return str(scopes.from_wire(wire, home=scopes.Scope.parse(principal.home)))
    except scopes.InvalidScope as exc:
        raise InvalidBody(
            f"{field} is not a scope", (ProblemViolation(path=field, message=str(exc)),)
        ) from exc


# Callers repeat few paths; 4,096 is an arbitrary number.
@functools.lru_cache(maxsize=4096)
def _canonical(path: str) -> str:
    return str(scopes.Scope.parse(path))


def authorize_read(refs: Sequence[ScopeRef], principal: Principal) -> tuple[str, ...]:
    """Return the paths of scopes after checking that the caller may read all of them.

    Raises:
        ScopeForbidden: one is out of reach.
    """
    view = principal.view
    paths = tuple(dict.fromkeys(canonical_path(ref, principal, "scopes") for ref in refs))
    for path in paths:
        if not view.can_read(path):
            raise _scope_forbidden(path)
    return paths


def authorize_read_lineage(ref: ScopeRef, principal: Principal) -> tuple[str, ...]:
    """Return a scope and those above it that the caller may read, nearest first.

    Raises:
        ScopeForbidden: the named scope is out of reach.
    """
    (path,) = authorize_read([ref], principal)
    return tuple(ancestor for ancestor in lineage(path) if principal.view.can_read(ancestor))


def authorize_write(
    store: Store, ref: ScopeRef | None, principal: Principal, verb: Verb = "write"
) -> str:
    """Return the path to write to, by default the caller's default scope.

    Raises:
        ScopeForbidden: the scope is out of reach.
        Forbidden: the caller may read the scope but not write to it.
        ScopeReadOnly: the configuration of the scope allows no writes.
    """
    path = principal.default_scope if ref is None else canonical_path(ref, principal)
    require_verb(principal, verb, path)
    config = store.scope_configs([path]).get(path)
    if config and config.read_only:
        raise ScopeReadOnly(f"scope {path} is read-only; its KnowledgeScope says so")
    return path


def require_verb(principal: Principal, verb: Verb, path: str) -> None:
    """Require that the caller has a verb on a scope.

    Raises:
        ScopeForbidden: the scope is out of reach.
        Forbidden: the caller may read the scope but lacks the verb.
    """
    if principal.has_verb(verb, path):
        return
    if not principal.view.can_read(path):
        raise _scope_forbidden(path)
    raise Forbidden(f"{principal.name} may read {path} but lacks the verb {verb!r} there")


def require_change(principal: Principal, fact: Fact, reference: str, activity: str) -> None:
    """Require that the caller may change a fact: it may write in the scope, or is the author.

    Raises:
        Forbidden: the caller may only read the fact, or confirm it.
    """
    if principal.has_verb("write", fact.scope):
        return
    if not principal.has_verb("remember", fact.scope):
        raise Forbidden(f"{principal.name} may read fact {reference} but not {activity} it")
    if principal.author is None or fact.source.author != principal.author:
        writer = fact.source.author or fact.source.actor or "another"
        raise Forbidden(
            f"{principal.name} may not {activity} fact {reference}: {writer} wrote it;"
            " remember what you know instead, or have a person change it"
        )


def authorized_run(
    store: Store,
    run_id: str,
    principal: Principal,
    *,
    namespace: str | None = None,
    nearby_scope: str | None = None,
) -> Run:
    """Return a run that the caller may write about.

    The scope of the run is the caller's home or above it, or the caller may write to the scope. So
    a cell can write about the runs of its own Formation only. `namespace` and `nearby_scope` are
    those of `choose_run`.

    Raises:
        NotFound: the run does not exist or is not accessible.
        Conflict: several realms have a run with this id.
    """
    writable_in = (g for g in principal.grants if "write" in g.verbs or "admin" in g.verbs)
    view = View(principal.home, tuple(ScopeRange(g.scope, g.subtree) for g in writable_in))
    runs = store.runs_named(run_id, view)
    return choose_run(
        run_id, runs, namespace=namespace, nearby_scope=nearby_scope or principal.home
    )


def choose_run(
    run_id: str, runs: Sequence[Run], *, namespace: str | None, nearby_scope: str
) -> Run:
    """Choose the run with an id among those that the caller can access.

    With `namespace`, only its runs count. Without, runs in the realm of `nearby_scope` come first,
    then missions: agents cannot open missions, so an agent's session never hides one.

    Raises:
        NotFound: no run has this id.
        Conflict: several realms have a run with this id.
    """
    realm = realm_of(nearby_scope) if namespace is None else f"realm:{namespace}"
    if namespace is not None:
        runs = [run for run in runs if run.namespace == namespace]
    runs = [run for run in runs if realm_of(run.scope) == realm] or runs
    runs = [run for run in runs if run.kind == "mission"] or runs
    if not runs:
        raise run_not_found(run_id)
    if len(runs) > 1:
        realms = ", ".join(realm_of(run.scope) for run in runs)
        raise Conflict(f"run {run_id} exists in each of {realms}; name its namespace")
    return runs[0]


def run_not_found(run_id: str) -> NotFound:
    """Return the refusal for a run that does not exist or is not accessible."""
    return NotFound(f"run {run_id} does not exist or is not yours")


def _scope_forbidden(path: str) -> ScopeForbidden:
    return ScopeForbidden(f"scope {path} is not accessible to you")
