"""Read a Formation with its cells, by label and by their desired names, its map and its claim."""

from __future__ import annotations

from kais import names
from kais.conditions import ConditionType
from kais.resources.formation import Formation
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.formation.decide import formation as decision
from kais_operator.controllers.formation.decide.formation import FormationObserved
from kais_operator.controllers.shared.observe import shared_reads
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import World


async def observe_formation(world: World, ref: ObjectRef) -> Observation | None:
    """Read a Formation and the objects with the names of its children; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    formation = shared_reads.read(Formation, body)
    if isinstance(formation, shared_reads.InvalidObject) or formation.is_deleting:
        return Observation(body, _of_one_going(formation))
    cells = await shared_reads.cells_by_label(world.cluster, ref.namespace, ref.name)
    is_too_large = formation.spec.too_many_cells() is not None
    for name in () if is_too_large else decision.desired_names(formation):
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
    return Observation(body, FormationObserved(formation, cells, routes, claim))


def _of_one_going(formation: Formation | shared_reads.InvalidObject) -> object:
    if isinstance(formation, shared_reads.InvalidObject):
        return formation
    return FormationObserved(formation, {})


CONTROLLER = Controller(
    "Formation",
    observe_formation,
    shared_reads.decide_or_report_invalid(decision.decide_formation, summary=ConditionType.READY),
)
