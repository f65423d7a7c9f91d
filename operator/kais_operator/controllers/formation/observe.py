"""Reads a Formation: its cells, by label and by the names they shall have, its map and claim."""

from __future__ import annotations

from kais import names
from kais.conditions import Type
from kais.resources.formation import Formation
from kais_operator.controllers.base import Reconciler, Seen
from kais_operator.controllers.formation.decide import formation as decision
from kais_operator.controllers.formation.decide.formation import FormationObserved
from kais_operator.controllers.shared.observe import reading
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import World


async def observe_formation(world: World, ref: ObjectRef) -> Seen | None:
    """Read a Formation and what bears the names of its children; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    formation = reading.read(Formation, body)
    if isinstance(formation, reading.Unreadable) or formation.is_deleting:
        return Seen(body, _of_one_going(formation))
    cells = await reading.cells_by_label(world.cluster, ref.namespace, ref.name)
    is_too_large = formation.spec.too_many_cells() is not None
    for name in () if is_too_large else decision.wanted_names(formation):
        if name not in cells:
            namesake = await world.cluster.get_child(ObjectRef("Cell", ref.namespace, name))
            if namesake is not None:
                cells[name] = namesake
    routes = await world.cluster.get_child(
        ObjectRef("ConfigMap", ref.namespace, names.topology_map_name(ref.name))
    )
    claim = await world.cluster.get_child(
        ObjectRef("PersistentVolumeClaim", ref.namespace, names.workspace_claim_name(ref.name))
    )
    return Seen(body, FormationObserved(formation, cells, routes, claim))


def _of_one_going(formation: Formation | reading.Unreadable) -> object:
    if isinstance(formation, reading.Unreadable):
        return formation
    return FormationObserved(formation, {})


RECONCILER = Reconciler(
    "Formation",
    observe_formation,
    reading.deciding(decision.decide_formation, summary=Type.READY),
)
