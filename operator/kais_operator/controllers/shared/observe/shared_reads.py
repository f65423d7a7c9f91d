"""Reads that the observations of several kinds share: parsed objects, formations, cells, scopes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, cast

from kais import labels, names
from kais.errors import InvalidResource
from kais.resources.base import Resource
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.knowledge_scope import KnowledgeScope
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.planning import memo, status_and_events
from kais_operator.planning.plan import Body, ObjectRef, Plan
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import Cluster

R = TypeVar("R", bound=Resource)
_PARSED: memo.RecentResults[tuple[type[Resource], bytes], Resource] = memo.RecentResults(128)
"""By model and content: each iteration reads the same objects, and all instances of a Blueprint
read the same revision."""


def parse_resource(model: type[R], body: Body) -> R | InvalidObject:
    """Parse a body as its model; InvalidObject, with the violations, if it breaks a rule."""
    try:
        parsed = _PARSED.get((model, memo.digest(body)), lambda: model.from_dict(body))
        return cast("R", parsed)
    except InvalidResource as exc:
        return InvalidObject(body, "; ".join(str(violation) for violation in exc.violations))


def decide_or_report_invalid(
    decide: Callable[[Any, datetime], Plan], *, summary: str
) -> Callable[[Any, datetime], Plan]:
    """Wrap a decision so that it also takes an InvalidObject.

    The Plan for such an object only reports the violations, in the condition of type `summary`.
    """

    def decide_or_report(observed: Any, now: datetime) -> Plan:
        if isinstance(observed, InvalidObject):
            return status_and_events.invalid_plan(observed, summary=summary, now=now)
        return decide(observed, now)

    return decide_or_report


async def formation_of(
    cluster: Cluster, namespace: str, name: str | None, *, fresh: bool = False
) -> Formation | None:
    """Read a Formation; None when it is missing, not valid, or `name` is None."""
    if name is None:
        return None
    body = await cluster.get(ObjectRef("Formation", namespace, name), fresh=fresh)
    formation = parse_resource(Formation, body) if body is not None else None
    return formation if isinstance(formation, Formation) else None


async def cells_by_label(
    cluster: Cluster, namespace: str, formation: str, *, fresh: bool = False
) -> dict[str, Body]:
    """Read every Cell with a formation's label, by name.

    Users can set the label too, so the Formation need not own all of these cells.
    """
    selector = f"{labels.FORMATION}={names.label_value(formation)}"
    bodies = await cluster.list("Cell", namespace, labels=selector, fresh=fresh)
    return {body["metadata"]["name"]: body for body in bodies}


async def scopes_sharing_account(cluster: Cluster, cell: Cell) -> tuple[Scope, ...]:
    """Return scopes of the other cells that run under the account that a cell borrows.

    Empty if the cell has an account of its own. The result may lack scopes that do not change the
    nearest common one, which is the home of all cells under the account.
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
    """Read the scope of the cell that owns an account; for most borrowed accounts no cell does."""
    body = await cluster.get_child(ObjectRef("Cell", namespace, account))
    owner = parse_resource(Cell, body) if body is not None else None
    if not isinstance(owner, Cell) or owner.is_deleting:
        return []
    formation = await formation_of(cluster, namespace, owner.spec.formation_ref)
    return [cell_identity.own_scope(CellInFormation(owner, formation))]


async def declared_scopes(cluster: Cluster, namespace: str) -> tuple[KnowledgeScope, ...]:
    """Read the KnowledgeScopes of a namespace, except those that are being deleted."""
    scopes_read = [
        parse_resource(KnowledgeScope, body)
        for body in await cluster.list("KnowledgeScope", namespace)
    ]
    return tuple(
        scope
        for scope in scopes_read
        if isinstance(scope, KnowledgeScope) and not scope.is_deleting
    )
