"""The run of an instance: its identity, its outcome, and its end.

Identity and outcome are annotations of the instance, because they must survive the loss of the
status, the Mission and a restore: an instance with an outcome never runs again. The identity is
written before anything happens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kais import conditions, labels, names, parameters, scopes, trace_context
from kais.blueprint_rendering import Rendered
from kais.conditions import ConditionType, Reason
from kais.outcomes import Outcome
from kais.resources.blueprint_instance import MAX_TTL_S, BlueprintInstance, InstancePhase
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint_instance.decide import child_manifests
from kais_operator.controllers.blueprint_instance.decide.child_manifests import Run
from kais_operator.planning import annotation_values, run_stamps
from kais_operator.planning.plan import Action, Body, PutRun, RefreshStatistics
from knowledge_client import models

NONCE_LIMIT = 253
"""Characters of `kais.io/rerun` by which nonces are distinguished; arbitrary."""
_NOT_SUCCEEDED = {
    Outcome.FAILED: Reason.TASK_FAILED,
    Outcome.TIMED_OUT: Reason.TIMED_OUT,
    Outcome.BUDGET_EXCEEDED: Reason.BUDGET_EXCEEDED,
    Outcome.CANCELLED: Reason.CANCELLED,
    Outcome.INFRASTRUCTURE_FAILED: Reason.INFRASTRUCTURE_FAILED,
}


def run_of(instance: BlueprintInstance) -> Run | None:
    """Return the run that an instance has started; None before that."""
    annotations = instance.metadata.annotations
    run_id = annotation_values.run_id(annotations)
    return Run(run_id, annotations.get(labels.OUTCOME)) if run_id else None


def is_session(instance: BlueprintInstance) -> bool:
    """Whether an instance has started a run without a mission."""
    kind = instance.metadata.annotations.get(labels.RUN_KIND)
    return kind == labels.RUN_KIND_SESSION and labels.RUN_ID in instance.metadata.annotations


def fixed_parameters(instance: BlueprintInstance) -> Body:
    """Return the immutable parameters as they were when the run started; empty before that."""
    text = instance.metadata.annotations.get(labels.FIXED_PARAMETERS, "{}")
    try:
        read = annotation_values.parse(text)
    except ValueError:
        return {}  # the annotation was edited, so no values are known
    items = read.items() if isinstance(read, dict) else ()
    return {name: value for name, value in items if _is_fixed(value)}


def _is_fixed(value: Any) -> bool:
    return isinstance(value, dict) and {"hash", "shown"} <= value.keys()


def is_running(instance: BlueprintInstance, mission: Body | None, outcome: str | None) -> bool:
    """Whether a mission of the instance is running, so that its Formation must not change."""
    is_mission_run = labels.RUN_ID in instance.metadata.annotations and not is_session(instance)
    return is_mission_run and mission is not None and outcome is None


def run_annotations(
    instance: BlueprintInstance, *, run: Run, is_session: bool, mission_nonce: str | None = None
) -> dict[str, str | None]:
    """Return the annotations of an instance for a run, with None for those to remove.

    `mission_nonce` is the nonce of a run that its Mission started; without it, the nonce of the
    instance applies.
    """
    carried = instance.metadata.annotations
    annotations: dict[str, str | None] = {labels.RUN_ID: run.run_id}
    if run.outcome is not None:
        annotations[labels.OUTCOME] = run.outcome
    is_new = carried.get(labels.RUN_ID) != run.run_id
    if is_new or run.outcome is None:  # ended runs of older versions keep their stamp
        metadata = instance.metadata
        annotations |= run_stamps.object_annotation(
            instance.kind, metadata.namespace, metadata.name
        )
    if is_new:
        annotations[labels.TRACEPARENT] = trace_context.of_run(carried, run.run_id)
        annotations |= {labels.OUTCOME: None, labels.RUN_KIND: None}
        nonce = mission_nonce or carried.get(labels.RERUN, "")[:NONCE_LIMIT]
        annotations |= {labels.RERUN_TAKEN: nonce} if nonce else {}
    if mission_nonce is not None and carried.get(labels.RERUN) == carried.get(labels.RERUN_TAKEN):
        annotations[labels.RERUN] = mission_nonce  # else the previous nonce would count as new
    if is_session:
        annotations[labels.RUN_KIND] = labels.RUN_KIND_SESSION
    return annotations


def fixed_annotation(
    instance: BlueprintInstance, revision: BlueprintRevision, rendered: Rendered
) -> dict[str, str | None]:
    """Return the annotation of the immutable values; recorded values stay, new ones are added."""
    previous = fixed_parameters(instance)
    now = parameters.immutable_values(revision.spec.parameters, rendered.values)
    if not now.keys() - previous.keys():
        return {}
    return {labels.FIXED_PARAMETERS: json.dumps({**now, **previous}, sort_keys=True)}


def first_run(instance: BlueprintInstance) -> Run:
    """Return the first run of an instance."""
    return Run(names.run_id(instance.metadata.uid))


def outcome_of(run: Run | None, mission: Body | None, ledger: str | None) -> Outcome | None:
    """Return how the run ended: from the instance, else its Mission, else the ledger.

    A Mission of another run, started by hand or before a rerun, is ignored.
    """
    if run is None:
        return None
    outcome_value = run.outcome
    annotations = _annotations(mission)
    if outcome_value is None and annotations.get(labels.RUN_ID) == run.run_id:
        outcome_value = annotations.get(labels.OUTCOME)
    outcome_value = outcome_value or ledger
    return Outcome(outcome_value) if outcome_value in set(Outcome) else None


def open_actions(
    instance: BlueprintInstance, revision: BlueprintRevision, rendered: Rendered, *, run: Run
) -> tuple[Action, ...]:
    """Open the run of an instance without a mission, which never gets an outcome."""
    scope = scopes.Scope(
        realm=instance.metadata.namespace,
        formation=child_manifests.formation_scope(instance, rendered.formation_spec),
    )
    run_opened = PutRun(
        run.run_id,
        models.RunIn(
            kind="session",
            namespace=instance.metadata.namespace,
            scope=str(scope),
            blueprint=revision.spec.blueprint,
            revision=revision.spec.revision,
            instance=instance.metadata.name,
            parameters=child_manifests.ledger_parameters(rendered.values),
            parameters_hash=rendered.parameters_hash,
        ),
    )
    refresh = RefreshStatistics(instance.metadata.namespace, revision.spec.blueprint)
    return (run_opened, refresh)


def phase_of(run: Run | None, outcome: Outcome | None) -> InstancePhase:
    """Return the phase of an instance, which is for people."""
    if outcome is not None:
        is_good = outcome is Outcome.SUCCEEDED
        return InstancePhase.SUCCEEDED if is_good else InstancePhase.FAILED
    return InstancePhase.PENDING if run is None else InstancePhase.RUNNING


def mission_message(mission: Body | None) -> str:
    """Return the message of a Mission's status, else its phase."""
    status: Mapping[str, Any] = (mission or {}).get("status") or {}
    return str(status.get("message") or status.get("phase") or "it has not reported yet")


