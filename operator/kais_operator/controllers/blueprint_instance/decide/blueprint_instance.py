"""Decides one use of a Blueprint: resolve, validate, render, apply, follow.

Each step stands on the one before; what a failed step leaves unsaid is said to wait for it. The
run is reported whatever the steps say: a use whose parameters were broken later still ends, and
what its Blueprint does meanwhile reaches it only through its own spec.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kais import conditions, labels
from kais.blueprints import Rendered, Rendering, Violations
from kais.conditions import ConditionType, DesiredCondition, Reason
from kais.resources.blueprint_instance import (
    BlueprintInstance,
    BlueprintInstanceStatus,
    InstanceAcknowledged,
)
from kais_operator.controllers.blueprint_instance.decide import (
    instance_apply,
    instance_children,
    instance_reruns,
    instance_run,
    revision_selection,
)
from kais_operator.controllers.blueprint_instance.decide.instance_apply import Applied
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
    """Choose the writes that bring a use to its Formation and Mission, and say how it stands."""
    said = conditions.ConditionSet()
    rendered = _say_rendered(said, observed)
    if rendered is not None:
        applied = instance_apply.decide_apply(observed, rendered)
    else:
        applied = instance_apply.follow(observed)
    is_suspended = status_and_events.is_suspended(observed.instance)
    if is_suspended:
        applied = instance_apply.suspended(observed, applied)
    _say_applied(said, observed, applied)
    told = said.merge(
        observed.instance.status.conditions,
        generation=observed.instance.metadata.generation,
        now=now,
    )
    expiry = instance_run.expires_at(observed.instance, observed.mission, told)
    is_over = expiry is not None and expiry <= now and not is_suspended
    if is_over and instance_reruns.asked(observed.instance) is None:
        return Plan((_delete(observed.instance),))
    events = status_and_events.transition_events(
        observed.instance, told, types=(ConditionType.READY,)
    )
    return Plan(
        (*applied.actions, *(() if applied.outcome else events)),
        status=_status(observed, applied, told),
        requeue_after=_soonest(observed, applied, expiry, now),
    )


def _say_rendered(
    said: conditions.ConditionSet, observed: BlueprintInstanceObserved
) -> Rendered | None:
    """Say the steps up to Rendered; gives what came out when all of them hold."""
    _say(said, observed.choice.problem or revision_selection.resolved(observed))
    rendering = observed.rendering
    if rendering is None:
        return None
    if isinstance(rendering, Violations) and rendering.reason is not Reason.RENDER_FAILED:
        said.false(ConditionType.PARAMETERS_VALID, rendering.reason, rendering.message)
        return None
    said.true(
        ConditionType.PARAMETERS_VALID,
        Reason.PARAMETERS_VALID,
        "all parameters satisfy their rules",
    )
    problem = _problem(observed, rendering)
    if isinstance(rendering, Violations) or problem is not None:
        said.false(ConditionType.RENDERED, Reason.RENDER_FAILED, problem or "nothing was rendered")
        return None
    said.true(ConditionType.RENDERED, Reason.RENDERED, _rendered_words(rendering))
    return rendering


def _problem(observed: BlueprintInstanceObserved, rendering: Rendering) -> str | None:
    """Say why what was rendered cannot be written, None when it can."""
    if isinstance(rendering, Violations):
        return rendering.message
    name = f"{observed.instance.metadata.namespace}/{observed.instance.metadata.name}"
    found = (
        instance_children.too_large(rendering.formation_spec, name=f"Formation/{name}"),
        instance_children.too_large(rendering.mission_spec or {}, name=f"Mission/{name}"),
    )
    return next((problem for problem in found if problem is not None), None)


def _rendered_words(rendered: Rendered) -> str:
    count = len(rendered.formation_spec["cells"])
    what = f"a Formation of {count} cell template{'' if count == 1 else 's'}"
    return f"the template gave {what}" + (" and a Mission" if rendered.mission_spec else "")


def _say(said: conditions.ConditionSet, wanted: DesiredCondition) -> None:
    adder = {"True": said.true, "False": said.false, "Unknown": said.unknown}[wanted.status]
    adder(wanted.type, wanted.reason, wanted.message)


def _say_applied(
    said: conditions.ConditionSet, observed: BlueprintInstanceObserved, applied: Applied
) -> None:
    """Say what the children make of it; steps that were not reached name what they wait for."""
    for wanted in applied.wanted:
        _say(said, wanted)
    reached = {wanted.type: wanted for wanted in said.desired()}
    trouble = next((w for w in said.desired() if w.status != "True"), None)
    if trouble is not None:
        for step in _STEPS:
            if step not in reached:
                said.unknown(step, Reason.RECONCILING, f"waits for {trouble.type}")
    if applied.has_mission:
        words = instance_run.mission_words(observed.mission)
        instance_run.say_finished(said, observed.instance, outcome=applied.outcome, message=words)
    elif trouble is None:
        message = "the Blueprint has no mission, so this instance has no outcome"
        said.true(ConditionType.MISSION_FINISHED, Reason.NO_MISSION, message)
    else:
        said.unknown(
            ConditionType.MISSION_FINISHED, Reason.RECONCILING, f"waits for {trouble.type}"
        )
    instance_run.say_ready(said, applied.outcome)


def _status(
    observed: BlueprintInstanceObserved, applied: Applied, told: list[conditions.Condition]
) -> Body:
    instance, rendering = observed.instance, observed.rendering
    name = instance.metadata.name
    taken = instance.metadata.annotations.get(labels.RERUN_TAKEN, "")[: instance_run.NONCE_LIMIT]
    status = BlueprintInstanceStatus(
        observed_generation=instance.metadata.generation,
        conditions=told,
        revision_in_use=_revision_in_use(observed, applied),
        parameters_hash=rendering.parameters_hash if isinstance(rendering, Rendered) else None,
        run_id=applied.run.run_id if applied.run else None,
        formation=name if applied.has_formation else None,
        mission=name if applied.has_mission else None,
        phase=instance_run.phase_of(applied.run, applied.outcome),
        outcome=applied.outcome,
        acknowledged=InstanceAcknowledged(rerun=taken) if taken else None,
    )
    return status_and_events.body_of(status)


def _revision_in_use(observed: BlueprintInstanceObserved, applied: Applied) -> int | None:
    """Give the revision that the Formation is of; before there is one, the chosen one."""
    kept = revision_selection.kept_number(observed.instance)
    if kept is not None and (applied.is_held or not applied.wanted):
        return kept
    return observed.revision.spec.revision if observed.revision else None


def _delete(instance: BlueprintInstance) -> Delete:
    metadata = instance.metadata
    return Delete(ObjectRef(instance.kind, metadata.namespace, metadata.name), metadata.uid)


def _soonest(
    observed: BlueprintInstanceObserved, applied: Applied, expiry: datetime | None, now: datetime
) -> timedelta | None:
    waits = (
        observed.choice.requeue_after,
        applied.requeue_after,
        expiry - now if expiry is not None else None,
        observed.retry_after,
    )
    return min((wait for wait in waits if wait is not None), default=None)
