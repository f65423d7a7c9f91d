"""The words of a Mission: its conditions and Events, computed anew from what was seen."""

from __future__ import annotations

from datetime import datetime

from kais import conditions, labels
from kais.conditions import ConditionType, DesiredCondition
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais.resources.check import CheckStatus, ReviewStatus
from kais.resources.field_types import rfc3339
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_summary, mission_status, outcome
from kais_operator.controllers.mission.decide import ledger as decide_ledger
from kais_operator.controllers.mission.decide import review as decide_review
from kais_operator.controllers.mission.decide.attempts import Attempt, State
from kais_operator.controllers.mission.decide.mission_view import Standing, kept_word
from kais_operator.controllers.mission.decide.outcome_annotation import Ending
from kais_operator.planning import status_and_events
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


def say(standing: Standing, now: datetime) -> tuple[Body, tuple[EmitEvent, ...]]:
    """Give a mission's status, and the Events that its transitions are worth."""
    said = [
        _started(standing),
        _checks_passed(standing),
        _knowledge_extracted(standing),
        _recorded(standing),
        _succeeded(standing),
    ]
    told = status_and_events.timed(standing.mission, said, now)
    status = mission_status.status_of(standing, told)
    is_worth_both = standing.ending is None or told[0].status == "True"
    types = (
        (ConditionType.STARTED, ConditionType.SUCCEEDED)
        if is_worth_both
        else (ConditionType.SUCCEEDED,)
    )
    events = status_and_events.events(standing.mission, told, types=types)
    return status_and_events.body_of(status), (*events, *_review_requested(standing, said[-1]))


def _started(standing: Standing) -> DesiredCondition:
    unsupported = outcome.unsupported(standing.mission, standing.observed.team)
    if unsupported is not None and not standing.attempts and standing.ending is None:
        return conditions.false(ConditionType.STARTED, Reason.NOT_YET_SUPPORTED, unsupported)
    begun = next((one for one in standing.tries() if one.has_begun), None)
    if begun is not None:
        words = f"attempt {begun.number} was started at {rfc3339(begun.started_at)}"
        return conditions.true(
            ConditionType.STARTED, Reason.STARTED, words + _remark(standing.mission)
        )
    if standing.ending is not None:
        return _never_started(standing.ending)
    last = standing.attempts[-1] if standing.attempts else None
    if standing.obstacle is not None and (last is None or last.trouble is None):
        return conditions.false(
            ConditionType.STARTED, standing.obstacle.reason, standing.obstacle.message
        )
    if last is not None:
        reason = last.trouble or Reason.WAITING_FOR_PODS
        return conditions.false(ConditionType.STARTED, reason, last.words)
    words = "attempt 1 is being started"
    return conditions.false(ConditionType.STARTED, Reason.WAITING_FOR_PODS, words)


def _remark(mission: Mission) -> str:
    """Name what the mission says and this version has no use for."""
    if mission.spec.budget is None or mission.spec.budget.max_cost is None:
        return ""
    return " (without effect in this version: budget: task cells report no cost)"


def _never_started(ending: Ending) -> DesiredCondition:
    if not ending.tries and ending.attempt > 0:
        return conditions.true(ConditionType.STARTED, Reason.ALREADY_RUN, ending.words)
    reason = _REASONS.get(ending.outcome, Reason.ALREADY_RUN)
    return conditions.false(ConditionType.STARTED, reason, ending.words)


def _checks_passed(standing: Standing) -> DesiredCondition:
    type_ = ConditionType.CHECKS_PASSED
    if not standing.mission.spec.completion.checks:
        words = "the mission declares no checks; the exit code decides"
        return conditions.true(type_, Reason.NO_CHECKS, words)
    last = next(iter(reversed(standing.tries())), None)
    results = last.checks if last is not None else ()
    bad = [r for r in results if r.status in (CheckStatus.FAILED, CheckStatus.ERROR)]
    if bad:
        said = "; ".join(f"{r.name} {r.status}{': ' if r.message else ''}{r.message}" for r in bad)
        return conditions.false(type_, Reason.CHECK_FAILED, said)
    waiting = [r.name for r in results if r.status is CheckStatus.PENDING]
    if last is None or not results or waiting:
        named = ", ".join(
            waiting or [check.name for check in standing.mission.spec.completion.checks]
        )
        if standing.ending is not None:
            words = f"the run ended before these checks were evaluated: {named}"
            return conditions.false(type_, Reason.CHECKS_PENDING, words)
        words = f"still to be evaluated: {named}"
        away = _without_renderer(standing)
        if away is not None:
            return conditions.unknown(type_, Reason.RENDERER_UNAVAILABLE, f"{words}; {away}")
        return conditions.unknown(type_, Reason.CHECKS_PENDING, words)
    passed = ", ".join(result.name for result in results)
    return conditions.true(type_, Reason.CHECKS_PASSED, f"attempt {last.number}: {passed}")


