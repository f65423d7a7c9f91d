"""The words of a Mission: its conditions and its status, computed anew from what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kais import conditions, labels
from kais.conditions import Type, Wanted
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais.resources.fields import rfc3339
from kais.resources.mission import (
    Acknowledged,
    KnowledgeUse,
    Mission,
    MissionDisplay,
    MissionPhase,
    MissionStatus,
)
from kais.resources.mission import Attempt as ToldAttempt
from kais_operator.decide import injecting, judging, recording, saying
from kais_operator.decide.attempts import Attempt, State
from kais_operator.decide.endings import Ending, Try, tries_of
from kais_operator.decide.entry import Obstacle
from kais_operator.decide.mission_observed import MissionObserved
from kais_operator.decide.plan import Body, EmitEvent
from knowledge_client import models

_RESULT_LIMIT = 4096
_REASONS = {
    Outcome.FAILED: Reason.TASK_FAILED,
    Outcome.TIMED_OUT: Reason.TIMED_OUT,
    Outcome.BUDGET_EXCEEDED: Reason.BUDGET_EXCEEDED,
    Outcome.CANCELLED: Reason.CANCELLED,
    Outcome.INFRASTRUCTURE_FAILED: Reason.INFRASTRUCTURE_FAILED,
}


@dataclass(frozen=True)
class Standing:
    """Where a mission stands: what was seen, and what was made of it.

    Attributes:
        observed: what was seen.
        run_id: the run's key; None before it has one.
        attempts: its attempts, oldest first.
        ending: how it ended; None while it goes on.
        obstacle: why the next attempt cannot be started now.
    """

    observed: MissionObserved
    run_id: str | None
    attempts: Sequence[Attempt] = ()
    ending: Ending | None = None
    obstacle: Obstacle | None = None

    @property
    def mission(self) -> Mission:
        """The object."""
        return self.observed.mission

    def tries(self) -> tuple[Try, ...]:
        """Give the attempts as they are told: those of the ending count, when there is one."""
        return self.ending.tries if self.ending is not None else tries_of(self.attempts)


def say(standing: Standing, now: datetime) -> tuple[Body, tuple[EmitEvent, ...]]:
    """Give a mission's status, and the Events that its transitions are worth."""
    said = [
        _started(standing),
        _checks_passed(standing),
        _knowledge_extracted(standing),
        _recorded(standing),
        _succeeded(standing),
    ]
    told = saying.timed(standing.mission, said, now)
    status = _status(standing, told)
    is_worth_both = standing.ending is None or told[0].status == "True"
    types = (Type.STARTED, Type.SUCCEEDED) if is_worth_both else (Type.SUCCEEDED,)
    events = saying.events(standing.mission, told, types=types)
    return saying.body_of(status), events


def _started(standing: Standing) -> Wanted:
    unsupported = judging.unsupported(standing.mission)
    if unsupported is not None and not standing.attempts:
        return conditions.false(Type.STARTED, Reason.NOT_YET_SUPPORTED, unsupported)
    begun = next((one for one in standing.tries() if one.has_begun), None)
    if begun is not None:
        words = f"attempt {begun.number} was started at {rfc3339(begun.started_at)}"
        return conditions.true(Type.STARTED, Reason.STARTED, words + _remark(standing.mission))
    if standing.ending is not None:
        return _never_started(standing.ending)
    last = standing.attempts[-1] if standing.attempts else None
    if standing.obstacle is not None and (last is None or last.trouble is None):
        return conditions.false(Type.STARTED, standing.obstacle.reason, standing.obstacle.message)
    if last is not None:
        reason = last.trouble or Reason.WAITING_FOR_PODS
        return conditions.false(Type.STARTED, reason, last.words)
    words = "attempt 1 is being started"
    return conditions.false(Type.STARTED, Reason.WAITING_FOR_PODS, words)


def _remark(mission: Mission) -> str:
    """Name what the mission says and this version has no use for."""
    if mission.spec.budget is None or mission.spec.budget.max_cost is None:
        return ""
    return " (without effect in this version: budget: task cells report no cost)"


def _never_started(ending: Ending) -> Wanted:
    if not ending.tries and ending.attempt > 0:
        return conditions.true(Type.STARTED, Reason.ALREADY_RUN, ending.words)
    reason = _REASONS.get(ending.outcome, Reason.ALREADY_RUN)
    return conditions.false(Type.STARTED, reason, ending.words)


