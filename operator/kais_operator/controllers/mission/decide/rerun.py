"""Start another run of the same Mission: one for each nonce in `kais.io/rerun: <nonce>`.

A run starts only when the previous one is recorded. Its run-id is computed from the nonce and a
UID. For the mission of an instance that is the instance's UID, so the controllers of both kinds
compute the same run-id, whichever is first.
"""

from __future__ import annotations

from datetime import datetime

from kais import labels, names, trace_context
from kais.resources.field_types import rfc3339
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    attempt_state,
    ledger_calls,
    run_history_annotation,
)
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import children, finalizers, run_stamps
from kais_operator.planning.plan import Action, Delete, ObjectRef, PatchMetadata


def nonce_of(mission: Mission) -> str | None:
    """Return the nonce in the mission's annotation."""
    return mission.metadata.annotations.get(labels.RERUN)


def run_id_for(mission: Mission, nonce: str | None) -> str:
    """Return the run-id for a nonce, or that of the first run."""
    metadata = mission.metadata
    owner = next((o for o in metadata.owner_references if o.controller), None)
    # A copy under another name keeps the owner reference, but is not the instance's mission.
    is_use = owner and (owner.kind, owner.name) == ("BlueprintInstance", metadata.name)
    return names.run_id(owner.uid if owner and is_use else mission.metadata.uid, nonce or "")


def requested_nonce(mission: Mission) -> str | None:
    """Return the nonce of a requested run that has not started; None without one."""
    annotations = mission.metadata.annotations
    nonce = nonce_of(mission)
    if nonce is None or nonce == annotations.get(labels.RERUN_TAKEN) or mission.is_deleting:
        return None
    return nonce if run_id_for(mission, nonce) != annotations.get(labels.RUN_ID) else None


def write_patch(
    observed: MissionObserved, run_outcome: RunOutcome, *, run_id: str, now: datetime
) -> PatchMetadata | None:
    """Choose the write that starts another run; None unless requested and the last run is recorded.

    The abort and review annotations of the last run are removed: the abort must not end the new
    run, and a verdict is about the work that was reviewed.
    """
    mission = observed.mission
    nonce = requested_nonce(mission)
    if nonce is None or not ledger_calls.state_of(observed).is_done:
        return None
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={
            labels.RUN_ID: run_id_for(mission, nonce),
            labels.TRACEPARENT: trace_context.of_run(
                metadata.annotations, run_id_for(mission, nonce)
            ),
            labels.RERUN_TAKEN: nonce,
            labels.ACCEPTED_AT: rfc3339(now),
            labels.HELD_UNTIL: None,
            labels.EARLIER_RUNS: run_history_annotation.append_run(mission, run_id, run_outcome),
            labels.OUTCOME: None,
            labels.ENDING: None,
            labels.ATTEMPTS: None,
            labels.ABORT: None,
            **dict.fromkeys(run_stamps.OF_PEOPLE),
        },
        finalizers=finalizers.added(metadata.finalizers),
    )


def delete_old_jobs(observed: MissionObserved, *, run_id: str) -> list[Action]:
    """Delete the Jobs of previous runs, because attempts are numbered from 1 again."""
    return [
        Delete(children.ref_of(job), uid=job["metadata"]["uid"])
        for job in observed.jobs
        if children.controller_uid(job) == observed.mission.metadata.uid
        and attempt_state.run_of(job) not in (None, run_id)
        and not job["metadata"].get("deletionTimestamp")
    ]
