"""Compute the conditions and Events of a Mission from what was observed."""

from __future__ import annotations

from datetime import datetime

from kais import conditions, labels
from kais.approvals import MAX_APPROVED, CallApproval
from kais.conditions import ConditionType, DesiredCondition
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais.resources.check import CheckStatus, ReviewStatus
from kais.resources.field_types import rfc3339
from kais_operator.controllers.mission.decide import (
    attempt_record,
    entrypoint,
    mission_status,
    outcome,
    reviewer_cells,
    task_approvals,
    tool_approvals,
)
from kais_operator.controllers.mission.decide import ledger_calls as decide_ledger
from kais_operator.controllers.mission.decide import review as decide_review
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import NotReady
from kais_operator.controllers.mission.decide.evaluated_mission import (
    EvaluatedMission,
    keep_last_true_condition,
)
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import message_clauses, status_and_events
from kais_operator.planning.plan import Body, EmitEvent
from knowledge_client import models

_CRITERIA_LIMIT = 1024
_REASONS = {
    Outcome.FAILED: Reason.TASK_FAILED,
    Outcome.TIMED_OUT: Reason.TIMED_OUT,
    Outcome.BUDGET_EXCEEDED: Reason.BUDGET_EXCEEDED,
    Outcome.CANCELLED: Reason.CANCELLED,
    Outcome.INFRASTRUCTURE_FAILED: Reason.INFRASTRUCTURE_FAILED,
}


def decide_status(evaluated: EvaluatedMission, now: datetime) -> tuple[Body, tuple[EmitEvent, ...]]:
    """Return a mission's status, and the Events for its transitions."""
    wanted_conditions = [
        _started(evaluated),
        _checks_passed(evaluated),
        _knowledge_extracted(evaluated),
        _recorded(evaluated),
        _succeeded(evaluated),
    ]
    timed_conditions = status_and_events.with_transition_times(
        evaluated.mission, wanted_conditions, now
    )
    status = mission_status.status_of(evaluated, timed_conditions)
    is_worth_both = evaluated.run_outcome is None or timed_conditions[0].status == "True"
    types = (
        (ConditionType.STARTED, ConditionType.SUCCEEDED)
        if is_worth_both
        else (ConditionType.SUCCEEDED,)
    )
    events = status_and_events.transition_events(evaluated.mission, timed_conditions, types=types)
    return status_and_events.body_of(status), (
        *events,
        *_review_requested(evaluated, wanted_conditions[-1]),
    )


def _started(evaluated: EvaluatedMission) -> DesiredCondition:
    unsupported = outcome.unsupported(evaluated.mission, evaluated.observed.team)
    if unsupported is not None and not evaluated.attempts and evaluated.run_outcome is None:
        return conditions.false(ConditionType.STARTED, Reason.NOT_YET_SUPPORTED, unsupported)
    first_started = next((summary for summary in evaluated.summaries() if summary.is_started), None)
    if first_started is not None:
        message = (
            f"attempt {first_started.number} was started at {rfc3339(first_started.started_at)}"
        )
        return conditions.true(
            ConditionType.STARTED,
            Reason.STARTED,
            message + _remark(evaluated),
        )
    if evaluated.run_outcome is not None:
        return _never_started(evaluated.run_outcome)
    last = evaluated.attempts[-1] if evaluated.attempts else None
    if evaluated.obstacle is not None and (last is None or last.problem_reason is None):
        return conditions.false(
            ConditionType.STARTED, evaluated.obstacle.reason, evaluated.obstacle.message
        )
    if last is not None:
        reason = last.problem_reason or Reason.WAITING_FOR_PODS
        return conditions.false(ConditionType.STARTED, reason, last.end_message)
    message = "attempt 1 is being started"
    return conditions.false(ConditionType.STARTED, Reason.WAITING_FOR_PODS, message)


_WITHOUT_EFFECT = " (without effect: budget: only cells with a mind report costs)"


def _remark(evaluated: EvaluatedMission) -> str:
    """Return a remark on a budget that has no effect, because no mind spends it.

    The cell of a recorded run is not read any more: then the remark stays as it was.
    """
    budget = evaluated.mission.spec.budget
    if budget is None or budget.max_cost is None or mission_status.usage_of(evaluated) is not None:
        return ""
    entry = entrypoint.entrypoint_cell(evaluated.mission, evaluated.observed.team)
    if isinstance(entry, NotReady):
        last_condition = evaluated.mission.condition(ConditionType.STARTED)
        is_without_effect = last_condition is not None and _WITHOUT_EFFECT in last_condition.message
    else:
        is_without_effect = entry.spec.mind is None
    return _WITHOUT_EFFECT if is_without_effect else ""


