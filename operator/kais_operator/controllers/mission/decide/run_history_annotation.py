"""The annotations of a Mission that record its current run and previous runs.

Pods and their logs are lost with their nodes, anyone can delete a Job, and a series of checks in a
running container leaves no object. Results are therefore recorded on the Mission, and each check is
evaluated only once.
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
from kais_operator.controllers.mission.decide import attempt_record, attempt_state
from kais_operator.controllers.mission.decide.attempt_pods import Refusal
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.check_results import Result
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body, ObjectRef, PatchMetadata

MAX_RUNS = 10
_MESSAGE_LIMIT = 512


@dataclass(frozen=True)
class PreviousRun:
    """A short record of a previous run."""

    run_id: str
    outcome: Outcome
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    message: str


@dataclass(frozen=True)
class AttemptHistory:
    """The attempts of a run as observed, before the checks of the latest attempt are evaluated.

    Attributes:
        attempts: each attempt, from its Job, pods and the annotation, oldest first.
        recorded: the record of the latest attempt in the annotation; None without one.
        restarting: the attempt whose Job was deleted, and which starts again with the same number;
            its pods may have cost something. None without one.
    """

    attempts: tuple[Attempt, ...] = ()
    recorded: AttemptSummary | None = None
    restarting: Attempt | None = None

    @property
    def latest(self) -> Attempt | None:
        """The latest attempt; None before the first."""
        return self.attempts[-1] if self.attempts else None

    @property
    def is_settled(self) -> bool:
        """Whether the annotation records the latest attempt as ended; it is not evaluated again."""
        return self.recorded is not None and self.recorded.is_over

    def with_restarting(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Append the attempt that starts again, because its pods have a cost."""
        return [*attempts] if self.restarting is None else [*attempts, self.restarting]

    @property
    def final_results(self) -> dict[str, Result]:
        """Recorded final results of the latest attempt, by the check's name."""
        results = self.recorded.checks if self.recorded is not None else ()
        return {result.name: result for result in results if result.is_final}


def read_history(
    mission: Mission,
    jobs: Sequence[Body],
    pods: Sequence[Body],
    refused_pods: Mapping[str, Refusal],
    now: datetime,
) -> AttemptHistory:
    """Read the attempts of the mission's run from its Jobs, their pods and the annotation."""
    run_id = annotation_values.run_id(mission.metadata.annotations)
    if run_id is None:
        return AttemptHistory()
    live = attempt_state.read_attempts(
        jobs,
        pods,
        owner_uid=mission.metadata.uid,
        run_id=run_id,
        refused_pods=refused_pods,
        now=now,
    )
    recorded = [_with_reports(summary, pods) for summary in read(mission)]
    joined = tuple(merge(live, recorded))
    number = joined[-1].number if joined else 0
    return AttemptHistory(
        joined,
        next((summary for summary in recorded if summary.number == number), None),
        restarting=_restarting(live, recorded),
    )


def read(mission: Mission) -> tuple[AttemptSummary, ...]:
    """Read the recorded attempts, oldest first; empty when the annotation is not valid."""
    text = mission.metadata.annotations.get(labels.ATTEMPTS)
    try:
        summaries = [attempt_record.parse(record) for record in annotation_values.parse(text) or ()]
    except annotation_values.BROKEN:
        return ()
    return tuple(sorted(summaries, key=lambda record: record.number))


def serialise(history: Sequence[Attempt]) -> str:
    """Serialise the attempts so far for the annotation."""
    summaries = attempt_record.summarise_all(history)
    last = summaries[-1]
    if not last.is_over:
        last = _without_changes(last)
    return _json([attempt_record.dump(summary) for summary in (*summaries[:-1], last)])


def stamp(mission: Mission, history: Sequence[Attempt]) -> PatchMetadata:
    """Return the patch that records the attempts so far, before what the latest one writes."""
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={labels.ATTEMPTS: serialise(history)},
    )


def _without_changes(summary: AttemptSummary) -> AttemptSummary:
    """Leave out what still changes in an open attempt and is read again from its pod.

    A pod is recorded before it starts, and not again when it has started. What the attempt has used
    follows from its pods.
    """
    checks = tuple(result for result in summary.checks if result.is_final)
    summary = replace(summary, end_message="", checks=checks)
    if not starts_again(summary):
        return summary
    return AttemptSummary(
        summary.number, State.RUNNING, summary.started_at, None, "",
        pod_usages=summary.pod_usages, reserved=summary.reserved, approvals=summary.approvals,
    )  # fmt: skip


