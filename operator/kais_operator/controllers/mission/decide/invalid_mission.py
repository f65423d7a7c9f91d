"""Decide about a Mission that cannot be read, and about a run that it may have started.

Such a Mission breaks rules that the API server could not check, for example because another version
stored it. On deletion its run is closed before the finalizer is removed: a run that is never
closed would count as running forever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kais import labels
from kais.conditions import ConditionType
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais_operator.controllers.mission.decide import attempts, ledger
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning import annotation_values, status_and_events
from kais_operator.planning.plan import Body, CloseRun, Create, ObjectRef, PatchMetadata, Plan

_RETRY_INTERVAL = timedelta(seconds=1)


@dataclass(frozen=True)
class InvalidMission:
    """The object as read, and why it cannot be parsed.

    `reason` differs from Invalid when the object may be valid; the operator then tries again.
    """

    body: Body
    problem: str
    operator_namespace: str
    reason: Reason = Reason.INVALID


def decide_invalid_mission(observed: InvalidMission, now: datetime) -> Plan:
    """Report the problem. On deletion, close the run and then remove the finalizer."""
    metadata = observed.body["metadata"]
    annotations = metadata.get("annotations") or {}
    run_id = annotation_values.run_id(annotations)
    deleted_at = attempts.parse_time(metadata.get("deletionTimestamp"))
    has_finalizer = labels.FINALIZER in (metadata.get("finalizers") or ())
    if deleted_at is not None and has_finalizer and run_id is None:
        return Plan((_release_finalizer(metadata),))  # the run-id is missing or was removed
    if deleted_at is None or not has_finalizer or run_id is None:
        return status_and_events.invalid_plan(
            observed.body,
            summary=ConditionType.SUCCEEDED,
            problem=observed.problem,
            reason=observed.reason,
            now=now,
        )
    outcome_value = annotations.get(labels.OUTCOME)
    outcome = Outcome(outcome_value) if outcome_value in set(Outcome) else Outcome.CANCELLED
    closing = CloseRun(run_id, outcome, now, metadata["namespace"], metadata["name"])
    if now - deleted_at >= ledger.OUTBOX_DELAY:
        calls = [outbox.close_run(closing)]
        key = outbox.key_of(metadata["namespace"], run_id)
        outbox_body = outbox.body(observed.operator_namespace, key=key, calls=calls)
        return Plan((Create(outbox_body), _release_finalizer(metadata)))
    return Plan((closing, _release_finalizer(metadata)), requeue_after=_RETRY_INTERVAL)


def _release_finalizer(metadata: Body) -> PatchMetadata:
    ref = ObjectRef("Mission", metadata["namespace"], metadata["name"])
    finalizers = tuple(f for f in metadata["finalizers"] if f != labels.FINALIZER)
    return PatchMetadata(ref, resource_version=metadata["resourceVersion"], finalizers=finalizers)
