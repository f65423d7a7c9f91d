"""Decide about an instance of a Blueprint: resolve, validate, render, apply, follow.

Each step depends on the one before; the conditions of steps that are not reached say what they
wait for. The run is reported whatever the steps report. An instance whose parameters become invalid
later still ends, and changes of its Blueprint reach it only through its own spec.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kais import conditions, labels
from kais.blueprint_rendering import Rendered, Rendering, Violations
from kais.conditions import ConditionType, DesiredCondition, Reason
from kais.resources.blueprint_instance import (
    BlueprintInstance,
    BlueprintInstanceStatus,
    InstanceAcknowledged,
)
from kais_operator.controllers.blueprint_instance.decide import (
    apply_children,
    child_manifests,
    instance_reruns,
    instance_run,
    revision_selection,
    run_recovery,
)
from kais_operator.controllers.blueprint_instance.decide.apply_children import ApplyDecision
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)
from kais_operator.planning import status_and_events
from kais_operator.planning.plan import Body, Delete, ObjectRef, Plan

_STEPS = (
    ConditionType.BLUEPRINT_RESOLVED,
    ConditionType.PARAMETERS_VALID,
    ConditionType.RENDERED,
    ConditionType.APPLIED,
    ConditionType.CELLS_READY,
)


def decide_blueprint_instance(observed: BlueprintInstanceObserved, now: datetime) -> Plan:
    """Choose the writes for an instance's Formation and Mission, and compute its status."""
    is_suspended = status_and_events.is_suspended(observed.instance)
    taken_over = () if is_suspended else run_recovery.take_over(observed)
    if taken_over:
        return Plan(taken_over)
    desired = conditions.ConditionSet()
    rendered = _add_rendering_conditions(desired, observed)
    if rendered is not None:
        applied = apply_children.decide_apply(observed, rendered)
    else:
        applied = apply_children.follow(observed)
    if is_suspended:
        applied = apply_children.suspended(observed, applied)
    _add_apply_conditions(desired, observed, applied)
    timed_conditions = desired.merge(
        observed.instance.status.conditions,
        generation=observed.instance.metadata.generation,
        now=now,
    )
    expiry = instance_run.expires_at(observed.instance, observed.mission, timed_conditions)
    is_expired = expiry is not None and expiry <= now and not is_suspended
    if is_expired and instance_reruns.requested_nonce(observed.instance) is None:
        return Plan((_delete(observed.instance),))
    events = status_and_events.transition_events(
        observed.instance, timed_conditions, types=(ConditionType.READY,)
    )
    return Plan(
        (*applied.actions, *(() if applied.outcome else events)),
        status=_status(observed, applied, timed_conditions),
        requeue_after=_earliest_requeue(observed, applied, expiry, now),
    )


def _add_rendering_conditions(
    desired: conditions.ConditionSet, observed: BlueprintInstanceObserved
) -> Rendered | None:
    """Add the conditions up to Rendered; return the rendering when all are True."""
    _add_condition(desired, observed.choice.problem or revision_selection.resolved(observed))
    rendering = observed.rendering
    if rendering is None:
        return None
    if isinstance(rendering, Violations) and rendering.reason is not Reason.RENDER_FAILED:
        desired.false(ConditionType.PARAMETERS_VALID, rendering.reason, rendering.message)
        return None
    desired.true(
        ConditionType.PARAMETERS_VALID,
        Reason.PARAMETERS_VALID,
        "all parameters satisfy their rules",
    )
    problem = _rendering_problem(observed, rendering)
    if isinstance(rendering, Violations) or problem is not None:
        desired.false(
            ConditionType.RENDERED, Reason.RENDER_FAILED, problem or "nothing was rendered"
        )
        return None
    desired.true(ConditionType.RENDERED, Reason.RENDERED, _rendered_message(rendering))
    return rendering


