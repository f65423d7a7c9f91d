"""Apply the rendered children of an instance, and start its run at most once.

The writes have this order: first the identity of the run on the instance, with the labels that pin
the revision; then the Formation; then the Mission, which has the same identity. After a crash
between any two, the next reconcile continues without a second run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from kais import conditions, labels
from kais.blueprint_rendering import Rendered
from kais.conditions import ConditionType, DesiredCondition, Reason
from kais.outcomes import Outcome
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint_instance.decide import (
    child_manifests,
    condition_messages,
    instance_reruns,
    instance_run,
    revision_selection,
    scale_down,
)
from kais_operator.controllers.blueprint_instance.decide.child_manifests import Run
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
)
from kais_operator.planning import children, status_and_events
from kais_operator.planning.children import ChildDecision, Ownership
from kais_operator.planning.plan import Action, Apply, Delete, EmitEvent, ObjectRef, PatchMetadata


@dataclass(frozen=True)
class ApplyDecision:
    """The writes for an instance's children and run, and the conditions about them."""

    actions: tuple[Action, ...] = ()
    conditions: tuple[DesiredCondition, ...] = ()
    run: Run | None = None
    outcome: Outcome | None = None
    has_formation: bool = False
    has_mission: bool = False
    is_held: bool = False
    requeue_after: timedelta | None = None


@dataclass(frozen=True)
class _DesiredRun:
    """The desired run with the decisions about its children, as compared with the rendering."""

    run: Run
    outcome: Outcome | None
    formation: ChildDecision
    mission: ChildDecision | None
    is_held: bool
    is_session: bool
    nonce: str | None = None

    @property
    def blocked(self) -> ChildDecision | None:
        """The child that cannot be written. Then none is written, so that no run starts halfway."""
        return next((d for d in (self.formation, self.mission) if d is not None and d.reason), None)


def follow(observed: BlueprintInstanceObserved) -> ApplyDecision:
    """Report a run while nothing can be rendered; writes no child."""
    parent = child_manifests.parent_of(observed.instance)
    run = instance_run.run_of(observed.instance)
    outcome = instance_run.outcome_of(run, observed.mission, observed.ledger_outcome)
    recorded = _record_outcome(observed, run, outcome)
    return ApplyDecision(
        recorded or scale_down.decide(observed, run),
        run=run,
        outcome=outcome,
        has_formation=children.ownership_of(observed.formation, parent) is Ownership.OWNED,
        has_mission=outcome is not None
        or children.ownership_of(observed.mission, parent) is Ownership.OWNED,
    )


def suspended(observed: BlueprintInstanceObserved, applied: ApplyDecision) -> ApplyDecision:
    """Report the run without the decided writes, and without a condition that they were made."""
    followed = follow(observed)
    desired_conditions = (
        conditions.false(ConditionType.APPLIED, Reason.SUSPENDED, status_and_events.SUSPENDED),
        condition_messages.cells_ready(observed),
    )
    return replace(
        followed,
        actions=(),
        conditions=desired_conditions if applied.conditions else (),
        has_mission=applied.has_mission,
        is_held=True,
    )


def decide_apply(observed: BlueprintInstanceObserved, rendered: Rendered) -> ApplyDecision:
    """Choose the writes for an instance that was rendered.

    Raises:
        AssertionError: There is no revision, although the instance was rendered.
    """
    revision = observed.revision
    if revision is None:
        raise AssertionError("what was rendered has a revision")
    if observed.instance.spec.suspend and instance_run.run_of(observed.instance) is None:
        has_mission = rendered.mission_spec is not None
        return ApplyDecision(
            conditions=(condition_messages.suspended(observed),), has_mission=has_mission
        )
    wish = _desired_run(observed, revision, rendered)
    blocked = wish.blocked
    if blocked is not None:
        return _decide_blocked(observed, wish, blocked)
    ahead = instance_reruns.mission_run(observed)
    if ahead is not None:
        mission_run = replace(wish, run=ahead[0], nonce=ahead[1], outcome=None, is_session=False)
        return _begin_run(observed, revision, rendered, mission_run)
    further = instance_reruns.next_run(observed.instance, rendered)
    if further is not None and not wish.formation.actions:
        return _begin_run(
            observed, revision, rendered, replace(wish, run=further, outcome=None, is_session=False)
        )
    if instance_run.run_of(observed.instance) is None:
        return _begin_run(observed, revision, rendered, wish)
    return _continue_run(observed, revision, rendered, wish)


