"""Choose the calls that report a run to the knowledge service: its start, its episodes, its end.

Every call may be repeated: runs are merged, episodes are keyed by their content, and extraction
happens once per run. The ledger shows which calls succeeded; if it was not read, the memory of
this process does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from kais import labels, names, trace_context
from kais.agent_results import AgentUsage
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.mission.decide import knowledge_injection, run_scope
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.controllers.mission.decide.attempt_state import State
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    instance_name,
    run_id_of,
)
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning import annotation_values, costs, finalizers, message_clauses
from kais_operator.planning.plan import (
    Action,
    Body,
    Create,
    PutRun,
    RecordEpisodes,
    RefreshStatistics,
    RequestExtraction,
)
from knowledge_client import models

REFUSAL_RETRY_INTERVAL = timedelta(hours=1)
"""How long to wait before calls that the knowledge service rejected are tried again."""
_CONTENT_LIMIT = 8192
_SIGNATURE_LIMIT = 512


@dataclass(frozen=True)
class LedgerState:
    """How far the end of a run is recorded in the knowledge service.

    Attributes:
        is_closed: the ledger has the run with its outcome.
        is_extracting: facts are to be extracted from the run.
        is_accepted: the service has accepted the extraction, or none is requested.
    """

    is_closed: bool
    is_extracting: bool
    is_accepted: bool

    @property
    def is_done(self) -> bool:
        """Whether no call is left."""
        return self.is_closed and self.is_accepted


def state_of(observed: MissionObserved) -> LedgerState:
    """Return how far the end of a run is recorded in the knowledge service."""
    ledger = observed.ledger
    has_ended = ledger.run is not None and ledger.run.outcome is not None
    is_closed = has_ended if ledger.run is not None else ledger.is_closed
    settings = cell_identity.settings_for(run_scope.of_run(observed), observed.declared)
    is_extracting = knowledge_injection.is_extracting(observed, settings)
    is_accepted = ledger.extraction is not None or ledger.is_extraction_accepted
    return LedgerState(is_closed, is_extracting, is_accepted or not is_extracting)


def open_actions(observed: MissionObserved, *, run_id: str) -> tuple[Action, ...]:
    """Choose the calls that open a run in the ledger; none if this process has tried already."""
    if observed.ledger.is_opened or observed.ledger.refusal is not None:
        return ()
    return _open_actions(observed, run_id)


def _open_actions(observed: MissionObserved, run_id: str) -> tuple[Action, ...]:
    run = run_in(observed, None)
    return (PutRun(run_id, run), *_refresh_actions(observed, is_urgent=False))


def close_actions(
    observed: MissionObserved, run_outcome: RunOutcome, *, run_id: str
) -> tuple[Action, ...]:
    """Choose the calls that record a run's end, in order; none while the service rejects them."""
    return () if is_refused(observed) else _close_actions(observed, run_outcome, run_id)


def is_refused(observed: MissionObserved) -> bool:
    """Whether calls are left that the knowledge service rejects permanently."""
    return observed.ledger.refusal is not None and not state_of(observed).is_done


def _close_actions(
    observed: MissionObserved, run_outcome: RunOutcome, run_id: str
) -> tuple[Action, ...]:
    state = state_of(observed)
    namespace = observed.mission.metadata.namespace
    actions: list[Action] = []
    traceparent = trace_context.of_run(observed.mission.metadata.annotations, run_id)
    if not state.is_closed:
        if not observed.ledger.is_opened:
            actions += _open_actions(observed, run_id)
        actions.append(RecordEpisodes(run_id, namespace, episodes(observed, run_outcome)))
        actions.append(PutRun(run_id, run_in(observed, run_outcome), traceparent))
        actions += _refresh_actions(observed, is_urgent=True)
    if not state.is_accepted:
        actions.append(RequestExtraction(run_id, namespace, _most_facts(observed), traceparent))
    return tuple(actions)


def needs_outbox(observed: MissionObserved, now: datetime) -> bool:
    """Whether a deletion has waited long enough for the knowledge service."""
    deleted_at = observed.mission.metadata.deletion_timestamp
    if deleted_at is None or not finalizers.is_held(observed.mission) or state_of(observed).is_done:
        return False
    if is_refused(observed):
        return True
    return finalizers.has_timed_out(deleted_at, now)


