"""Compute the status of a revision; the revision itself never changes.

`Compatible` reports whether the revision may break callers of the previous one. The breaking
changes were determined when the revision was created, and are in its spec. A breaking revision is
still ready: new instances may use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kais import conditions
from kais.conditions import ConditionType, DesiredCondition, Reason
from kais.resources.blueprint_revision import (
    BlueprintRevision,
    BlueprintRevisionDisplay,
    BlueprintRevisionStatus,
)
from kais_operator.controllers.blueprint.decide import revision_history
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.controllers.blueprint_revision.decide import statistics_status
from kais_operator.planning import status_and_events
from kais_operator.planning.plan import ObjectRef, PatchMetadata, Plan
from knowledge_client import models


@dataclass(frozen=True)
class BlueprintRevisionObserved:
    """The observed state of a revision; `stats` are those of its whole Blueprint."""

    revision: BlueprintRevision
    verdict: Verdict
    stats: models.BlueprintStats | None = None


def decide_blueprint_revision(observed: BlueprintRevisionObserved, now: datetime) -> Plan:
    """Compute the status of a revision, and restore its labels."""
    revision, verdict = observed.revision, observed.verdict
    add_condition = conditions.true if verdict.is_good else conditions.false
    compiled = add_condition(ConditionType.COMPILED, verdict.reason, verdict.message)
    message = f"revision {revision.spec.revision} can be used"
    message += (
        f"; {status_and_events.SUSPENDED}" if status_and_events.is_suspended(revision) else ""
    )
    ready = conditions.summary([compiled], message=message)
    fields = statistics_status.fields_of(
        statistics_status.of_revision(observed.stats, revision.spec.revision), revision.status
    )
    timed_conditions = conditions.merge(
        revision.status.conditions,
        [compiled, _compatible(revision), ready],
        generation=revision.metadata.generation,
        now=now,
    )
    success = statistics_status.percent(fields.get("avg_success_rate"))
    new = BlueprintRevisionStatus(
        **fields,
        observed_generation=revision.metadata.generation,
        conditions=timed_conditions,
        display=BlueprintRevisionDisplay(success=success) if success else None,
    )
    return Plan(
        _relabelled(revision),
        status=status_and_events.body_of(new),
        requeue_after=verdict.retry_after,
    )


def _relabelled(revision: BlueprintRevision) -> tuple[PatchMetadata, ...]:
    """Restore the labels by which the revision is found, if they were removed or changed."""
    if status_and_events.is_suspended(revision):
        return ()
    metadata = revision.metadata
    desired_labels = revision_history.labels_of(revision)
    missing = {k: v for k, v in desired_labels.items() if metadata.labels.get(k) != v}
    if not missing:
        return ()
    ref = ObjectRef("BlueprintRevision", metadata.namespace, metadata.name)
    return (PatchMetadata(ref, resource_version=metadata.resource_version, labels=missing),)


def _compatible(revision: BlueprintRevision) -> DesiredCondition:
    spec = revision.spec
    if spec.breaking:
        message = "instances of the previous revision may break: " + "; ".join(spec.breaking)
        return conditions.false(ConditionType.COMPATIBLE, Reason.BREAKING_CHANGE, message)
    if spec.changes is None:
        message = "there is no previous revision"
        return conditions.true(ConditionType.COMPATIBLE, Reason.FIRST_REVISION, message)
    message = f"instances of the previous revision can use this one: {spec.changes}"
    return conditions.true(ConditionType.COMPATIBLE, Reason.COMPATIBLE, message)
