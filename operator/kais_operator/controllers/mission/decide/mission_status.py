"""Compute the status of a Mission, apart from its conditions, from what was observed."""

from __future__ import annotations

from collections.abc import Sequence

from kais import conditions, labels
from kais.agent_results import AgentUsage
from kais.approvals import MAX_APPROVALS, CallApproval
from kais.conditions import ConditionType
from kais.outcomes import Outcome
from kais.resources.check import CheckResult, CheckStatus, ReviewResult, ReviewStatus
from kais.resources.mission import (
    Acknowledged,
    ArtifactRef,
    CallApprovalStatus,
    KnowledgeUse,
    Mission,
    MissionDisplay,
    MissionPhase,
    MissionStatus,
    TokenUse,
)
from kais.resources.mission import Attempt as ToldAttempt
from kais_operator.controllers.cell.decide import volumes
from kais_operator.controllers.mission.decide import (
    attempt_record,
    knowledge_injection,
    ledger_calls,
    mind_usage,
    run_history_annotation,
)
from kais_operator.controllers.mission.decide import review as decide_review
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.controllers.mission.decide.attempt_state import State
from kais_operator.controllers.mission.decide.evaluated_mission import (
    EvaluatedMission,
    keep_last_true_condition,
)
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import costs

_WORKING = (State.WAITING, State.RUNNING)
_RESULT_LIMIT = 4096
_REVIEW_LIMIT = 65536  # maximum length of status.acknowledged.review


def status_of(
    evaluated: EvaluatedMission, timed_conditions: list[conditions.Condition]
) -> MissionStatus:
    """Return the whole status with the given conditions."""
    mission, run_outcome = evaluated.mission, evaluated.run_outcome
    summaries = evaluated.summaries()
    begun = evaluated.observed.history.with_restarting(evaluated.attempts)
    number = run_outcome.last_attempt if run_outcome else (begun[-1].number if begun else 0)
    max_attempts = mission.spec.completion.max_attempts
    knowledge, usage = _knowledge(evaluated), usage_of(evaluated)
    last = summaries[-1] if summaries else None
    has_result = last is not None and last.is_over and bool(last.message)
    return MissionStatus(
        observed_generation=mission.metadata.generation,
        conditions=timed_conditions,
        phase=_phase(evaluated),
        outcome=run_outcome.outcome if run_outcome else None,
        run_id=evaluated.run_id,
        attempt=number,
        started_at=run_outcome.started_at
        if run_outcome
        else (begun[0].started_at if begun else None),
        finished_at=run_outcome.finished_at if run_outcome else None,
        result=last.message[:_RESULT_LIMIT] if last is not None and has_result else None,
        result_truncated=last.is_truncated if last is not None and has_result else None,
        checks=_check_results(evaluated, last),
        review=_review(evaluated, summaries),
        approvals=_approvals(evaluated, last),
        history=[
            *_previous_runs(mission),
            *(_history_entry(summary, run_outcome) for summary in summaries),
        ],
        message=timed_conditions[-1].message,
        knowledge=knowledge,
        cost=costs.known_cost(usage),
        estimated_cost=costs.estimated_cost(usage),
        tokens=_tokens(usage),
        turns=usage.turns if usage is not None else None,
        tool_calls=usage.tool_calls if usage is not None else None,
        artifacts=_artifacts(last),
        acknowledged=_acknowledged(evaluated, summaries),
        display=MissionDisplay(
            attempt=f"{number}/{max_attempts}" if number else None,
            facts=_facts(evaluated, knowledge),
            cost=costs.display_usage(usage),
        ),
    )


def usage_of(evaluated: EvaluatedMission) -> AgentUsage | None:
    """Return what the run's models used in all attempts; None if nothing was reported."""
    if evaluated.run_outcome is not None:
        return evaluated.run_outcome.usage
    work = [
        attempt.usage
        for attempt in evaluated.observed.history.with_restarting(evaluated.attempts)
        if attempt.message_id is None or attempt.state is not State.RUNNING  # it still changes
    ]
    reviewed = [attempt for attempt in evaluated.attempts if attempt.state is not State.REVIEWING]
    return mind_usage.total([*work, attempt_record.review_usage(reviewed)])