def _checks_passed(standing: Standing) -> Wanted:
    unsupported = judging.unsupported(standing.mission)
    if unsupported is not None:
        return conditions.false(Type.CHECKS_PASSED, Reason.NOT_YET_SUPPORTED, unsupported)
    words = "the mission declares no checks; the exit code decides"
    return conditions.true(Type.CHECKS_PASSED, Reason.NO_CHECKS, words)


def _kept(standing: Standing, type_: str) -> Wanted | None:
    """Repeat what was told as done, while the store that could say so again is away."""
    before = standing.mission.condition(type_)
    is_away = standing.observed.ledger.problem is not None
    if not is_away or before is None or before.status != "True":
        return None
    reason = next((known for known in Reason if known.value == before.reason), Reason.RECORDED)
    return conditions.true(type_, reason, before.message)


def _knowledge_extracted(standing: Standing) -> Wanted:
    type_ = Type.KNOWLEDGE_EXTRACTED
    extraction = standing.observed.ledger.extraction
    if standing.ending is None:
        words = "facts are extracted when the run has ended"
        return conditions.false(type_, Reason.EXTRACTION_PENDING, words)
    if extraction is None and not recording.state_of(standing.observed).is_extracting:
        words = "the mission or its scope asked for no extraction"
        return conditions.false(type_, Reason.EXTRACTION_DISABLED, words)
    return _kept(standing, type_) or _extracted(extraction, standing.observed.ledger.problem)


def _extracted(extraction: models.Extraction | None, problem: str | None) -> Wanted:
    type_ = Type.KNOWLEDGE_EXTRACTED
    if extraction is None and problem is not None:
        words = f"{problem}; facts are extracted when it answers"
        return conditions.false(type_, Reason.STORE_UNAVAILABLE, words)
    if extraction is None or extraction.state in ("pending", "running"):
        words = "the knowledge service is drawing facts from the run"
        return conditions.false(type_, Reason.EXTRACTION_PENDING, words)
    because = f": {extraction.reason}" if extraction.reason else ""
    if extraction.state == "failed":
        words = f"no facts could be extracted{because or '; the knowledge service gave up'}"
        return conditions.false(type_, Reason.EXTRACTION_FAILED, words)
    count = len(extraction.facts)
    reason = Reason.EXTRACTED if count else Reason.NOTHING_TO_EXTRACT
    words = f"{count} {'fact' if count == 1 else 'facts'} extracted{because}"
    return conditions.true(type_, reason, words)


def _recorded(standing: Standing) -> Wanted:
    ledger = standing.observed.ledger
    if standing.ending is None:
        if ledger.problem is not None:
            words = f"{ledger.problem}; the run is recorded when it answers"
            return conditions.false(Type.RECORDED, Reason.STORE_UNAVAILABLE, words)
        words = "the run is recorded when it has ended"
        return conditions.false(Type.RECORDED, Reason.RUN_OPEN, words)
    if recording.state_of(standing.observed).is_done:
        words = f"the ledger has run {standing.run_id} as {standing.ending.outcome}"
        return conditions.true(Type.RECORDED, Reason.RECORDED, words)
    kept = _kept(standing, Type.RECORDED)
    if kept is not None:
        return kept
    if ledger.problem is not None:
        words = f"{ledger.problem}; run {standing.run_id} is recorded when it answers"
        return conditions.false(Type.RECORDED, Reason.STORE_UNAVAILABLE, words)
    words = f"run {standing.run_id} is being recorded"
    return conditions.false(Type.RECORDED, Reason.RECORDING_PENDING, words)


