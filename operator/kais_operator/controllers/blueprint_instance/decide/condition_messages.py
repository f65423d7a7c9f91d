"""Conditions of an instance about its children."""

from __future__ import annotations

from kais import conditions, labels
from kais.blueprint_rendering import Rendered
from kais.conditions import ConditionType, DesiredCondition, Reason
from kais_operator.controllers.blueprint_instance.decide import (
    instance_reruns,
    instance_run,
    scale_down,
)
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)

_NONCE_LIMIT = 40  # characters; enough to recognise it


def suspended(observed: BlueprintInstanceObserved) -> DesiredCondition:
    """Return the condition of an instance that is suspended before its run starts."""
    metadata = observed.instance.metadata
    ref = f"{observed.instance.kind}/{metadata.namespace}/{metadata.name}"
    message = f"{ref} has spec.suspend; nothing was started, set it to false to begin"
    return conditions.false(ConditionType.APPLIED, Reason.SUSPENDED, message)


def rerun_note(observed: BlueprintInstanceObserved, rendered: Rendered) -> str:
    """Describe why a requested rerun does not start; empty when none is requested."""
    nonce = instance_reruns.requested_nonce(observed.instance)
    run = instance_run.run_of(observed.instance)
    if nonce is None or run is None or instance_reruns.next_run(observed.instance, rendered):
        return ""
    if rendered.mission_spec is None:
        explanation = "the Blueprint has no mission to run again"
    elif observed.instance.spec.suspend:
        explanation = "spec.suspend holds it back"
    else:
        explanation = "it starts when the current run has ended"
    return f"; {labels.RERUN} {nonce[:_NONCE_LIMIT]}: {explanation}"


def applied(
    observed: BlueprintInstanceObserved, *, has_mission: bool, is_held: bool, note: str = ""
) -> DesiredCondition:
    """Return the condition that the children are stored, or that a change of them waits."""
    metadata = observed.instance.metadata
    name = f"{metadata.namespace}/{metadata.name}"
    if is_held:
        message = f"Formation/{name} is changed when Mission/{name} has ended{note}"
        return conditions.false(ConditionType.APPLIED, Reason.UPDATE_WAITING, message)
    mission = f" and Mission/{name}" if has_mission else ""
    verb = "are" if mission else "is"
    message = f"Formation/{name}{mission} {verb} stored{note}"
    return conditions.true(ConditionType.APPLIED, Reason.APPLIED, message)


def cells_ready(observed: BlueprintInstanceObserved) -> DesiredCondition:
    """Return the Formation's condition about its cells, if it is about its present spec."""
    metadata = observed.instance.metadata
    name = f"Formation/{metadata.namespace}/{metadata.name}"
    formation = observed.formation or {"metadata": {}}
    if scale_down.is_scaled_down(observed.formation):
        message = (
            f"{name}: the mission has ended, so its Service cells are scaled down"
            " (spec.afterMission)"
        )
        return conditions.true(ConditionType.CELLS_READY, Reason.SCALED_DOWN, message)
    formation_conditions = (formation.get("status") or {}).get("conditions") or []
    condition = next(
        (c for c in formation_conditions if c["type"] == ConditionType.CELLS_READY), None
    )
    generation = formation["metadata"].get("generation")
    if condition is None or condition.get("observedGeneration") != generation:
        message = f"{name} has not reported its cells yet"
        return conditions.unknown(ConditionType.CELLS_READY, Reason.RECONCILING, message)
    message = f"{name}: {condition['message']}"
    reason = next((r for r in Reason if r == condition["reason"]), Reason.WAITING_FOR_CELLS)
    return DesiredCondition(ConditionType.CELLS_READY, condition["status"], reason, message)