def ending_message(outcome: Outcome, message: str) -> str:
    """Describe the end of a run; a mission's message may begin with the outcome itself."""
    return f"ended {outcome}: {message.removeprefix(f'{outcome}: ')}"


def add_mission_finished(
    desired: conditions.ConditionSet,
    instance: BlueprintInstance,
    *,
    outcome: Outcome | None,
    message: str,
) -> None:
    """Add the condition whether the mission has ended, with its result or what it waits for."""
    name = f"Mission/{instance.metadata.namespace}/{instance.metadata.name}"
    if outcome is None:
        desired.false(ConditionType.MISSION_FINISHED, Reason.RUNNING, f"{name}: {message}")
    else:
        desired.true(
            ConditionType.MISSION_FINISHED,
            Reason.FINISHED,
            f"{name} {ending_message(outcome, message)}",
        )


def add_ready(desired: conditions.ConditionSet, outcome: Outcome | None) -> None:
    """Add the summary; an instance is not ready if its mission ended other than Succeeded."""
    desired.summarise(
        "the mission succeeded"
        if outcome is not None
        else "the formation is ready; it has no mission"
    )
    if outcome not in (None, Outcome.SUCCEEDED):
        finished = next(w for w in desired.desired() if w.type == ConditionType.MISSION_FINISHED)
        desired.false(ConditionType.READY, _NOT_SUCCEEDED[outcome], finished.message)


def expires_at(
    instance: BlueprintInstance, mission: Body | None, timed_conditions: list[conditions.Condition]
) -> datetime | None:
    """Return when a finished instance is deleted; None for never, or when it has not finished.

    The time counts from the end of the Mission. A Mission that was created again has none; then it
    counts from when the instance was found finished. An instance without a mission never finishes.
    """
    ttl_s = instance.spec.ttl_seconds_after_finished
    finished = next((c for c in timed_conditions if c.type == ConditionType.MISSION_FINISHED), None)
    if ttl_s is None or finished is None or finished.reason != Reason.FINISHED:
        return None
    at = ((mission or {}).get("status") or {}).get("finishedAt")
    start = datetime.fromisoformat(at) if at else finished.last_transition_time
    return start + timedelta(seconds=min(ttl_s, MAX_TTL_S))


def _annotations(mission: Body | None) -> Mapping[str, str]:
    return (mission or {}).get("metadata", {}).get("annotations") or {}
