"""Scale down the Service cells of an instance when its mission has ended.

This is `afterMission: ScaleDown`. An annotation of the Formation requests it, because its spec
comes only from the template. The annotation is removed before another run starts. Task cells have
no pods between missions, so a Formation with only Task cells gets no annotation.
"""

from __future__ import annotations

from kais import labels
from kais.errors import InvalidResource
from kais.resources.blueprint_instance import AfterMission
from kais.resources.cell_template import CellMode
from kais.resources.formation import FormationSpec
from kais_operator.controllers.blueprint_instance.decide import child_manifests
from kais_operator.controllers.blueprint_instance.decide.child_manifests import Run
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)
from kais_operator.planning import children
from kais_operator.planning.children import Ownership
from kais_operator.planning.plan import Action, Body, PatchMetadata


def decide(observed: BlueprintInstanceObserved, run: Run | None) -> tuple[Action, ...]:
    """Choose the write that scales the cells down or up; `run` has its outcome if it ended."""
    live = observed.formation
    parent = child_manifests.parent_of(observed.instance)
    if live is None or children.ownership_of(live, parent) is not Ownership.OWNED:
        return ()
    has_ended = run is not None and run.outcome is not None
    is_kept = observed.instance.spec.after_mission is AfterMission.KEEP
    is_scaled_down_desired = has_ended and not is_kept and _has_services(live)
    if is_scaled_down(live) == is_scaled_down_desired:
        return ()
    metadata = live["metadata"]
    return (
        PatchMetadata(
            children.ref_of(live),
            resource_version=metadata["resourceVersion"],
            annotations={
                labels.SCALED_DOWN: labels.SCALED_DOWN_YES if is_scaled_down_desired else None
            },
        ),
    )


def is_scaled_down(formation: Body | None) -> bool:
    """Whether the Formation's annotation requests no pods of Service cells."""
    carried = ((formation or {}).get("metadata") or {}).get("annotations") or {}
    return bool(carried.get(labels.SCALED_DOWN) == labels.SCALED_DOWN_YES)


def _has_services(formation: Body) -> bool:
    try:
        spec = FormationSpec.from_dict(formation["spec"])
    except InvalidResource:
        return False  # the controller of the Formation reports it
    return any(cell.spec.effective_mode is CellMode.SERVICE for cell in spec.cells)