def outbox_actions(
    observed: MissionObserved, run_outcome: RunOutcome, *, run_id: str
) -> tuple[Action, ...]:
    """Choose the writes that store the calls in the outbox and remove the finalizer."""
    calls: list[Body] = []
    for action in _close_actions(observed, run_outcome, run_id):
        if isinstance(action, PutRun):
            calls.append(outbox.put_run(run_id, action.run))
        elif isinstance(action, RecordEpisodes):
            calls.append(outbox.record_episodes(action))
        elif isinstance(action, RequestExtraction):
            calls.append(outbox.request_extraction(action))
    key = outbox.key_of(observed.mission.metadata.namespace, run_id)
    outbox_body = outbox.body(observed.operator_namespace, key=key, calls=calls)
    return (Create(outbox_body), finalizers.release(observed.mission))


def run_in(observed: MissionObserved, run_outcome: RunOutcome | None) -> models.RunIn:
    """Build the run for the ledger, with its end if there is one.

    The scope is part of a run's identity, so the scope in the ledger is repeated.
    """
    mission = observed.mission
    metadata = mission.metadata
    fields = {
        "kind": "mission",
        "namespace": metadata.namespace,
        "scope": str(run_scope.of_run(observed)),
        "mission": metadata.name,
        "formation": _formation_of(observed),
        "objective": mission.spec.objective[:_CONTENT_LIMIT],
        "arm": knowledge_injection.arm_of(mission),
        **_instance_fields(observed),
    }
    lot = _lot(observed)
    fields["counters"] = lot or None
    if run_outcome is not None:
        fields |= {
            "outcome": run_outcome.outcome.value,
            "attempts": run_outcome.last_attempt,
            "started_at": run_outcome.started_at,
            "finished_at": run_outcome.finished_at,
            "counters": {**lot, **_counters(run_outcome)},
            **_costs(run_outcome.usage),
        }
    return models.RunIn.model_validate({k: v for k, v in fields.items() if v is not None})


def _formation_of(observed: MissionObserved) -> str | None:
    """Return the Formation whose cells work for the run; None for a cell without one."""
    if observed.team.formation is not None:
        return observed.team.formation.metadata.name
    return observed.mission.spec.formation_ref


def _lot(observed: MissionObserved) -> dict[str, int]:
    """Return the canary for which the run drew its revision; a rerun of the instance draws none."""
    annotations = observed.mission.metadata.annotations
    lot = annotation_values.parse_digits(annotations.get(labels.CANARY_LOT))
    return {} if not lot or labels.RERUN_TAKEN in annotations else {"canary": lot}


def _counters(run_outcome: RunOutcome) -> dict[str, int]:
    usage = run_outcome.usage
    counters = {} if run_outcome.injected is None else {"injected": run_outcome.injected}
    if usage is None:
        return counters
    return {
        **counters,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "turns": usage.turns,
        "toolCalls": usage.tool_calls,
    }


def _costs(usage: AgentUsage | None) -> Body:
    """Return the ledger's fields for the usage of models; none if nothing was reported."""
    if usage is None:
        return {}
    return {
        "tokens": usage.input_tokens + usage.output_tokens,
        "cost": costs.known_cost(usage),
    }


def blueprint_of(observed: MissionObserved) -> str | None:
    """Return the Blueprint that a mission's run counts for; None for a mission without one.

    It is the one that the mission was made from, which its instance may no longer name.
    """
    label = observed.mission.metadata.labels.get(labels.BLUEPRINT)
    if observed.instance is not None:
        name = observed.instance.spec.blueprint_ref.name
        if label in (None, names.label_value(name)):
            return name
    return observed.blueprint or label


def _instance_fields(observed: MissionObserved) -> Body:
    """Return the fields of the run's instance that the ledger does not have yet."""
    mission_labels = observed.mission.metadata.labels
    revision = annotation_values.parse_digits(mission_labels.get(labels.REVISION))
    fields: Body = {
        "blueprint": blueprint_of(observed),
        "revision": revision or None,
        "instance": instance_name(observed.mission) or mission_labels.get(labels.INSTANCE),
    }
    if observed.instance is not None:
        fields["parameters"] = _parameters(observed)
        fields["parameters_hash"] = observed.instance.status.parameters_hash
    run = observed.ledger.run
    return fields if run is None else {k: v for k, v in fields.items() if getattr(run, k) is None}