def _never_started(run_outcome: RunOutcome) -> DesiredCondition:
    if not run_outcome.attempts and run_outcome.last_attempt > 0:
        return conditions.true(ConditionType.STARTED, Reason.ALREADY_RUN, run_outcome.message)
    reason = _REASONS.get(run_outcome.outcome, Reason.ALREADY_RUN)
    return conditions.false(ConditionType.STARTED, reason, run_outcome.message)


def _checks_passed(evaluated: EvaluatedMission) -> DesiredCondition:
    type_ = ConditionType.CHECKS_PASSED
    if not evaluated.mission.spec.completion.checks:
        message = "the mission declares no checks; the exit code decides"
        return conditions.true(type_, Reason.NO_CHECKS, message)
    last = next(iter(reversed(evaluated.summaries())), None)
    results = last.checks if last is not None else ()
    bad = [r for r in results if r.status in (CheckStatus.FAILED, CheckStatus.ERROR)]
    if bad:
        failures = "; ".join(
            f"{r.name} {r.status}{': ' if r.message else ''}{r.message}" for r in bad
        )
        return conditions.false(type_, Reason.CHECK_FAILED, failures)
    waiting = [r.name for r in results if r.status is CheckStatus.PENDING]
    if last is None or not results or waiting:
        pending_names = ", ".join(
            waiting or [check.name for check in evaluated.mission.spec.completion.checks]
        )
        if evaluated.run_outcome is not None:
            message = f"the run ended before these checks were evaluated: {pending_names}"
            return conditions.false(type_, Reason.CHECKS_PENDING, message)
        message = f"still to be evaluated: {pending_names}"
        renderer_message = _renderer_message(evaluated)
        if renderer_message is not None:
            return conditions.unknown(
                type_, Reason.RENDERER_UNAVAILABLE, f"{message}; {renderer_message}"
            )
        return conditions.unknown(type_, Reason.CHECKS_PENDING, message)
    passed = ", ".join(result.name for result in results)
    return conditions.true(type_, Reason.CHECKS_PASSED, f"attempt {last.number}: {passed}")


def _renderer_message(evaluated: EvaluatedMission) -> str | None:
    """Describe what checks with patterns wait for; None when they do not wait."""
    problem = evaluated.observed.renderer_problem
    if problem is None:
        return None
    return f"{problem}; the patterns of checks are evaluated when it does"


def _knowledge_extracted(evaluated: EvaluatedMission) -> DesiredCondition:
    type_ = ConditionType.KNOWLEDGE_EXTRACTED
    extraction = evaluated.observed.ledger.extraction
    if evaluated.run_outcome is None:
        message = "facts are extracted when the run has ended"
        return conditions.false(type_, Reason.EXTRACTION_PENDING, message)
    if extraction is None and not decide_ledger.state_of(evaluated.observed).is_extracting:
        message = "the mission or its scope asked for no extraction"
        return conditions.false(type_, Reason.EXTRACTION_DISABLED, message)
    ledger = evaluated.observed.ledger
    return keep_last_true_condition(evaluated, type_) or _extracted(
        extraction, ledger.problem or ledger.failure
    )


def _extracted(extraction: models.Extraction | None, problem: str | None) -> DesiredCondition:
    type_ = ConditionType.KNOWLEDGE_EXTRACTED
    if extraction is None and problem is not None:
        message = f"{problem}; facts are extracted when it answers"
        return conditions.false(type_, Reason.STORE_UNAVAILABLE, message)
    because = f": {extraction.reason}" if extraction and extraction.reason else ""
    if extraction is None or extraction.state in ("pending", "running"):
        message = f"the knowledge service is extracting facts from the run{because}"
        return conditions.false(type_, Reason.EXTRACTION_PENDING, message)
    if extraction.state == "failed":
        message = f"no facts could be extracted{because or '; the knowledge service gave up'}"
        return conditions.false(type_, Reason.EXTRACTION_FAILED, message)
    count = len(extraction.facts)
    reason = Reason.EXTRACTED if count else Reason.NOTHING_TO_EXTRACT
    message = f"{count} {'fact' if count == 1 else 'facts'} extracted{because}"
    return conditions.true(type_, reason, message)


def _recorded(evaluated: EvaluatedMission) -> DesiredCondition:
    ledger = evaluated.observed.ledger
    if evaluated.run_outcome is None:
        if ledger.problem is not None:
            message = f"{ledger.problem}; the run is recorded when it answers"
            return conditions.false(ConditionType.RECORDED, Reason.STORE_UNAVAILABLE, message)
        message = "the run is recorded when it has ended"
        return conditions.false(ConditionType.RECORDED, Reason.RUN_OPEN, message)
    if decide_ledger.state_of(evaluated.observed).is_done:
        message = f"the ledger has run {evaluated.run_id} as {evaluated.run_outcome.outcome}"
        message = _name_missing_episodes(evaluated, message)
        return conditions.true(ConditionType.RECORDED, Reason.RECORDED, message)
    last_condition = keep_last_true_condition(evaluated, ConditionType.RECORDED)
    if last_condition is not None:
        return last_condition
    if ledger.problem is not None:
        message = f"{ledger.problem}; run {evaluated.run_id} is recorded when it answers"
        return conditions.false(ConditionType.RECORDED, Reason.STORE_UNAVAILABLE, message)
    return _not_yet_recorded(evaluated)