def _artifacts(last: AttemptSummary | None) -> list[ArtifactRef]:
    """Return the files of the latest attempt, with their paths in the pod."""
    return [
        ArtifactRef(
            name=file.path.rpartition("/")[2],
            size_bytes=file.size_bytes,
            path=f"{volumes.WORKSPACE_FOLDER}{file.path}",
        )
        for file in (last.artifacts if last is not None else ())
    ]


def _approvals(
    evaluated: EvaluatedMission, last: AttemptSummary | None
) -> list[CallApprovalStatus]:
    """Return the tool calls of the latest attempt that wait for a person, or were decided."""
    restarting = evaluated.observed.history.restarting
    if evaluated.run_outcome is None and restarting is not None:
        last = attempt_record.summarise(restarting)
    calls = last.approvals if last is not None else ()
    listed = [*_unreported_calls(evaluated, last), *_call_statuses(calls)]
    return listed[-MAX_APPROVALS:]


def _unreported_calls(
    evaluated: EvaluatedMission, last: AttemptSummary | None
) -> list[CallApprovalStatus]:
    """Return the waiting calls of the last status until the pod of a Task reports which wait.

    A new pod asks for the same calls, so people can decide before it does.
    """
    status, asking = evaluated.mission.status, evaluated.observed.asking_pod
    if last is None or evaluated.run_outcome is not None or last.state not in _WORKING:
        return []
    is_same = (status.run_id, status.attempt) == (evaluated.run_id, last.number)
    is_task = last.message_id is None and not last.is_exec and last.exit_code is None
    if not is_same or not is_task or (asking is not None and asking.has_reported):
        return []
    reported = {call.call for call in last.approvals}
    return [
        call
        for call in status.approvals or ()
        if call.outcome is None and call.call not in reported
    ]


def _call_statuses(calls: Sequence[CallApproval]) -> list[CallApprovalStatus]:
    return [
        CallApprovalStatus(
            call=call.call,
            cell=call.cell,
            tool=call.tool,
            arguments=call.arguments if call.outcome is None else None,
            sha256=call.sha256,
            requested_at=call.requested_at,
            expires_at=call.expires_at,
            outcome=call.outcome,
            by=call.by,
            decided_at=call.decided_at,
            reason=call.reason or None,
        )
        for call in calls
    ]


def _tokens(usage: AgentUsage | None) -> TokenUse | None:
    return TokenUse(input=usage.input_tokens, output=usage.output_tokens) if usage else None


def _check_results(evaluated: EvaluatedMission, last: AttemptSummary | None) -> list[CheckResult]:
    """Return the results of the latest attempt's checks; Pending where there is no result."""
    results = {result.name: result for result in last.checks} if last is not None else {}
    check_results = []
    for check in evaluated.mission.spec.completion.checks:
        result = results.get(check.name)
        status = result.status if result is not None else CheckStatus.PENDING
        message = result.message if result is not None and result.message else None
        check_results.append(CheckResult(name=check.name, status=status, message=message))
    return check_results


def _review(
    evaluated: EvaluatedMission, summaries: Sequence[AttemptSummary]
) -> ReviewResult | None:
    """Return the latest verdict, or Pending while a review is awaited."""
    if summaries and summaries[-1].state is State.REVIEWING:
        return ReviewResult(status=ReviewStatus.PENDING)
    verdict = next(
        (summary.verdict for summary in reversed(summaries) if summary.verdict is not None), None
    )
    if verdict is None:
        return None
    return ReviewResult(
        status=verdict.status, feedback=verdict.feedback or None, by=verdict.by or None
    )


def _acknowledged(
    evaluated: EvaluatedMission, summaries: Sequence[AttemptSummary]
) -> Acknowledged | None:
    """Return the values of the verb annotations that have taken effect."""
    annotations = evaluated.mission.metadata.annotations
    verdict = decide_review.read(evaluated.mission)
    is_applied = any(
        summary.verdict is not None and summary.verdict == verdict for summary in summaries
    )
    abort, rerun = annotations.get(labels.ABORT), annotations.get(labels.RERUN_TAKEN)
    review = annotations.get(labels.REVIEW) if is_applied else None
    if abort is None and rerun is None and review is None:
        return None
    return Acknowledged(
        abort=abort[:1024] if abort is not None else None,
        rerun=rerun[:1024] if rerun is not None else None,
        review=review[:_REVIEW_LIMIT] if review is not None else None,
    )