def _succeeded(standing: Standing) -> Wanted:
    ending = standing.ending
    if ending is not None and ending.outcome is Outcome.SUCCEEDED:
        return conditions.true(Type.SUCCEEDED, Reason.FINISHED, ending.words)
    if ending is not None:
        words = f"{ending.outcome}: {ending.words}"
        return conditions.false(Type.SUCCEEDED, _REASONS[ending.outcome], words)
    started = _started(standing)
    if started.reason is Reason.NOT_YET_SUPPORTED:
        return conditions.false(Type.SUCCEEDED, started.reason, started.message)
    last = standing.attempts[-1] if standing.attempts else None
    if last is None or (started.status != "True" and not last.is_over):
        return conditions.unknown(Type.SUCCEEDED, started.reason, started.message)
    of = f"{last.number} of {standing.mission.spec.completion.max_attempts}"
    if last.state is State.FAILED:
        words = f"attempt {of} failed: {tries_of([last])[0].sentence()}; "
        words += standing.obstacle.message if standing.obstacle else "the next one is prepared"
        return conditions.unknown(Type.SUCCEEDED, Reason.RETRYING, words)
    trouble = f": {last.words}" if last.trouble is not None else ""
    return conditions.unknown(Type.SUCCEEDED, Reason.RUNNING, f"attempt {of} is running{trouble}")


def _status(standing: Standing, told: list[conditions.Condition]) -> MissionStatus:
    mission, ending = standing.mission, standing.ending
    tries = standing.tries()
    number = ending.attempt if ending else (tries[-1].number if tries else 0)
    most = mission.spec.completion.max_attempts
    knowledge = _knowledge(standing)
    last = tries[-1] if tries else None
    is_heard = last is not None and bool(last.message)
    abort = mission.metadata.annotations.get(labels.ABORT)
    return MissionStatus(
        observed_generation=mission.metadata.generation,
        conditions=told,
        phase=_phase(standing),
        outcome=ending.outcome if ending else None,
        run_id=standing.run_id,
        attempt=number,
        started_at=ending.started_at if ending else (tries[0].started_at if tries else None),
        finished_at=ending.finished_at if ending else None,
        result=last.message[:_RESULT_LIMIT] if last is not None and is_heard else None,
        result_truncated=last.is_truncated if last is not None and is_heard else None,
        history=[_told(one) for one in tries],
        message=told[-1].message,
        knowledge=knowledge,
        acknowledged=Acknowledged(abort=abort[:1024]) if abort is not None else None,
        display=MissionDisplay(
            attempt=f"{number}/{most}" if number else None, facts=_facts(standing, knowledge)
        ),
    )


def _phase(standing: Standing) -> MissionPhase:
    if standing.ending is not None:
        is_good = standing.ending.outcome is Outcome.SUCCEEDED
        return MissionPhase.SUCCEEDED if is_good else MissionPhase.FAILED
    return MissionPhase.RUNNING if standing.attempts else MissionPhase.PENDING


def _told(one: Try) -> ToldAttempt:
    is_over = one.state not in (State.WAITING, State.RUNNING)
    return ToldAttempt(
        attempt=one.number,
        started_at=one.started_at,
        finished_at=one.finished_at if is_over else None,
        result=one.sentence()[:_RESULT_LIMIT] or one.state.value,
    )


def _knowledge(standing: Standing) -> KnowledgeUse | None:
    receipt, injected = _given(standing)
    extraction = standing.observed.ledger.extraction
    extracted = len(extraction.facts) if extraction and extraction.state == "done" else None
    before = standing.mission.status.knowledge
    if extracted is None and before is not None and _kept(standing, Type.KNOWLEDGE_EXTRACTED):
        extracted = before.extracted
    if receipt is None and injected is None and extracted is None:
        return None
    return KnowledgeUse(receipt=receipt, injected=injected, extracted=extracted)


def _given(standing: Standing) -> tuple[str | None, int | None]:
    if standing.ending is not None:
        return standing.ending.receipt, standing.ending.injected
    if not standing.attempts:
        return None, None
    job = standing.attempts[-1].job["metadata"]["name"]
    return injecting.given(standing.observed.maps.get(job))


def _facts(standing: Standing, knowledge: KnowledgeUse | None) -> str | None:
    """Say `3 in` while the run goes on and `3 in, 2 out` when it is known what it left."""
    given = knowledge.injected if knowledge is not None else None
    left = knowledge.extracted if knowledge is not None else None
    if standing.ending is None:
        return None if given is None else f"{given} in"
    if left is None and _may_still_leave(standing):
        return f"{given or 0} in"
    return f"{given or 0} in, {left or 0} out"


def _may_still_leave(standing: Standing) -> bool:
    extraction = standing.observed.ledger.extraction
    if extraction is not None:
        return extraction.state in ("pending", "running")
    return recording.state_of(standing.observed).is_extracting
