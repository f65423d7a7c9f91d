"""Decide about Missions that fail validation, such as one that another version stored.

When such a Mission is deleted, its run is closed first: otherwise the ledger would list the run as
running forever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kais import labels
from kais.conditions import ConditionType
from kais.outcomes import Outcome
from kais_operator.controllers.mission.decide import attempt_state
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning import annotation_values, finalizers, status_and_events
from kais_operator.planning.plan import CloseRun, Create, Plan
from kais_operator.planning.status_and_events import InvalidObject

_RETRY_INTERVAL = timedelta(seconds=1)


@dataclass(frozen=True)
class InvalidMission:
    """The invalid object, and the namespace of the outbox."""

    invalid: InvalidObject
    operator_namespace: str


def decide_invalid_mission(observed: InvalidMission, now: datetime) -> Plan:
    """Report the problem; for a deleted Mission, close its run and release the finalizer."""
    metadata = observed.invalid.body["metadata"]
    annotations = metadata.get("annotations") or {}
    run_id = annotation_values.run_id(annotations)
    deleted_at = attempt_state.parse_time(metadata.get("deletionTimestamp"))
    has_finalizer = labels.FINALIZER in (metadata.get("finalizers") or ())
    if deleted_at is None or not has_finalizer or run_id is None:  # no run to close
        return status_and_events.invalid_plan(
            observed.invalid, summary=ConditionType.SUCCEEDED, now=now
        )
    released = finalizers.release_body("Mission", metadata)
    outcome_value = annotations.get(labels.OUTCOME)
    outcome = Outcome(outcome_value) if outcome_value in set(Outcome) else Outcome.CANCELLED
    closing = CloseRun(
        run_id,
        outcome=outcome,
        finished_at=now,
        namespace=metadata["namespace"],
        mission=metadata["name"],
    )
    if finalizers.has_timed_out(deleted_at, now):
        calls = [outbox.close_run(closing)]
        key = outbox.key_of(metadata["namespace"], run_id)
        outbox_body = outbox.body(observed.operator_namespace, key=key, calls=calls)
        return Plan((Create(outbox_body), *released))
    return Plan((closing, *released), requeue_after=_RETRY_INTERVAL)
