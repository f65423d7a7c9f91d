"""What a Mission carries of its run while that goes on, and of the runs before it.

Pods go with their nodes and their logs, Jobs can be deleted by anybody, and a round of checks in a
running container leaves no object at all. What was judged stands on the Mission: it is judged once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kais import labels
from kais.outcomes import Outcome
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_summary, attempts
from kais_operator.controllers.mission.decide.attempt_summary import Try
from kais_operator.controllers.mission.decide.attempts import Attempt
from kais_operator.controllers.mission.decide.check_rules import Result
from kais_operator.controllers.mission.decide.outcome_annotation import Ending
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body

KEPT_RUNS = 10
_WORDS_LIMIT = 512


@dataclass(frozen=True)
class EarlierRun:
    """One run before this one, in few words."""

    run_id: str
    outcome: Outcome
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    words: str


@dataclass(frozen=True)
class AttemptHistory:
    """The attempts of a run as they were observed, before the checks of the latest are evaluated.

    Attributes:
        attempts: what Jobs, pods and the annotation say of each, oldest first.
        recorded: what the annotation has of the latest; None when it has nothing of it.
    """

    attempts: tuple[Attempt, ...] = ()
    recorded: Try | None = None

    @property
    def latest(self) -> Attempt | None:
        """The latest attempt; None before the first."""
        return self.attempts[-1] if self.attempts else None

    @property
    def is_settled(self) -> bool:
        """Whether the annotation has how the latest attempt ended: nothing is evaluated again."""
        return self.recorded is not None and self.recorded.is_over

    @property
    def final_results(self) -> dict[str, Result]:
        """Results of the latest attempt that are recorded and final, by the check's name."""
        results = self.recorded.checks if self.recorded is not None else ()
        return {result.name: result for result in results if result.is_final}


def read_history(
    mission: Mission,
    jobs: Sequence[Body],
    pods: Sequence[Body],
    refused_pods: Mapping[str, str],
    now: datetime,
) -> AttemptHistory:
    """Read the attempts of the mission's run from its Jobs, their pods and the annotation."""
    run_id = annotation_values.run_id(mission.metadata.annotations)
    if run_id is None:
        return AttemptHistory()
    live = attempts.read_all(
        jobs,
        pods,
        owner_uid=mission.metadata.uid,
        run_id=run_id,
        refused_pods=refused_pods,
        now=now,
    )
    recorded = read(mission)
    joined = tuple(merged(live, recorded))
    number = joined[-1].number if joined else 0
    return AttemptHistory(joined, next((one for one in recorded if one.number == number), None))


def read(mission: Mission) -> tuple[Try, ...]:
    """Read what is kept of the attempts, oldest first; what somebody broke counts as nothing."""
    text = mission.metadata.annotations.get(labels.ATTEMPTS)
    try:
        kept = [attempt_summary.parse(one) for one in annotation_values.parse(text) or ()]
    except annotation_values.BROKEN:
        return ()
    return tuple(sorted(kept, key=lambda one: one.number))


def annotation(history: Sequence[Attempt]) -> str:
    """Write down what became of the attempts so far."""
    kept = attempt_summary.of_all(history)
    last = kept[-1] if kept[-1].is_over else replace(kept[-1], words="")  # words of the moment
    return _json([attempt_summary.dump(one) for one in (*kept[:-1], last)])


def merged(found: Sequence[Attempt], kept: Sequence[Try]) -> list[Attempt]:
    """Join what is seen with what is kept: what is over stays as it was judged."""
    seen = {attempt.number: attempt for attempt in found}
    for one in kept:
        live = seen.get(one.number)
        if live is None or one.is_over:
            seen[one.number] = _remembered(one, live.job if live is not None else None)
    return [seen[number] for number in sorted(seen)]


def _remembered(one: Try, job: Body | None) -> Attempt:
    return Attempt(
        one.number, job, one.state, one.started_at, one.finished_at,
        words=one.words, exit_code=one.exit_code, message=one.message,
        is_truncated=one.is_truncated, has_begun=one.has_begun, checks=one.checks,
        verdict=one.verdict, is_exec=one.is_exec,
    )  # fmt: skip


def earlier(mission: Mission) -> tuple[EarlierRun, ...]:
    """Read how the runs before this one ended, oldest first."""
    text = mission.metadata.annotations.get(labels.EARLIER_RUNS)
    try:
        return tuple(_run(one) for one in annotation_values.parse(text) or ())
    except annotation_values.BROKEN:
        return ()


def with_ended(mission: Mission, run_id: str, ending: Ending) -> str:
    """Write down the runs before, with the one that ended; the oldest ones go."""
    ended = EarlierRun(
        run_id, ending.outcome, ending.attempt, ending.started_at, ending.finished_at, ending.words
    )
    return _json([_dump(run) for run in [*earlier(mission), ended][-KEPT_RUNS:]])


def _dump(run: EarlierRun) -> Body:
    return {
        "runId": run.run_id,
        "outcome": run.outcome.value,
        "attempt": run.attempt,
        "startedAt": attempt_summary.dump_time(run.started_at),
        "finishedAt": attempt_summary.dump_time(run.finished_at),
        "words": run.words[:_WORDS_LIMIT],
    }


def _run(one: Mapping[str, Any]) -> EarlierRun:
    return EarlierRun(
        run_id=annotation_values.words(one["runId"]),
        outcome=Outcome(one["outcome"]),
        attempt=annotation_values.number(one["attempt"]),
        started_at=annotation_values.time(one.get("startedAt")),
        finished_at=annotation_values.time(one.get("finishedAt")),
        words=annotation_values.words(one.get("words")),
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