def _rendering_problem(observed: BlueprintInstanceObserved, rendering: Rendering) -> str | None:
    """Return why the rendering cannot be written; None when it can."""
    if isinstance(rendering, Violations):
        return rendering.message
    name = f"{observed.instance.metadata.namespace}/{observed.instance.metadata.name}"
    problems = (
        child_manifests.too_large(rendering.formation_spec, name=f"Formation/{name}"),
        child_manifests.too_large(rendering.mission_spec or {}, name=f"Mission/{name}"),
    )
    return next((problem for problem in problems if problem is not None), None)


def _rendered_message(rendered: Rendered) -> str:
    count = len(rendered.formation_spec["cells"])
    summary = f"a Formation of {count} cell template{'' if count == 1 else 's'}"
    return f"the template gave {summary}" + (" and a Mission" if rendered.mission_spec else "")


def _add_condition(desired: conditions.ConditionSet, condition: DesiredCondition) -> None:
    adder = {"True": desired.true, "False": desired.false, "Unknown": desired.unknown}[
        condition.status
    ]
    adder(condition.type, condition.reason, condition.message)


def _add_apply_conditions(
    desired: conditions.ConditionSet, observed: BlueprintInstanceObserved, applied: ApplyDecision
) -> None:
    """Add the conditions about the children; steps that are not reached say what they wait for."""
    for condition in applied.conditions:
        _add_condition(desired, condition)
    reached = {condition.type: condition for condition in desired.desired()}
    unmet = next((w for w in desired.desired() if w.status != "True"), None)
    if unmet is not None:
        for step in _STEPS:
            if step not in reached:
                desired.unknown(step, Reason.RECONCILING, f"waits for {unmet.type}")
    if applied.has_mission:
        mission_message = instance_run.mission_message(observed.mission)
        instance_run.add_mission_finished(
            desired, observed.instance, outcome=applied.outcome, message=mission_message
        )
    elif unmet is None:
        message = "the Blueprint has no mission, so this instance has no outcome"
        desired.true(ConditionType.MISSION_FINISHED, Reason.NO_MISSION, message)
    else:
        desired.unknown(
            ConditionType.MISSION_FINISHED, Reason.RECONCILING, f"waits for {unmet.type}"
        )
    instance_run.add_ready(desired, applied.outcome)


def _status(
    observed: BlueprintInstanceObserved,
    applied: ApplyDecision,
    timed_conditions: list[conditions.Condition],
) -> Body:
    instance, rendering = observed.instance, observed.rendering
    name = instance.metadata.name
    nonce = instance.metadata.annotations.get(labels.RERUN_TAKEN, "")[: instance_run.NONCE_LIMIT]
    status = BlueprintInstanceStatus(
        observed_generation=instance.metadata.generation,
        conditions=timed_conditions,
        revision_in_use=_revision_in_use(observed, applied),
        parameters_hash=rendering.parameters_hash if isinstance(rendering, Rendered) else None,
        run_id=applied.run.run_id if applied.run else None,
        formation=name if applied.has_formation else None,
        mission=name if applied.has_mission else None,
        phase=instance_run.phase_of(applied.run, applied.outcome),
        outcome=applied.outcome,
        acknowledged=InstanceAcknowledged(rerun=nonce) if nonce else None,
    )
    return status_and_events.body_of(status)


def _revision_in_use(observed: BlueprintInstanceObserved, applied: ApplyDecision) -> int | None:
    """Return the revision of the Formation; before there is one, the chosen revision."""
    pinned = revision_selection.pinned_number(observed.instance)
    if pinned is not None and (applied.is_held or not applied.conditions):
        return pinned
    return observed.revision.spec.revision if observed.revision else None


def _delete(instance: BlueprintInstance) -> Delete:
    metadata = instance.metadata
    return Delete(ObjectRef(instance.kind, metadata.namespace, metadata.name), metadata.uid)


def _earliest_requeue(
    observed: BlueprintInstanceObserved,
    applied: ApplyDecision,
    expiry: datetime | None,
    now: datetime,
) -> timedelta | None:
    delays = (
        observed.choice.requeue_after,
        applied.requeue_after,
        expiry - now if expiry is not None else None,
        observed.retry_after,
    )
    return min((wait for wait in delays if wait is not None), default=None)
