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

_AGAIN = timedelta(seconds=1)


@dataclass(frozen=True)
class UnreadableMission:
    """The object as it stands, and why it cannot be read.

    `reason` is another one than Invalid where the object may be right; it is looked at again then.
    """

    body: Body
    problem: str
    operator_namespace: str
    reason: Reason = Reason.INVALID


def decide(observed: UnreadableMission, now: datetime) -> Plan:
    """Say what is wrong; close the run of one that is deleted, then let it go."""
    metadata = observed.body["metadata"]
    annotations = metadata.get("annotations") or {}
    run_id = annotation_values.run_id(annotations)
    going_since = attempts.parse_time(metadata.get("deletionTimestamp"))
    is_held = labels.FINALIZER in (metadata.get("finalizers") or ())
    if going_since is not None and is_held and run_id is None:
        return Plan((_released(metadata),))  # somebody took the run-id away, or wrote none
    if going_since is None or not is_held or run_id is None:
        return status_and_events.refuse(
            observed.body,
            summary=ConditionType.SUCCEEDED,
            problem=observed.problem,
            reason=observed.reason,
            now=now,
        )
    given = annotations.get(labels.OUTCOME)
    outcome = Outcome(given) if given in set(Outcome) else Outcome.CANCELLED
    closing = CloseRun(run_id, outcome, now, metadata["namespace"], metadata["name"])
    if now - going_since >= ledger.PATIENCE:
        calls = [outbox.close_run(closing)]
        key = outbox.key_of(metadata["namespace"], run_id)
        kept = outbox.body(observed.operator_namespace, key=key, calls=calls)
        return Plan((Create(kept), _released(metadata)))
    return Plan((closing, _released(metadata)), requeue_after=_AGAIN)


def _released(metadata: Body) -> PatchMetadata:
    ref = ObjectRef("Mission", metadata["namespace"], metadata["name"])
    left = tuple(f for f in metadata["finalizers"] if f != labels.FINALIZER)
    return PatchMetadata(ref, resource_version=metadata["resourceVersion"], finalizers=left)
