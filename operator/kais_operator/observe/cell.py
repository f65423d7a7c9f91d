"""Reads a Cell: its formation, its account and who shares it, and whether the store knows it."""

from __future__ import annotations

from dataclasses import replace

from kais.conditions import Type
from kais.resources.cell import Cell
from kais_operator.decide import cell as decision
from kais_operator.decide import placing
from kais_operator.decide.cell import CellObserved
from kais_operator.decide.placing import Housed
from kais_operator.decide.plan import ObjectRef
from kais_operator.observe import reading
from kais_operator.observe.reconcilers import Reconciler, Seen
from kais_operator.ports import World


async def observe_cell(world: World, ref: ObjectRef) -> Seen | None:
    """Read a Cell and what its decision needs; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    cell = reading.read(Cell, body)
    if isinstance(cell, reading.Unreadable):
        return Seen(body, cell)
    if cell.is_deleting or decision.not_supported(cell.spec) is not None:
        return Seen(body, CellObserved(Housed(cell, None), None))
    cluster = world.cluster
    formation = await reading.formation_of(cluster, ref.namespace, cell.spec.formation_ref)
    namespace = await cluster.get(ObjectRef("Namespace", "", ref.namespace))
    observed = CellObserved(
        housed=Housed(cell, formation),
        account=await cluster.get(
            ObjectRef("ServiceAccount", ref.namespace, placing.account_name(cell))
        ),
        sharing=await reading.sharing(cluster, cell),
        realm_uid=namespace["metadata"]["uid"] if namespace else "",
        store_problem=world.memory.store_problem(),
    )
    return Seen(body, replace(observed, is_registered=_is_registered(world, observed)))


def _is_registered(world: World, observed: CellObserved) -> bool:
    if observed.account is None:
        return False
    uid = observed.account["metadata"]["uid"]
    return world.memory.is_registered(decision.principal_for(observed, account_uid=uid))


RECONCILER = Reconciler(
    "Cell", observe_cell, reading.deciding(decision.decide_cell, summary=Type.READY)
)