def _name_missing_episodes(evaluated: EvaluatedMission, message: str) -> str:
    """Append why the operator's episodes are missing; after a restart only the status knows it."""
    refusal = evaluated.observed.ledger.episodes_refusal
    if refusal is not None:
        return f"{message}, without the operator's episodes: {refusal}"
    last = evaluated.mission.condition(ConditionType.RECORDED)
    return last.message if last and last.message.startswith(f"{message}, without ") else message


def _not_yet_recorded(evaluated: EvaluatedMission) -> DesiredCondition:
    refusal = evaluated.observed.ledger.refusal
    if refusal is not None:
        message = (
            f"the knowledge service rejected run {evaluated.run_id}: {refusal};"
            " will retry within an hour"
        )
        return conditions.false(ConditionType.RECORDED, Reason.RECORDING_REFUSED, message)
    failure = evaluated.observed.ledger.failure
    if failure is not None and not decide_ledger.state_of(evaluated.observed).is_closed:
        message = f"{failure}; run {evaluated.run_id} is recorded when the service takes it"
        return conditions.false(ConditionType.RECORDED, Reason.STORE_UNAVAILABLE, message)
    message = f"run {evaluated.run_id} is being recorded"
    return conditions.false(ConditionType.RECORDED, Reason.RECORDING_PENDING, message)


def _succeeded(evaluated: EvaluatedMission) -> DesiredCondition:
    run_outcome = evaluated.run_outcome
    if run_outcome is not None and run_outcome.outcome is Outcome.SUCCEEDED:
        return conditions.true(ConditionType.SUCCEEDED, Reason.FINISHED, run_outcome.message)
    if run_outcome is not None:
        reason, message = _failure(run_outcome), run_outcome.message
        if reason != run_outcome.outcome.value:  # else the reason says it
            message = f"{run_outcome.outcome}: {message}"
        return conditions.false(ConditionType.SUCCEEDED, reason, message)
    started = _started(evaluated)
    if started.reason is Reason.NOT_YET_SUPPORTED:
        return conditions.false(ConditionType.SUCCEEDED, started.reason, started.message)
    last = evaluated.attempts[-1] if evaluated.attempts else None
    if last is None or (started.status != "True" and not last.is_over):
        return conditions.unknown(ConditionType.SUCCEEDED, started.reason, started.message)
    return _in_progress(evaluated, last)


def _failure(run_outcome: RunOutcome) -> Reason:
    """Return the reason for what failed: the task, one of its checks, or its review."""
    last = run_outcome.attempts[-1] if run_outcome.attempts else None
    if run_outcome.outcome is not Outcome.FAILED or last is None:
        return _REASONS[run_outcome.outcome]
    if last.verdict is not None:
        return Reason.REVIEW_REJECTED
    if last.review is not None:
        return Reason.REVIEW_FAILED
    bad = (CheckStatus.FAILED, CheckStatus.ERROR)
    return Reason.CHECK_FAILED if any(r.status in bad for r in last.checks) else Reason.TASK_FAILED


def _in_progress(evaluated: EvaluatedMission, last: Attempt) -> DesiredCondition:
    """Describe the state of the latest attempt while the run continues."""
    count = f"{last.number} of {evaluated.mission.spec.completion.max_attempts}"
    if last.state is State.FAILED:
        step = evaluated.obstacle.message if evaluated.obstacle else "the next one is prepared"
        failure = f"attempt {count} failed: {attempt_record.summarise(last).sentence()}"
        message = message_clauses.append(failure, step)
        return conditions.unknown(ConditionType.SUCCEEDED, Reason.RETRYING, message)
    for_person = _waits_for_verdict(evaluated, last, count)
    if for_person is not None:
        return for_person
    renderer_message = _renderer_message(evaluated)
    if (
        last.state is State.CHECKING
        and last.problem_reason is None
        and renderer_message is not None
    ):
        message = f"attempt {count} is being checked: {renderer_message}"
        return conditions.unknown(ConditionType.SUCCEEDED, Reason.RENDERER_UNAVAILABLE, message)
    if last.state is State.CHECKING:
        message = evaluated.obstacle.message if evaluated.obstacle else last.end_message
        message = f"attempt {count} is being checked: {message}"
        return conditions.unknown(
            ConditionType.SUCCEEDED, last.problem_reason or Reason.CHECKS_PENDING, message
        )
    if last.problem_reason is not None:
        message = f"attempt {count} waits: {last.end_message}"
        return conditions.unknown(ConditionType.SUCCEEDED, last.problem_reason, message)
    message = f"attempt {count} is running"
    asking = evaluated.observed.asking_pod
    if asking is not None and asking.problem is not None:
        message += f"; calls that wait for an approval cannot be read: {asking.problem}"
    return conditions.unknown(ConditionType.SUCCEEDED, Reason.RUNNING, message)