def _without_renderer(standing: Standing) -> str | None:
    """Say what checks with patterns wait for; None when they do not."""
    problem = standing.observed.renderer_problem
    if problem is None:
        return None
    return f"{problem}; the patterns of checks are evaluated when it does"


def _knowledge_extracted(standing: Standing) -> DesiredCondition:
    type_ = ConditionType.KNOWLEDGE_EXTRACTED
    extraction = standing.observed.ledger.extraction
    if standing.ending is None:
        words = "facts are extracted when the run has ended"
        return conditions.false(type_, Reason.EXTRACTION_PENDING, words)
    if extraction is None and not decide_ledger.state_of(standing.observed).is_extracting:
        words = "the mission or its scope asked for no extraction"
        return conditions.false(type_, Reason.EXTRACTION_DISABLED, words)
    return kept_word(standing, type_) or _extracted(extraction, standing.observed.ledger.problem)


def _extracted(extraction: models.Extraction | None, problem: str | None) -> DesiredCondition:
    type_ = ConditionType.KNOWLEDGE_EXTRACTED
    if extraction is None and problem is not None:
        words = f"{problem}; facts are extracted when it answers"
        return conditions.false(type_, Reason.STORE_UNAVAILABLE, words)
    if extraction is None or extraction.state in ("pending", "running"):
        words = "the knowledge service is extracting facts from the run"
        return conditions.false(type_, Reason.EXTRACTION_PENDING, words)
    because = f": {extraction.reason}" if extraction.reason else ""
    if extraction.state == "failed":
        words = f"no facts could be extracted{because or '; the knowledge service gave up'}"
        return conditions.false(type_, Reason.EXTRACTION_FAILED, words)
    count = len(extraction.facts)
    reason = Reason.EXTRACTED if count else Reason.NOTHING_TO_EXTRACT
    words = f"{count} {'fact' if count == 1 else 'facts'} extracted{because}"
    return conditions.true(type_, reason, words)


def _recorded(standing: Standing) -> DesiredCondition:
    ledger = standing.observed.ledger
    if standing.ending is None:
        if ledger.problem is not None:
            words = f"{ledger.problem}; the run is recorded when it answers"
            return conditions.false(ConditionType.RECORDED, Reason.STORE_UNAVAILABLE, words)
        words = "the run is recorded when it has ended"
        return conditions.false(ConditionType.RECORDED, Reason.RUN_OPEN, words)
    if decide_ledger.state_of(standing.observed).is_done:
        words = f"the ledger has run {standing.run_id} as {standing.ending.outcome}"
        return conditions.true(ConditionType.RECORDED, Reason.RECORDED, words)
    kept = kept_word(standing, ConditionType.RECORDED)
    if kept is not None:
        return kept
    if ledger.problem is not None:
        words = f"{ledger.problem}; run {standing.run_id} is recorded when it answers"
        return conditions.false(ConditionType.RECORDED, Reason.STORE_UNAVAILABLE, words)
    return _not_yet_recorded(standing)


def _not_yet_recorded(standing: Standing) -> DesiredCondition:
    refusal = standing.observed.ledger.refusal
    if refusal is not None:
        words = (
            f"the knowledge service rejected run {standing.run_id}: {refusal};"
            " will retry within an hour"
        )
        return conditions.false(ConditionType.RECORDED, Reason.RECORDING_REFUSED, words)
    words = f"run {standing.run_id} is being recorded"
    return conditions.false(ConditionType.RECORDED, Reason.RECORDING_PENDING, words)


