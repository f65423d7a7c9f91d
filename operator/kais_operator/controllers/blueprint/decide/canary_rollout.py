"""Decide about the canary of a Blueprint: begin it, evaluate its runs, obey a person, report.

The annotation that holds the canary is written in one patch with the served revision, so no crash
leaves one without the other. If the write of an evaluation is lost, the next reconcile evaluates
the runs of that time. `kubectl replace` removes the annotations of a Blueprint, so its canary is
also recorded on the revision that is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kais import canary, conditions, labels
from kais.canary import Canary, Runs, Verdict
from kais.conditions import ConditionType, Reason
from kais.resources.blueprint import Blueprint, Rollout
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint.decide import revision_history
from kais_operator.planning import status_and_events
from kais_operator.planning.plan import EmitEvent, ObjectRef, PatchMetadata
from knowledge_client import models

EVALUATION_INTERVAL = timedelta(seconds=60)
"""How often a running canary is counted without an event; arbitrary."""
_REASONS = {
    Verdict.PROMOTED: Reason.PROMOTED,
    Verdict.REGRESSED: Reason.REGRESSED,
    Verdict.UNDECIDED: Reason.UNDECIDED,
    Verdict.STOPPED: Reason.STOPPED,
}


@dataclass(frozen=True)
class CanaryDecision:
    """The canary after this reconcile, with the Events about it.

    Attributes:
        canary: None when there is none.
        events: about its beginning or its end.
        counts: the runs of the new and the old revision; None while they are not known.
    """

    canary: Canary | None = None
    events: tuple[EmitEvent, ...] = ()
    counts: tuple[Runs, Runs] | None = None


def recorded(blueprint: Blueprint, revisions: Sequence[BlueprintRevision]) -> Canary | None:
    """Return the canary of a Blueprint, from its revision if the Blueprint lost the annotation."""
    if labels.CANARY in blueprint.metadata.annotations:
        return canary.parse(blueprint.metadata.annotations)
    copies = (
        (canary.parse(revision.metadata.annotations), revision_history.number_of(revision))
        for revision in revisions
    )
    valid = [copy for copy, number in copies if copy is not None and copy.revision == number]
    return max(valid, key=lambda copy: copy.revision, default=None)


def copy_to_revisions(
    revisions: Sequence[BlueprintRevision], decision: CanaryDecision
) -> tuple[PatchMetadata, ...]:
    """Choose the writes after which the revision that is tried has the canary, and no other.

    Events would be lost if such a write fails, because the revision has changed; so it waits for
    the next reconcile. `revisions` are those that nothing else patches.
    """
    if decision.events:
        return ()
    current, writes = decision.canary, []
    for revision in revisions:
        is_tried = current is not None and current.revision == revision_history.number_of(revision)
        value = canary.dump(current) if current is not None and is_tried else None
        metadata = revision.metadata
        if metadata.annotations.get(labels.CANARY) == value:
            continue
        if status_and_events.is_suspended(revision):
            continue
        ref = ObjectRef(revision.kind, metadata.namespace, metadata.name)
        version = metadata.resource_version
        annotations = {labels.CANARY: value}
        writes.append(PatchMetadata(ref, resource_version=version, annotations=annotations))
    return tuple(writes)


def running(
    blueprint: Blueprint, revisions: Sequence[BlueprintRevision], *, present: int
) -> Canary | None:
    """Return the canary whose runs are to be counted; None without one."""
    current = recorded(blueprint, revisions)
    is_present = current is not None and current.revision == present
    is_running = is_present and blueprint.spec.rollout is not None
    return current if is_running and current is not None and current.verdict is None else None


def decide(
    blueprint: Blueprint,
    revisions: Sequence[BlueprintRevision],
    *,
    present: int,
    candidate: int | None,
    counted: Sequence[models.CanaryCounts] | None,
    now: datetime,
) -> CanaryDecision:
    """Choose the canary of a Blueprint that is not suspended.

    Args:
        blueprint: the object.
        revisions: those that exist.
        present: the revision of its spec.
        candidate: the revision that would serve without a canary.
        counted: the counts of the canary's runs; None when they are not known.
        now: the time.
    """
    rollout, annotations = blueprint.spec.rollout, blueprint.metadata.annotations
    current = recorded(blueprint, revisions)
    numbers = {revision_history.number_of(revision) for revision in revisions}
    if rollout is None:
        return CanaryDecision()
    if current is not None and current.revision == present and current.served in numbers:
        counts = _counts_of(current, counted)
        new, old = counts or (None, None)
        decided = canary.apply_request(
            current, annotations.get(labels.CANARY_REQUEST), new=new, old=old
        )
        if new is not None and old is not None:
            decided = canary.judge(decided, rollout, new=new, old=old)
        events = (_ended(decided),) if decided.verdict is not current.verdict else ()
        return CanaryDecision(decided, events, counts)
    over = revision_history.last_served(blueprint)
    if candidate == present and 0 < over < present and over in numbers:
        begun = canary.begin(present, over=over, now=now)
        event = EmitEvent("Normal", "CanaryBegun", _shares(begun, rollout))
        return CanaryDecision(begun, (event,))
    return CanaryDecision()


def _counts_of(
    current: Canary, counted: Sequence[models.CanaryCounts] | None
) -> tuple[Runs, Runs] | None:
    if counted is None:
        return None
    by_revision = {
        counts.revision: Runs(counts.succeeded, counts.succeeded + counts.failed)
        for counts in counted
    }
    return by_revision.get(current.revision, Runs()), by_revision.get(current.over, Runs())


def _ended(decided: Canary) -> EmitEvent:
    is_good = decided.verdict is Verdict.PROMOTED or decided.by_hand
    reason = f"Canary{decided.verdict}"
    return EmitEvent("Normal" if is_good else "Warning", reason, _ending(decided))


def _ending(ended: Canary) -> str:
    author = " by hand" if ended.by_hand else ""
    compared = ""
    if ended.new is not None and ended.old is not None:
        compared = f": revision {ended.revision}: {ended.new}, revision {ended.over}: {ended.old}"
    if ended.verdict is Verdict.PROMOTED:
        return f"revision {ended.revision} was promoted{author}{compared}"
    causes = {
        Verdict.REGRESSED: " because it succeeds less often",
        Verdict.UNDECIDED: " because its runs did not decide",
    }
    cause = causes.get(ended.verdict, "") if ended.verdict is not None else ""
    return (
        f"the canary, revision {ended.revision}, was stopped{author}{cause}{compared};"
        f" revision {ended.over} serves. Promote it by hand, or apply a newer revision"
    )


def add_condition(
    desired: conditions.ConditionSet, decision: CanaryDecision, blueprint: Blueprint
) -> None:
    """Add the condition about the canary; none without one."""
    current, rollout = decision.canary, blueprint.spec.rollout
    if current is None or rollout is None:
        return
    if current.verdict is Verdict.PROMOTED:
        desired.true(ConditionType.ROLLED_OUT, Reason.PROMOTED, _ending(current))
        return
    if current.verdict is not None:
        desired.false(ConditionType.ROLLED_OUT, _REASONS[current.verdict], _ending(current))
        return
    progress = "its runs are not counted yet; nothing is decided before the ledger answers"
    if decision.counts is not None:
        new, old = decision.counts
        progress = (
            f"revision {current.revision}: {new}, revision {current.over}: {old};"
            f" next look at {canary.next_look(current, rollout)} runs of the canary"
        )
    message = f"{_shares(current, rollout)}; {progress}"
    desired.false(ConditionType.ROLLED_OUT, Reason.CANARY_RUNNING, message)


def _shares(current: Canary, rollout: Rollout) -> str:
    return (
        f"revision {current.revision} gets {rollout.canary_percent} % of new instances,"
        f" revision {current.over} the others"
    )