def _waits_for_verdict(
    evaluated: EvaluatedMission, last: Attempt, count: str
) -> DesiredCondition | None:
    """Describe whose decision an attempt waits for; None if it waits for none."""
    waiting = tool_approvals.waiting_calls(last.approvals)
    if waiting and last.state in {State.RUNNING, State.REVIEWING}:
        return _waits_for_approval(evaluated, waiting, count)
    return _in_review(evaluated, last, count) if last.state is State.REVIEWING else None


def _waits_for_approval(
    evaluated: EvaluatedMission, waiting: tuple[CallApproval, ...], count: str
) -> DesiredCondition:
    tools = ", ".join(
        f"{call.tool} of {call.cell}" if call.cell is not None else call.tool for call in waiting
    )
    observed = evaluated.observed
    if observed.asking_pod is not None and task_approvals.has_all_approvals(observed.history):
        message = (
            f"attempt {count}: {tools} waits for an approval, but a run can have "
            f"{MAX_APPROVED} approved calls, and this one has; it ends with its timeout, and a "
            "decision about it has no effect"
        )
        return conditions.unknown(ConditionType.SUCCEEDED, Reason.APPROVAL_LIMIT_REACHED, message)
    namespace = evaluated.mission.metadata.namespace
    message = (
        f"attempt {count}: {tools} waits for an approval; see `kais approvals list -n {namespace}`"
    )
    if not evaluated.observed.has_review_policy:
        message += "; this installation has no admission policy, so no author is on record"
    remark = tool_approvals.read(evaluated.observed, waiting).remark
    if remark is not None:
        message += f"; {remark}"
    return conditions.unknown(ConditionType.SUCCEEDED, Reason.APPROVAL_REQUIRED, message)


def _in_review(evaluated: EvaluatedMission, last: Attempt, count: str) -> DesiredCondition:
    """Describe whose verdict is awaited: that of a cell, or of a person."""
    if reviewer_cells.find(evaluated.mission, evaluated.observed.team) is None:
        return conditions.unknown(
            ConditionType.SUCCEEDED, Reason.REVIEW_REQUESTED, _review_message(evaluated, last)
        )
    message = evaluated.obstacle.message if evaluated.obstacle else last.end_message
    message = f"attempt {count} is being reviewed: {message}"
    reason = last.problem_reason or Reason.REVIEW_RUNNING
    return conditions.unknown(ConditionType.SUCCEEDED, reason, message)


def _review_message(evaluated: EvaluatedMission, last: Attempt) -> str:
    """Ask for a review: with its criteria, and how to answer with kubectl."""
    review = evaluated.mission.spec.completion.review
    criteria = review.criteria[:_CRITERIA_LIMIT].strip() if review is not None else ""
    run = f'"run": "{evaluated.run_id}", ' if evaluated.run_id is not None else ""
    answer = f'{{{run}"attempt": {last.number}, "verdict": "approve", "feedback": ""}}'
    request = f"answer with the annotation {labels.REVIEW}={answer} (or reject)"
    message = f"attempt {last.number}: {last.end_message}"
    if criteria:
        message += f"; criteria: {criteria}"
    message = message_clauses.append(message, request)
    if evaluated.observed.has_review_policy:
        message += f" and {labels.REVIEWED_BY}=<your user name>"
    verdict = decide_review.read(evaluated.mission)
    if any(summary.verdict == verdict for summary in evaluated.summaries() if summary.verdict):
        return message  # the annotation stays after it decided about an earlier attempt
    remark = decide_review.remark(evaluated.mission, last.number)
    return f"{message}; {remark}" if remark is not None else message


def _review_requested(
    evaluated: EvaluatedMission, succeeded: DesiredCondition
) -> tuple[EmitEvent, ...]:
    """Return an Event for an attempt that waits for its review, once for each attempt."""
    last_review = evaluated.mission.status.review
    is_announced = last_review is not None and last_review.status is ReviewStatus.PENDING
    if succeeded.reason is not Reason.REVIEW_REQUESTED or is_announced:
        return ()
    return (EmitEvent("Normal", succeeded.reason, succeeded.message[:1024]),)
