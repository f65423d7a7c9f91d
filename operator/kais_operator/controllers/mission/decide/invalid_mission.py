"""A Mission that cannot be read: what to do about it, and about the run that it may have begun.

It breaks rules that the API server could not check, such as one stored by another version. It is
let go when it is deleted, but not without its run: a run that nobody closes would count as running
for ever.
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
    """The object as it stands, and why it cannot be read.

    `reason` is another one than Invalid where the object may be right; it is looked at again then.
    """

    body: Body
    problem: str
    operator_namespace: str
    reason: Reason = Reason.INVALID


def decide_invalid_mission(observed: InvalidMission, now: datetime) -> Plan:
    """Say what is wrong; close the run of one that is deleted, then let it go."""
    metadata = observed.body["metadata"]
    annotations = metadata.get("annotations") or {}
    run_id = annotation_values.run_id(annotations)
    deleted_at = attempts.parse_time(metadata.get("deletionTimestamp"))
    is_held = labels.FINALIZER in (metadata.get("finalizers") or ())
    if deleted_at is not None and is_held and run_id is None:
        return Plan((_release_finalizer(metadata),))  # somebody took the run-id away, or wrote none
    if deleted_at is None or not is_held or run_id is None:
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
