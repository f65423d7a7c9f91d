"""Reads that several kinds share: objects as models, a formation, the cells of an account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from kais import labels, names
from kais.errors import InvalidResource
from kais.reasons import Reason
from kais.resources.base import Resource
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.knowledge_scope import KnowledgeScope
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.planning import status_and_events
from kais_operator.planning.plan import Body, ObjectRef, Plan
from kais_operator.ports import Cluster

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class InvalidObject:
    """An object that breaks rules which the API server could not check.

    With a reason other than Invalid it may be valid; this cannot be decided now.
    """

    body: Body
    problem: str
    reason: Reason = Reason.INVALID


def read(model: type[R], body: Body) -> R | InvalidObject:
    """Parse a body as its model; InvalidObject when it breaks a rule."""
    try:
        return model.from_dict(body)
    except InvalidResource as exc:
        return InvalidObject(body, "; ".join(str(violation) for violation in exc.violations))


def decide_or_report_invalid(
    decide: Callable[[Any, datetime], Plan], *, summary: str
) -> Callable[[Any, datetime], Plan]:
    """Wrap a decision to accept an InvalidObject, which the summary condition then reports."""

    def decide_or_refuse(observed: Any, now: datetime) -> Plan:
        if isinstance(observed, InvalidObject):
            return status_and_events.invalid_plan(
                observed.body,
                summary=summary,
                problem=observed.problem,
                reason=observed.reason,
                now=now,
            )
        return decide(observed, now)

    return decide_or_refuse


async def formation_of(cluster: Cluster, namespace: str, name: str | None) -> Formation | None:
    """Read a Formation; None when it is missing, not valid, or `name` is None."""
    if name is None:
        return None
    body = await cluster.get(ObjectRef("Formation", namespace, name))
    formation = read(Formation, body) if body is not None else None
    return formation if isinstance(formation, Formation) else None


async def cells_by_label(cluster: Cluster, namespace: str, formation: str) -> dict[str, Body]:
    """Read every Cell with a formation's label, by name."""
    selector = f"{labels.FORMATION}={names.label_value(formation)}"
    bodies = await cluster.list("Cell", namespace, labels=selector)
    return {body["metadata"]["name"]: body for body in bodies}


async def scopes_sharing_account(cluster: Cluster, cell: Cell) -> tuple[Scope, ...]:
    """Return scopes of the other cells that run under the account which a cell borrows.

    They are empty when the cell borrows none. Not every cell's scope is included, but the nearest
    common scope is the same.
    """
    account = cell.spec.service_account_name
    if account is None:
        return ()
    namespace, name = cell.metadata.namespace, cell.metadata.name
    scopes = [*await cluster.scopes_of_borrowers(namespace, account, excluding=name)]
    if account != name:
        scopes += await _scope_of_owner(cluster, namespace, account)
    return tuple(scopes)


async def _scope_of_owner(cluster: Cluster, namespace: str, account: str) -> list[Scope]:
    """Read the scope of the cell that owns the account; for most borrowed accounts none does."""
    body = await cluster.get_child(ObjectRef("Cell", namespace, account))
    owner = read(Cell, body) if body is not None else None
    if not isinstance(owner, Cell) or owner.is_deleting:
        return []
    formation = await formation_of(cluster, namespace, owner.spec.formation_ref)
    return [cell_identity.own_scope(CellInFormation(owner, formation))]


async def declared_scopes(cluster: Cluster, namespace: str) -> tuple[KnowledgeScope, ...]:
    """Read the KnowledgeScopes of a namespace, except those that are being deleted."""
    scopes_read = [
        read(KnowledgeScope, body) for body in await cluster.list("KnowledgeScope", namespace)
    ]
    return tuple(
        scope
        for scope in scopes_read
        if isinstance(scope, KnowledgeScope) and not scope.is_deleting
    )