def _previous_runs(mission: Mission) -> list[ToldAttempt]:
    """Return one entry for each previous run."""
    return [
        ToldAttempt(
            attempt=max(1, run.attempt),
            started_at=run.started_at,
            finished_at=run.finished_at,
            result=f"{run.outcome}: {run.message}"[:_RESULT_LIMIT],
            run_id=run.run_id,
        )
        for run in run_history_annotation.previous_runs(mission)
    ]


def _phase(evaluated: EvaluatedMission) -> MissionPhase:
    if evaluated.run_outcome is not None:
        is_good = evaluated.run_outcome.outcome is Outcome.SUCCEEDED
        return MissionPhase.SUCCEEDED if is_good else MissionPhase.FAILED
    return MissionPhase.RUNNING if evaluated.attempts else MissionPhase.PENDING


def _history_entry(summary: AttemptSummary, run_outcome: RunOutcome | None) -> ToldAttempt:
    if run_outcome is not None and not summary.is_over:
        # The run ended while the attempt was open; the attempt will not continue.
        return ToldAttempt(
            attempt=summary.number,
            started_at=summary.started_at,
            finished_at=run_outcome.finished_at,
            result=f"{run_outcome.outcome}: {run_outcome.message}"[:_RESULT_LIMIT],
        )
    return ToldAttempt(
        attempt=summary.number,
        started_at=summary.started_at,
        finished_at=summary.finished_at if summary.is_over else None,
        result=summary.sentence()[:_RESULT_LIMIT] or summary.state.value,
    )


def _knowledge(evaluated: EvaluatedMission) -> KnowledgeUse | None:
    receipt, injected = _injection(evaluated)
    extraction = evaluated.observed.ledger.extraction
    extracted = len(extraction.facts) if extraction and extraction.state == "done" else None
    last_status = evaluated.mission.status.knowledge
    if (
        extracted is None
        and last_status is not None
        and keep_last_true_condition(evaluated, ConditionType.KNOWLEDGE_EXTRACTED)
    ):
        extracted = last_status.extracted
    remembered = _remembered(evaluated)
    if receipt is None and injected is None and extracted is None and remembered is None:
        return None
    return KnowledgeUse(
        receipt=receipt, injected=injected, extracted=extracted, remembered=remembered
    )


def _remembered(evaluated: EvaluatedMission) -> int | None:
    """Return how many facts cells stored in the run, None for none.

    It is the last known number while the run cannot be read.
    """
    if evaluated.run_outcome is None:
        return None
    run, last_status = evaluated.observed.ledger.run, evaluated.mission.status.knowledge
    if run is not None:
        return len(run.remembered) or None
    is_same_run = evaluated.mission.status.run_id == evaluated.run_id
    return last_status.remembered if last_status is not None and is_same_run else None


def _injection(evaluated: EvaluatedMission) -> tuple[str | None, int | None]:
    if evaluated.run_outcome is not None:
        return evaluated.run_outcome.receipt, evaluated.run_outcome.injected
    last = evaluated.attempts[-1] if evaluated.attempts else None
    if last is None or last.job_name is None:
        return (last.receipt if last is not None else None), None
    return knowledge_injection.receipt_of(evaluated.observed.maps.get(last.job_name))


def _facts(evaluated: EvaluatedMission, knowledge: KnowledgeUse | None) -> str | None:
    """Return `3 in` during the run, and `3 in, 2 out` when the facts that it left are known.

    An agent that recalls by itself reports a receipt without a number: then there is no `in`.
    """
    use = knowledge or KnowledgeUse()
    is_over = evaluated.run_outcome is not None
    recalled = use.injected
    if recalled is None and is_over and use.receipt is None:
        recalled = 0
    parts = [] if recalled is None else [f"{recalled} in"]
    if is_over and (use.extracted is not None or not _may_extract(evaluated)):
        parts.append(f"{(use.extracted or 0) + (use.remembered or 0)} out")
    return ", ".join(parts) or None


def _may_extract(evaluated: EvaluatedMission) -> bool:
    extraction = evaluated.observed.ledger.extraction
    if extraction is not None:
        return extraction.state in ("pending", "running")
    return ledger_calls.state_of(evaluated.observed).is_extracting
