"""The status of a Mission besides its conditions, computed anew from what was seen."""

from __future__ import annotations

from collections.abc import Sequence

from kais import conditions, labels
from kais.conditions import ConditionType
from kais.outcomes import Outcome
from kais.resources.check import CheckResult, CheckStatus, ReviewResult, ReviewStatus
from kais.resources.mission import (
    Acknowledged,
    KnowledgeUse,
    Mission,
    MissionDisplay,
    MissionPhase,
    MissionStatus,
)
from kais.resources.mission import Attempt as ToldAttempt
from kais_operator.controllers.mission.decide import (
    attempts_annotation,
    knowledge_injection,
    ledger,
)
from kais_operator.controllers.mission.decide import review as decide_review
from kais_operator.controllers.mission.decide.attempt_summary import Try
from kais_operator.controllers.mission.decide.attempts import State
from kais_operator.controllers.mission.decide.mission_view import Standing, kept_word
from kais_operator.controllers.mission.decide.outcome_annotation import Ending

_RESULT_LIMIT = 4096
_REVIEW_LIMIT = 65536  # what status.acknowledged.review holds


def status_of(standing: Standing, told: list[conditions.Condition]) -> MissionStatus:
    """Give the whole status, around the conditions as they are told."""
    mission, ending = standing.mission, standing.ending
    known = standing.tries()
    number = ending.attempt if ending else (known[-1].number if known else 0)
    most = mission.spec.completion.max_attempts
    knowledge = _knowledge(standing)
    last = known[-1] if known else None
    is_heard = last is not None and last.is_over and bool(last.message)
    return MissionStatus(
        observed_generation=mission.metadata.generation,
        conditions=told,
        phase=_phase(standing),
        outcome=ending.outcome if ending else None,
        run_id=standing.run_id,
        attempt=number,
        started_at=ending.started_at if ending else (known[0].started_at if known else None),
        finished_at=ending.finished_at if ending else None,
        result=last.message[:_RESULT_LIMIT] if last is not None and is_heard else None,
        result_truncated=last.is_truncated if last is not None and is_heard else None,
        checks=_check_results(standing, last),
        review=_review(standing, known),
        history=[*_earlier(mission), *(_told(one, ending) for one in known)],
        message=told[-1].message,
        knowledge=knowledge,
        acknowledged=_acknowledged(standing, known),
        display=MissionDisplay(
            attempt=f"{number}/{most}" if number else None, facts=_facts(standing, knowledge)
        ),
    )


def _check_results(standing: Standing, last: Try | None) -> list[CheckResult]:
    """Tell how the checks of the latest attempt stand; all are Pending before it is known."""
    known = {result.name: result for result in last.checks} if last is not None else {}
    told = []
    for check in standing.mission.spec.completion.checks:
        result = known.get(check.name)
        status = result.status if result is not None else CheckStatus.PENDING
        words = result.message if result is not None and result.message else None
        told.append(CheckResult(name=check.name, status=status, message=words))
    return told


def _review(standing: Standing, known: Sequence[Try]) -> ReviewResult | None:
    """Tell the latest verdict, or that one is waited for."""
    if known and known[-1].state is State.REVIEWING:
        return ReviewResult(status=ReviewStatus.PENDING)
    said = next((one.verdict for one in reversed(known) if one.verdict is not None), None)
    if said is None:
        return None
    return ReviewResult(status=said.status, feedback=said.feedback or None)


def _acknowledged(standing: Standing, known: Sequence[Try]) -> Acknowledged | None:
    """Name the verbs that were taken up, as they stood."""
    annotations = standing.mission.metadata.annotations
    said = decide_review.read(standing.mission)
    is_heard = any(one.verdict is not None and one.verdict == said for one in known)
    abort, rerun = annotations.get(labels.ABORT), annotations.get(labels.RERUN_TAKEN)
    review = annotations.get(labels.REVIEW) if is_heard else None
    if abort is None and rerun is None and review is None:
        return None
    return Acknowledged(
        abort=abort[:1024] if abort is not None else None,
        rerun=rerun[:1024] if rerun is not None else None,
        review=review[:_REVIEW_LIMIT] if review is not None else None,
    )


def _earlier(mission: Mission) -> list[ToldAttempt]:
    """Sum up each run before this one in one entry."""
    return [
        ToldAttempt(
            attempt=max(1, run.attempt),
            started_at=run.started_at,
            finished_at=run.finished_at,
            result=f"{run.outcome}: {run.words}"[:_RESULT_LIMIT],
            run_id=run.run_id,
        )
        for run in attempts_annotation.earlier(mission)
    ]


def _phase(standing: Standing) -> MissionPhase:
    if standing.ending is not None:
        is_good = standing.ending.outcome is Outcome.SUCCEEDED
        return MissionPhase.SUCCEEDED if is_good else MissionPhase.FAILED
    return MissionPhase.RUNNING if standing.attempts else MissionPhase.PENDING


def _told(one: Try, ending: Ending | None) -> ToldAttempt:
    if ending is not None and not one.is_over:
        # The run ended around it; nothing more comes of the attempt.
        return ToldAttempt(
            attempt=one.number,
            started_at=one.started_at,
            finished_at=ending.finished_at,
            result=f"{ending.outcome}: {ending.words}"[:_RESULT_LIMIT],
        )
    return ToldAttempt(
        attempt=one.number,
        started_at=one.started_at,
        finished_at=one.finished_at if one.is_over else None,
        result=one.sentence()[:_RESULT_LIMIT] or one.state.value,
    )


def _knowledge(standing: Standing) -> KnowledgeUse | None:
    receipt, injected = _given(standing)
    extraction = standing.observed.ledger.extraction
    extracted = len(extraction.facts) if extraction and extraction.state == "done" else None
    before = standing.mission.status.knowledge
    if (
        extracted is None
        and before is not None
        and kept_word(standing, ConditionType.KNOWLEDGE_EXTRACTED)
    ):
        extracted = before.extracted
    if receipt is None and injected is None and extracted is None:
        return None
    return KnowledgeUse(receipt=receipt, injected=injected, extracted=extracted)


def _given(standing: Standing) -> tuple[str | None, int | None]:
    if standing.ending is not None:
        return standing.ending.receipt, standing.ending.injected
    job = standing.attempts[-1].job_name if standing.attempts else None
    return (
        knowledge_injection.given(standing.observed.maps.get(job))
        if job is not None
        else (None, None)
    )


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
    return ledger.state_of(standing.observed).is_extracting
