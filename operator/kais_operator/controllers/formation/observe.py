"""Read a Formation with its cells, the ConfigMap of its topology and the claim of its workspace.

Cells are read by the label of the formation and by their desired names, because a Cell that already
has such a name may lack the label: a user may have removed it, or created the Cell.
"""

from __future__ import annotations

from kais import names
from kais.conditions import ConditionType
from kais.resources.formation import Formation
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.formation.decide import formation as decision
from kais_operator.controllers.formation.decide.formation import FormationObserved
from kais_operator.controllers.shared.observe import shared_reads, vanished_runs
from kais_operator.planning.plan import ObjectRef
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World


async def observe_formation(world: World, ref: ObjectRef) -> Observation | None:
    """Read a Formation and the objects that have the names of its children; None if it is gone.

    An invalid Formation, or one that is being deleted, needs no children to be decided.
    """
    body = await world.cluster.get(ref)
    if body is None:
        return None
    formation = shared_reads.parse_resource(Formation, body)
    if isinstance(formation, InvalidObject):
        return Observation(body, formation)
    if formation.is_deleting:
        return Observation(body, FormationObserved(formation, {}))
    cells = await shared_reads.cells_by_label(world.cluster, ref.namespace, ref.name)
    is_too_large = formation.spec.too_many_cells() is not None
    for name in () if is_too_large else decision.desired_names(formation):
        if name not in cells:
            cell = await world.cluster.get_child(ObjectRef("Cell", ref.namespace, name))
            if cell is not None:
                cells[name] = cell
    topology_map = await world.cluster.get_child(
        ObjectRef("ConfigMap", ref.namespace, names.topology_map_name(ref.name))
    )
    claim = await world.cluster.get_child(
        ObjectRef("PersistentVolumeClaim", ref.namespace, names.workspace_claim_name(ref.name))
    )
    vanished = await vanished_runs.reserved_by_vanished(world, formation)
    return Observation(body, FormationObserved(formation, cells, topology_map, claim, vanished))


CONTROLLER = Controller(
    "Formation",
    observe_formation,
    shared_reads.decide_or_report_invalid(decision.decide_formation, summary=ConditionType.READY),
)
