"""Reads that several kinds share: an object as its model, a formation, the cells of an account."""

from __future__ import annotations

from collections.abc import Callable, Collection
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
from kais_operator.decide import saying
from kais_operator.decide.cells.placing import Housed
from kais_operator.decide.plan import Body, ObjectRef, Plan
from kais_operator.ports import Cluster

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class Unreadable:
    """An object that breaks rules which the API server could not check.

    With another reason than Invalid it may be right, and nobody can tell now.
    """

    body: Body
    problem: str
    reason: Reason = Reason.INVALID


def read(model: type[R], body: Body) -> R | Unreadable:
    """Read a body as its model."""
    try:
        return model.from_dict(body)
    except InvalidResource as exc:
        return Unreadable(body, "; ".join(str(violation) for violation in exc.violations))


def deciding(
    decide: Callable[[Any, datetime], Plan], *, summary: str
) -> Callable[[Any, datetime], Plan]:
    """Make a decision that also takes an `Unreadable`, and says so in the summary condition."""

    def decide_or_refuse(observed: Any, now: datetime) -> Plan:
        if isinstance(observed, Unreadable):
            return saying.refuse(
                observed.body,
                summary=summary,
                problem=observed.problem,
                reason=observed.reason,
                now=now,
            )
        return decide(observed, now)

    return decide_or_refuse


async def formation_of(cluster: Cluster, namespace: str, name: str | None) -> Formation | None:
    """Read a Formation; None when it is missing, unreadable or not named."""
    if name is None:
        return None
    body = await cluster.get(ObjectRef("Formation", namespace, name))
    found = read(Formation, body) if body is not None else None
    return found if isinstance(found, Formation) else None


async def cells_by_label(cluster: Cluster, namespace: str, formation: str) -> dict[str, Body]:
    """Read every Cell that carries a formation's label, by name."""
    selector = f"{labels.FORMATION}={names.label_value(formation)}"
    bodies = await cluster.list("Cell", namespace, labels=selector)
    return {body["metadata"]["name"]: body for body in bodies}


async def sharing(cluster: Cluster, cell: Cell) -> tuple[Housed, ...]:
    """Read the other cells that run under the account which a cell borrows; none for its own."""
    account = cell.spec.service_account_name
    if account is None:
        return ()
    namespace = cell.metadata.namespace
    found = [read(Cell, body) for body in await cluster.list("Cell", namespace)]
    others = [
        other
        for other in found
        if isinstance(other, Cell)
        and other.metadata.name != cell.metadata.name
        and account in (other.spec.service_account_name, other.metadata.name)
        and not other.is_deleting
    ]
    wanted = {o.spec.formation_ref for o in others if o.spec.formation_ref}
    formations = await _formations(cluster, namespace, wanted)
    return tuple(Housed(o, formations.get(o.spec.formation_ref or "")) for o in others)


async def _formations(
    cluster: Cluster, namespace: str, wanted: Collection[str]
) -> dict[str, Formation]:
    """Read formations by name, more than one of them in one list."""
    if len(wanted) <= 1:
        found = [await formation_of(cluster, namespace, name) for name in wanted]
        return {f.metadata.name: f for f in found if f is not None}
    bodies = await cluster.list("Formation", namespace)
    read_ = [read(Formation, body) for body in bodies if body["metadata"]["name"] in wanted]
    return {f.metadata.name: f for f in read_ if isinstance(f, Formation)}


async def declared_scopes(cluster: Cluster, namespace: str) -> tuple[KnowledgeScope, ...]:
    """Read the KnowledgeScopes of a namespace, those on their way out left out."""
    found = [read(KnowledgeScope, body) for body in await cluster.list("KnowledgeScope", namespace)]
    return tuple(
        scope for scope in found if isinstance(scope, KnowledgeScope) and not scope.is_deleting
    )