def _succeeded(standing: Standing) -> DesiredCondition:
    ending = standing.ending
    if ending is not None and ending.outcome is Outcome.SUCCEEDED:
        return conditions.true(ConditionType.SUCCEEDED, Reason.FINISHED, ending.words)
    if ending is not None:
        words = f"{ending.outcome}: {ending.words}"
        return conditions.false(ConditionType.SUCCEEDED, _failure(ending), words)
    started = _started(standing)
    if started.reason is Reason.NOT_YET_SUPPORTED:
        return conditions.false(ConditionType.SUCCEEDED, started.reason, started.message)
    last = standing.attempts[-1] if standing.attempts else None
    if last is None or (started.status != "True" and not last.is_over):
        return conditions.unknown(ConditionType.SUCCEEDED, started.reason, started.message)
    return _going_on(standing, last)


def _failure(ending: Ending) -> Reason:
    """Name what failed: the task, one of its checks, or its review."""
    last = ending.tries[-1] if ending.tries else None
    if ending.outcome is not Outcome.FAILED or last is None:
        return _REASONS[ending.outcome]
    if last.verdict is not None:
        return Reason.REVIEW_REJECTED
    bad = (CheckStatus.FAILED, CheckStatus.ERROR)
    return Reason.CHECK_FAILED if any(r.status in bad for r in last.checks) else Reason.TASK_FAILED


def _going_on(standing: Standing, last: Attempt) -> DesiredCondition:
    """Say where an attempt stands that the run is not over with."""
    of = f"{last.number} of {standing.mission.spec.completion.max_attempts}"
    if last.state is State.FAILED:
        words = f"attempt {of} failed: {attempt_summary.of(last).sentence()}; "
        words += standing.obstacle.message if standing.obstacle else "the next one is prepared"
        return conditions.unknown(ConditionType.SUCCEEDED, Reason.RETRYING, words)
    if last.state is State.REVIEWING:
        return conditions.unknown(
            ConditionType.SUCCEEDED, Reason.REVIEW_REQUESTED, _asking(standing, last)
        )
    away = _without_renderer(standing)
    if last.state is State.CHECKING and last.trouble is None and away is not None:
        words = f"attempt {of} is being checked: {away}"
        return conditions.unknown(ConditionType.SUCCEEDED, Reason.RENDERER_UNAVAILABLE, words)
    if last.state is State.CHECKING:
        words = standing.obstacle.message if standing.obstacle else last.words
        words = f"attempt {of} is being checked: {words}"
        return conditions.unknown(
            ConditionType.SUCCEEDED, last.trouble or Reason.CHECKS_PENDING, words
        )
    if last.trouble is not None:
        words = f"attempt {of} waits: {last.words}"
        return conditions.unknown(ConditionType.SUCCEEDED, last.trouble, words)
    return conditions.unknown(ConditionType.SUCCEEDED, Reason.RUNNING, f"attempt {of} is running")


def _asking(standing: Standing, last: Attempt) -> str:
    """Ask the reviewer: what to judge by, and how to answer with kubectl."""
    review = standing.mission.spec.completion.review
    criteria = review.criteria if review is not None else ""
    run = f'"run": "{standing.run_id}", ' if standing.run_id is not None else ""
    answer = f'{{{run}"attempt": {last.number}, "verdict": "approve", "feedback": ""}}'
    words = (
        f"attempt {last.number}: {last.words}; criteria: {criteria[:_CRITERIA_LIMIT]}; answer with "
        f"the annotation {labels.REVIEW}={answer} (or reject)"
    )
    remark = decide_review.remark(standing.mission, last.number)
    return f"{words}; {remark}" if remark is not None else words


def _review_requested(standing: Standing, wanted: DesiredCondition) -> tuple[EmitEvent, ...]:
    """Tell of each attempt that waits for its review, once."""
    told = standing.mission.status.review
    is_told = told is not None and told.status is ReviewStatus.PENDING
    if wanted.reason is not Reason.REVIEW_REQUESTED or is_told:
        return ()
    return (EmitEvent("Normal", wanted.reason, wanted.message[:1024]),)