def _parameters(observed: MissionObserved) -> Body:
    """Return the run's parameters with defaults; for an older instance only those in its spec."""
    text = observed.mission.metadata.annotations.get(labels.PARAMETERS)
    instance_parameters = observed.instance.spec.parameters if observed.instance is not None else {}
    try:
        values = annotation_values.parse(text) if text is not None else instance_parameters
    except ValueError:
        return instance_parameters  # the annotation was edited
    return values if isinstance(values, dict) else instance_parameters


def episodes(observed: MissionObserved, run_outcome: RunOutcome) -> tuple[models.EpisodeIn, ...]:
    """Return an episode for each ended attempt, and one for the run if they do not explain it.

    The episode of the run is added when no attempt ended, or the outcome is neither Succeeded nor
    Failed.
    """
    metadata = observed.mission.metadata
    ref = models.Ref(type="mission", id=f"{metadata.namespace}/{metadata.name}")
    episodes = [_episode(summary, ref) for summary in run_outcome.attempts if summary.is_over]
    if not episodes or run_outcome.outcome.value not in ("Succeeded", "Failed"):
        episodes.append(
            models.EpisodeIn(
                attempt=max(1, run_outcome.last_attempt),
                type="decision",
                content=f"the run ended {run_outcome.outcome}: {run_outcome.message}"[
                    :_CONTENT_LIMIT
                ],
                refs=(ref,),
                at=run_outcome.finished_at,
            )
        )
    return tuple(episodes)


def _episode(summary: AttemptSummary, ref: models.Ref) -> models.EpisodeIn:
    end = f"attempt {summary.number}: {summary.end_message}"
    content = message_clauses.introduce(end, summary.message)[:_CONTENT_LIMIT]
    if summary.state is State.SUCCEEDED:
        return models.EpisodeIn(
            attempt=summary.number,
            type="message",
            content=content,
            refs=(ref,),
            at=summary.finished_at,
        )
    return models.EpisodeIn(
        attempt=summary.number,
        type="error",
        content=content,
        error_signature=_signature(summary),
        refs=(ref,),
        at=summary.finished_at,
    )


# The start of a line of JSON, or the end of an object that starts on an earlier line.
_RESULT = re.compile(r"\{\s*(?:\"|\}|$)|\[\s*(?:[\"{\[\d\]]|$)|\"[^\"]*\"\s*:|[\]}]")


def _signature(summary: AttemptSummary) -> str | None:
    """Return a text that identifies an error in later runs.

    It is the last line of the task's message, else the operator's message. A line of JSON
    identifies no error, and neither does the state of the attempt.
    """
    is_tasks = summary.state is not State.FAILED or summary.exit_code != 0
    lines = [line.strip() for line in summary.message.splitlines() if line.strip() and is_tasks]
    is_result = bool(lines) and _RESULT.match(lines[-1]) is not None
    line = lines[-1] if lines and not is_result else summary.end_message
    return line[:_SIGNATURE_LIMIT] or None


def _most_facts(observed: MissionObserved) -> int:
    return knowledge_injection.max_facts(
        cell_identity.settings_for(run_scope.of_run(observed), observed.declared)
    )


def refresh_statistics(observed: MissionObserved) -> tuple[Action, ...]:
    """Choose a new count of the scopes, once, when the facts of a run are extracted."""
    extraction, namespace = observed.ledger.extraction, observed.mission.metadata.namespace
    if extraction is None or extraction.state != "done" or observed.ledger.is_extraction_counted:
        return ()
    return (RefreshStatistics(namespace, None, extracted=run_id_of(observed.mission)),)


def _refresh_actions(observed: MissionObserved, *, is_urgent: bool) -> tuple[Action, ...]:
    blueprint = blueprint_of(observed)
    if blueprint is None and not is_urgent:
        return ()
    return (RefreshStatistics(observed.mission.metadata.namespace, blueprint, is_urgent=is_urgent),)