def merge(attempts: Sequence[Attempt], summaries: Sequence[AttemptSummary]) -> list[Attempt]:
    """Merge observed attempts with recorded ones; a record of an ended attempt takes precedence.

    An open attempt is recorded once it has had a pod. If the next one is refused, that pod was
    deleted, as `kubectl drain` does, and ended when the refusals began.
    """
    by_number = {attempt.number: attempt for attempt in attempts}
    for summary in summaries:
        live = by_number.get(summary.number)
        if live is None and starts_again(summary):
            continue
        if live is None or summary.is_over:
            by_number[summary.number] = _from_summary(
                summary, live.job if live is not None else None
            )
        else:
            counted = attempt_state.with_pod_usages(live, summary.pod_usages)
            by_number[summary.number] = replace(
                counted,
                started_at=min(live.started_at, summary.started_at),
                disrupted_at=live.disrupted_at or live.refused_at,
                review=summary.review,
                approvals=summary.approvals,
            )
    return [by_number[number] for number in sorted(by_number)]


def _with_reports(summary: AttemptSummary, pods: Sequence[Body]) -> AttemptSummary:
    """Add what pods of an open attempt report whose Job is gone."""
    if summary.is_over or None not in summary.pod_usages.values():
        return summary
    usages = attempt_state.reported_without_job(summary.pod_usages, pods)
    return replace(summary, pod_usages=usages)


def starts_again(summary: AttemptSummary) -> bool:
    """Whether an attempt has no result yet; it starts again if its Job is gone.

    What people approved is spent then: the pod of that Job may have made the call.
    """
    has_results = any(result.is_final for result in summary.checks)
    is_done = summary.is_over or summary.state is State.REVIEWING or has_results
    return not (is_done or summary.is_exec or summary.review is not None)


def _restarting(live: Sequence[Attempt], summaries: Sequence[AttemptSummary]) -> Attempt | None:
    """Return the attempt without a Job that starts again, with what its pods cost."""
    with_job = {attempt.number for attempt in live}
    without_job = (
        summary for summary in summaries if starts_again(summary) and summary.number not in with_job
    )
    return next((_from_summary(summary, None) for summary in without_job), None)


def _from_summary(summary: AttemptSummary, job: Body | None) -> Attempt:
    attempt = Attempt(
        summary.number, job, summary.state, summary.started_at, summary.finished_at,
        end_message=summary.end_message, exit_code=summary.exit_code, message=summary.message,
        is_truncated=summary.is_truncated, is_started=summary.is_started, checks=summary.checks,
        verdict=summary.verdict, is_exec=summary.is_exec, usage=summary.usage,
        pod_usages=summary.pod_usages, reserved=summary.reserved,
        failure=summary.failure, artifacts=summary.artifacts,
        receipt=summary.receipt, message_id=summary.message_id, pod_uid=summary.pod_uid,
        review=summary.review, approvals=summary.approvals,
    )  # fmt: skip
    return attempt_state.with_pod_usages(attempt, {}) if summary.pod_usages else attempt


def previous_runs(mission: Mission) -> tuple[PreviousRun, ...]:
    """Read how previous runs ended, oldest first; empty when the annotation is not valid."""
    text = mission.metadata.annotations.get(labels.EARLIER_RUNS)
    try:
        return tuple(_parse_run(record) for record in annotation_values.parse(text) or ())
    except annotation_values.BROKEN:
        return ()


def append_run(mission: Mission, run_id: str, run_outcome: RunOutcome) -> str:
    """Serialise the previous runs together with the one that ended; only the latest 10 are kept."""
    ended = PreviousRun(
        run_id,
        run_outcome.outcome,
        run_outcome.last_attempt,
        run_outcome.started_at,
        run_outcome.finished_at,
        run_outcome.message,
    )
    return _json([_dump(run) for run in [*previous_runs(mission), ended][-MAX_RUNS:]])


def _dump(run: PreviousRun) -> Body:
    return {
        "runId": run.run_id,
        "outcome": run.outcome.value,
        "attempt": run.attempt,
        "startedAt": attempt_record.dump_time(run.started_at),
        "finishedAt": attempt_record.dump_time(run.finished_at),
        "words": run.message[:_MESSAGE_LIMIT],
    }


def _parse_run(record: Mapping[str, Any]) -> PreviousRun:
    return PreviousRun(
        run_id=annotation_values.parse_text(record["runId"]),
        outcome=Outcome(record["outcome"]),
        attempt=annotation_values.number(record["attempt"]),
        started_at=annotation_values.time(record.get("startedAt")),
        finished_at=annotation_values.time(record.get("finishedAt")),
        message=annotation_values.parse_text(record.get("words")),
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