def _begin_run(
    observed: BlueprintInstanceObserved,
    revision: BlueprintRevision,
    rendered: Rendered,
    wish: _DesiredRun,
) -> ApplyDecision:
    """Stamp a run before its first side effect; the children of the first run follow at once."""
    is_first = instance_run.run_of(observed.instance) is None
    actions: list[Action] = [*_annotate_run(observed, revision, rendered, wish)]
    if is_first:
        actions += wish.formation.actions
        actions += wish.mission.actions if wish.mission is not None else ()
        actions += _opened(observed, revision, rendered, wish)
    adverb = "" if is_first else "again "
    message = f"run {wish.run.run_id} begins {adverb}on revision {revision.spec.revision}"
    actions.append(EmitEvent("Normal", "RunBegun", message))
    return _applied(observed, rendered, wish, actions)


def _continue_run(
    observed: BlueprintInstanceObserved,
    revision: BlueprintRevision,
    rendered: Rendered,
    wish: _DesiredRun,
) -> ApplyDecision:
    run = instance_run.run_of(observed.instance)
    actions: list[Action] = [*_annotate_run(observed, revision, rendered, wish)]
    actions += () if wish.is_held else wish.formation.actions
    actions += wish.mission.actions if wish.mission is not None else ()
    actions += _prune_mission(observed, rendered, wish)
    actions += _opened(observed, revision, rendered, wish)
    actions += _outcome_events(observed, run, wish.outcome)
    if not actions:
        actions += scale_down.decide(observed, run)
    return _applied(observed, rendered, wish, actions)


def _applied(
    observed: BlueprintInstanceObserved,
    rendered: Rendered,
    wish: _DesiredRun,
    actions: list[Action],
) -> ApplyDecision:
    applied_condition = condition_messages.applied(
        observed,
        has_mission=wish.mission is not None,
        is_held=wish.is_held,
        note=condition_messages.rerun_note(observed, rendered),
    )
    return ApplyDecision(
        tuple(actions),
        (applied_condition, condition_messages.cells_ready(observed)),
        wish.run,
        wish.outcome,
        has_formation=True,
        has_mission=wish.mission is not None or wish.outcome is not None,
        is_held=wish.is_held,
    )


def _desired_run(
    observed: BlueprintInstanceObserved, revision: BlueprintRevision, rendered: Rendered
) -> _DesiredRun:
    instance = observed.instance
    parent = child_manifests.parent_of(instance)
    current_run = instance_run.run_of(instance)
    outcome = instance_run.outcome_of(current_run, observed.mission, observed.ledger_outcome)
    run = current_run or instance_run.first_run(instance)
    body = child_manifests.formation_body(instance, revision, rendered.formation_spec)
    formation = children.decide_child(body, observed.formation, parent)
    mission = None
    if rendered.mission_spec is not None and not instance_run.is_session(instance):
        mission_run = Run(run.run_id, outcome)
        mission_body = child_manifests.mission_body(
            instance,
            revision,
            rendered.mission_spec,
            run=mission_run,
            values=rendered.values,
            lot=revision_selection.lot_of(instance, observed.choice),
        )
        mission = instance_reruns.decide_mission(observed, mission_body, run=run)
    is_new_render = any(isinstance(action, Apply) for action in formation.actions) and (
        child_manifests.hash_of(observed.formation) != child_manifests.hash_of(body)
    )
    is_running = instance_run.is_running(instance, observed.mission, outcome)
    return _DesiredRun(
        run,
        outcome,
        formation,
        mission,
        is_held=is_new_render and is_running,
        is_session=outcome is None and _is_session(observed, rendered),
    )


def _is_session(observed: BlueprintInstanceObserved, rendered: Rendered) -> bool:
    """Whether the run is a session; one whose mission was removed from the template is not."""
    if instance_run.is_session(observed.instance):
        return True
    parent = child_manifests.parent_of(observed.instance)
    ownership = children.ownership_of(observed.mission, parent)
    return rendered.mission_spec is None and ownership in (Ownership.MISSING, Ownership.FOREIGN)


def _prune_mission(
    observed: BlueprintInstanceObserved, rendered: Rendered, wish: _DesiredRun
) -> tuple[Delete, ...]:
    """Delete the Mission that the template no longer has, after its outcome is stamped."""
    run, live = instance_run.run_of(observed.instance), observed.mission
    if rendered.mission_spec is not None or live is None or run is None or run.outcome is None:
        return ()
    parent = child_manifests.parent_of(observed.instance)
    if children.ownership_of(live, parent) is not Ownership.OWNED:
        return ()
    return (Delete(children.ref_of(live), live["metadata"]["uid"]),)


def _opened(
    observed: BlueprintInstanceObserved,
    revision: BlueprintRevision,
    rendered: Rendered,
    wish: _DesiredRun,
) -> tuple[Action, ...]:
    """Open the run of an instance without a mission in the ledger, once."""
    if not wish.is_session or observed.is_run_registered:
        return ()
    return instance_run.open_actions(observed.instance, revision, rendered, run=wish.run)


def _annotate_run(
    observed: BlueprintInstanceObserved,
    revision: BlueprintRevision,
    rendered: Rendered,
    wish: _DesiredRun,
) -> tuple[PatchMetadata, ...]:
    """Write the run's identity, its outcome and the pinned revision where they are missing."""
    metadata = observed.instance.metadata
    marks = instance_run.run_annotations(
        observed.instance,
        run=Run(wish.run.run_id, wish.outcome),
        is_session=wish.is_session,
        mission_nonce=wish.nonce,
    )
    if instance_run.run_of(observed.instance) is None:
        lot = observed.choice.lot
        marks[labels.CANARY_LOT] = None if lot is None else str(lot)
    pin_labels: dict[str, str | None] = {}
    if not wish.is_held:
        pin_labels |= revision_selection.pin_labels(observed.instance, revision.spec.revision)
        marks |= instance_run.fixed_annotation(observed.instance, revision, rendered)
    missing = {k: v for k, v in marks.items() if metadata.annotations.get(k) != v}
    missing = {**dict.fromkeys(observed.copied), **missing}
    unkept = {k: v for k, v in pin_labels.items() if metadata.labels.get(k) != v}
    if not missing and not unkept:
        return ()
    return (
        PatchMetadata(
            _ref(observed),
            resource_version=metadata.resource_version,
            annotations=missing,
            labels=unkept,
        ),
    )


def _record_outcome(
    observed: BlueprintInstanceObserved, run: Run | None, outcome: Outcome | None
) -> tuple[Action, ...]:
    """Write only the outcome, when nothing else of the instance can be written now."""
    if run is None or outcome is None or run.outcome is not None:
        return ()
    patch = PatchMetadata(
        _ref(observed),
        resource_version=observed.instance.metadata.resource_version,
        annotations={labels.OUTCOME: outcome.value},
    )
    return (patch, *_outcome_events(observed, run, outcome))


def _outcome_events(
    observed: BlueprintInstanceObserved, run: Run | None, outcome: Outcome | None
) -> tuple[EmitEvent, ...]:
    """Return an Event about the end of the run, in the reconcile that records it."""
    if run is None or run.outcome is not None or outcome is None:
        return ()
    severity = "Normal" if outcome is Outcome.SUCCEEDED else "Warning"
    status = (observed.mission or {}).get("status") or {}
    is_reported = status.get("outcome") == outcome  # else its message is an older one
    message = instance_run.mission_message(observed.mission)
    ending = instance_run.ending_message(outcome, message) if is_reported else f"ended {outcome}"
    return (EmitEvent(severity, "RunEnded", f"run {run.run_id} {ending}"),)


def _decide_blocked(
    observed: BlueprintInstanceObserved, wish: _DesiredRun, blocked: ChildDecision
) -> ApplyDecision:
    run = instance_run.run_of(observed.instance)
    is_name_taken = blocked.reason is Reason.NAME_TAKEN
    reason = Reason.NAME_TAKEN if is_name_taken else Reason.RECONCILING
    return ApplyDecision(
        _record_outcome(observed, run, wish.outcome),
        (conditions.false(ConditionType.APPLIED, reason, blocked.message),),
        run,
        wish.outcome,
        has_mission=wish.mission is not None,
        requeue_after=blocked.requeue_after,
    )


def _ref(observed: BlueprintInstanceObserved) -> ObjectRef:
    metadata = observed.instance.metadata
    return ObjectRef(observed.instance.kind, metadata.namespace, metadata.name)
