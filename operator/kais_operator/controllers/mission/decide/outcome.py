"""Decide whether a run has ended, and how. The outcome is stamped, so it is decided once.

A finished Job decides before any deadline does, by the times that the Job recorded. So an operator
that does not run for a while never turns a success into a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kais import durations, labels
from kais.agent_results import FailureClass
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais.resources.cell_template import CellMode
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    attempt_record,
    attempt_state,
    check_results,
    cost_gate,
    cost_reservations,
    entrypoint,
    knowledge_injection,
)
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam, NotReady
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import annotation_values

JOB_STATUS_GRACE = timedelta(seconds=30)
"""How long a Job whose containers have ended may take to report its end, after the deadline or
before an abort or a deletion ends the run.

The kubelet ends the pod of a mind at the deadline, and the runtime then reports what it has cost;
this takes as long at most. If the operator deleted the Job at once, the report would be lost.
"""

_OutcomeAndMessage = tuple[Outcome, str]
"""An outcome, and why."""


def decide_outcome(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    *,
    obstacle: NotReady | None,
    held_back: NotReady | None = None,
    now: datetime,
) -> RunOutcome | None:
    """Return how the run ended; None while it continues.

    `obstacle` is why the next attempt cannot start now, and `held_back` the same if that has no
    start deadline. While an attempt is open, they are ignored.
    """
    verdict = _decide(observed, attempts, obstacle=obstacle, held_back=held_back, now=now)
    if verdict is None:
        return None
    outcome, message = verdict
    attempts = observed.history.with_restarting(attempts)
    last = attempts[-1] if attempts else None
    last_ended_at = last.finished_at if last is not None and last.is_over else None
    facts_map = observed.maps.get(last.job_name or "") if last is not None else None
    receipt, injected = knowledge_injection.receipt_of(facts_map)
    return RunOutcome(
        outcome=outcome,
        message=message,
        finished_at=last_ended_at or now,
        started_at=attempts[0].started_at if attempts else None,
        attempts=attempt_record.summarise_all(attempts),
        receipt=receipt or (last.receipt if last is not None else None),
        injected=injected,
        last_attempt=last.number if last is not None else 0,
        usage=attempt_record.run_usage(attempts),
        review_usage=attempt_record.review_usage(attempts),
    )


def deadline(mission: Mission, attempts: Sequence[Attempt]) -> datetime | None:
    """Return when `completion.timeout`, which covers all attempts, ends; None before the first.

    `attempts` includes one that starts again.
    """
    if not attempts:
        return None
    return attempts[0].started_at + durations.parse(mission.spec.completion.timeout)


def is_ending(mission: Mission, attempts: Sequence[Attempt], now: datetime) -> bool:
    """Whether the run ends although its latest attempt may still work."""
    limit = deadline(mission, attempts)
    is_late = limit is not None and now >= limit
    return mission.is_deleting or labels.ABORT in mission.metadata.annotations or is_late


def start_deadline(mission: Mission, last: Attempt | None, *, now: datetime) -> datetime | None:
    """Return the deadline of the pending start; None if nothing waits to start.

    Without an attempt, the mission waits to start, otherwise the attempt's container or its checks.
    The time of a pod that replaces an evicted one counts from the creation of the pod, or from when
    its gate was opened, and before from the end of the evicted one. A gate that is due to be opened
    waits for nothing but the operator.
    The time of a mission counts from when the operator accepted it, not from its creation, because
    it could not start while no operator ran; and not before it is no longer held back.
    """
    limit = durations.parse(mission.spec.start_deadline)
    if last is not None and last.state is State.CHECKING and last.problem_reason is not None:
        return (last.work_ended_at or last.job_created_at) + limit
    if last is not None:
        is_held = attempt_state.awaits_open_gate(last) or attempt_state.awaits_replacement(last)
        if last.is_started or last.is_over or is_held:
            return None
        began_at = last.pod_startable_at or last.disrupted_at or last.job_created_at
        return began_at + limit
    return max(_accepted_at(mission, now), _held_until(mission, now)) + limit


def deadlines_of_next_start(
    observed: MissionObserved, attempts: Sequence[Attempt], *, is_held_back: bool, now: datetime
) -> list[datetime | None]:
    """Return when a run may end that waits for its next start.

    While a user holds it back, only the time of the run counts.
    """
    restarting = observed.history.restarting
    if restarting is not None:
        run_limit: datetime | None = _report_deadline(observed, restarting)
        start_limit: datetime | None = _restart_deadline(observed, restarting)
    else:
        run_limit = deadline(observed.mission, attempts)
        start_limit = None if attempts else _first_start_deadline(observed, now)
    return [run_limit] if is_held_back else [run_limit, start_limit]


def _first_start_deadline(observed: MissionObserved, now: datetime) -> datetime | None:
    """Return when a run without an attempt may end; later if writes began to fail late."""
    limit = start_deadline(observed.mission, None, now=now)
    if observed.failed_write is None or limit is None or now < limit:
        return limit
    return observed.failed_write.first_at + durations.parse(observed.mission.spec.start_deadline)


def _restart_deadline(observed: MissionObserved, restarting: Attempt) -> datetime:
    """Return when an attempt whose Job is gone has to start again if an obstacle prevents it.

    The time counts from when the pods of that Job have to end. While they work, or are gone, only
    the time of the run counts: nothing records when the Job was deleted.
    """
    ends_at, limit = _pods_end_at(observed), _report_deadline(observed, restarting)
    start_limit = durations.parse(observed.mission.spec.start_deadline)
    return limit if ends_at is None else min(limit, ends_at + start_limit)


def _report_deadline(observed: MissionObserved, restarting: Attempt) -> datetime:
    """Return when the time of a run ends whose Job is gone: its pods may report until they end."""
    attempts = observed.history.with_restarting(observed.history.attempts)
    limit = deadline(observed.mission, attempts) or restarting.started_at
    ends_at = _pods_end_at(observed)
    is_working = any(map(cost_gate.may_work, observed.pods)) and ends_at is None
    return limit + JOB_STATUS_GRACE if is_working else max(limit, ends_at or limit)


def _pods_end_at(observed: MissionObserved) -> datetime | None:
    """Return when the last pod has to end; None without one, or if one is not being deleted."""
    ends = [
        attempt_state.parse_time(pod["metadata"].get("deletionTimestamp"))
        for pod in observed.pods
        if cost_gate.may_work(pod)
    ]
    terminating = [each for each in ends if each is not None]
    return max(terminating) if terminating and len(terminating) == len(ends) else None


def _accepted_at(mission: Mission, now: datetime) -> datetime:
    created_at = mission.metadata.creation_timestamp or now
    return max(created_at, _stamped_time(mission, labels.ACCEPTED_AT) or created_at)


def _held_until(mission: Mission, now: datetime) -> datetime:
    """Return when a mission was no longer held back; its acceptance if it never was."""
    if mission.metadata.annotations.get(labels.HELD_UNTIL) == labels.STILL_HELD:
        return now
    return _stamped_time(mission, labels.HELD_UNTIL) or _accepted_at(mission, now)


def _stamped_time(mission: Mission, annotation: str) -> datetime | None:
    try:
        return annotation_values.time(mission.metadata.annotations.get(annotation))
    except ValueError:
        return None  # the annotation was edited


def _decide(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    *,
    obstacle: NotReady | None,
    held_back: NotReady | None,
    now: datetime,
) -> _OutcomeAndMessage | None:
    ledger = observed.ledger.run
    if ledger is not None and ledger.outcome is not None:
        # The ledger is final: a lost stamp must not give the same run another outcome.
        message = f"the knowledge service recorded the outcome {ledger.outcome}"
        return Outcome(ledger.outcome), message
    if attempts and not attempts[-1].is_over:
        return _outcome_while_running(observed, attempts, now)
    verdict = _outcome_after_attempt(observed, attempts, now) if attempts else None
    if verdict is not None:
        return verdict
    if observed.history.restarting is not None:
        return _outcome_before_restart(
            observed, observed.history.restarting, obstacle, held_back=held_back, now=now
        )
    if attempts:
        return _outcome_between_attempts(observed, attempts, obstacle or held_back, now)
    return _outcome_before_start(observed, obstacle, now)


def _outcome_before_start(
    observed: MissionObserved, obstacle: NotReady | None, now: datetime
) -> _OutcomeAndMessage | None:
    mission = observed.mission
    cancelled = _cancellation(mission, "before it started")
    obstacle = obstacle or _lasting_refusal(observed)
    if cancelled is not None or obstacle is None:
        return cancelled
    limit = start_deadline(mission, None, now=now)
    if limit is None or now < limit or unsupported(mission, observed.team) is not None:
        return None
    message = f"not started within {mission.spec.start_deadline}: {obstacle.message}"
    return Outcome.INFRASTRUCTURE_FAILED, message


def _outcome_before_restart(
    observed: MissionObserved,
    restarting: Attempt,
    obstacle: NotReady | None,
    *,
    held_back: NotReady | None,
    now: datetime,
) -> _OutcomeAndMessage | None:
    mission, subject = observed.mission, f"attempt {restarting.number}, whose Job is gone,"
    cancelled = _cancellation(mission, f"before {subject} started again")
    if cancelled is not None:
        return cancelled
    obstacle = obstacle or _refused_write(observed)
    if obstacle is not None and now >= _restart_deadline(observed, restarting):
        message = f"{subject} did not start again in time: {obstacle.message}"
        return Outcome.INFRASTRUCTURE_FAILED, message
    if now < _report_deadline(observed, restarting):
        return None
    timeout = f"the {mission.spec.completion.timeout} for all attempts"
    if held_back is not None:
        message = f"{subject} did not start again within {timeout}: {held_back.message}"
        return Outcome.INFRASTRUCTURE_FAILED, message
    return Outcome.TIMED_OUT, f"{timeout} ran out before {subject} started again"


def _refused_write(observed: MissionObserved) -> NotReady | None:
    """Return why the API server did not create an object, for example because of a quota.

    Only the attempt to write shows this, so the refusal of the last reconcile is observed.
    """
    failed = observed.failed_write
    message = observed.refused_write if failed is None else failed.message
    return None if message is None else NotReady(Reason.APPLY_FAILED, message)


def _lasting_refusal(observed: MissionObserved) -> NotReady | None:
    """Return the same; a failure that may pass only after it has lasted for the start deadline.

    The start deadline may be over when writes begin to fail, for example of a mission that was
    suspended.
    """
    failed = observed.failed_write
    if observed.refused_write is None and failed is not None:
        limit = durations.parse(observed.mission.spec.start_deadline)
        if failed.last_at - failed.first_at < limit:
            return None
    return _refused_write(observed)


_OUTCOMES = {State.SUCCEEDED: Outcome.SUCCEEDED, State.LOST: Outcome.INFRASTRUCTURE_FAILED}
"""The outcomes of attempts that end the run even if further attempts are left."""


def _outcome_after_attempt(
    observed: MissionObserved, attempts: Sequence[Attempt], now: datetime
) -> _OutcomeAndMessage | None:
    mission, last = observed.mission, attempts[-1]
    message = attempt_record.summarise(last).sentence()
    if last.state in _OUTCOMES:
        return _OUTCOMES[last.state], f"attempt {last.number}: {message}"
    if last.state is State.TIMED_OUT:
        return Outcome.TIMED_OUT, _timeout_message(mission, last)
    if last.failure is not None and not last.failure.is_retryable:
        if last.failure is not FailureClass.BUDGET:
            return Outcome.FAILED, f"attempt {last.number}: {message}"
        reason = _narrowest_limit(observed, last, now)
        return Outcome.BUDGET_EXCEEDED, f"attempt {last.number}: {message}{reason}"
    max_attempts = mission.spec.completion.max_attempts
    if last.number >= max_attempts:
        return Outcome.FAILED, f"attempt {last.number} of {max_attempts} failed: {message}"
    return None


def _outcome_between_attempts(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    obstacle: NotReady | None,
    now: datetime,
) -> _OutcomeAndMessage | None:
    last, limit = attempts[-1], deadline(observed.mission, attempts)
    cancelled = _cancellation(observed.mission, f"after attempt {last.number} failed")
    if cancelled is not None or limit is None or now < limit:
        return cancelled
    if obstacle is not None and obstacle.reason is Reason.RETRYING:
        obstacle = None  # the wait between two attempts is no fault of the cluster
    obstacle = obstacle or _refused_write(observed)
    if obstacle is None:
        return Outcome.TIMED_OUT, _timeout_message(observed.mission, last)
    message = (
        f"attempt {last.number + 1} did not start within the "
        f"{observed.mission.spec.completion.timeout} for all attempts: {obstacle.message}"
    )
    return Outcome.INFRASTRUCTURE_FAILED, message


def _narrowest_limit(observed: MissionObserved, last: Attempt, now: datetime) -> str:
    """Name the limit that ended the work; the runtime knows only what all limits left together."""
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    if isinstance(cell, NotReady) or last.review is not None:
        return ""
    reason = cost_reservations.narrowest_limit(observed, cell, now=now)
    return f"; {reason}" if reason else ""


@dataclass(frozen=True)
class _RunningAttempt:
    """The latest attempt, which is not over, at one moment.

    `limit` is when the time for all attempts ends, `start_limit` the deadline of a pending start.
    """

    mission: Mission
    attempt: Attempt
    limit: datetime | None
    start_limit: datetime | None
    now: datetime

    def cancellation(self) -> _OutcomeAndMessage | None:
        return _cancellation(self.mission, f"while attempt {self.attempt.number} ran")

    def is_cancelled(self) -> bool:
        """Whether it is cancelled; the end of its containers counts first: it may have succeeded.

        Its Job has a moment to report that end.
        """
        is_reporting = self.attempt.is_counted and not self._is_report_overdue()
        return not is_reporting and self.cancellation() is not None

    def _is_report_overdue(self) -> bool:
        ended_at = self.attempt.work_ended_at
        if self.attempt.state is not State.RUNNING or ended_at is None:
            return False
        return self.now >= ended_at + JOB_STATUS_GRACE

    def is_timed_out(self) -> bool:
        """Whether its time is over; ended containers and minds get extra time for their report."""
        is_mind = self.attempt.state is State.RUNNING and attempt_state.is_of_mind(self.attempt)
        grace = JOB_STATUS_GRACE if self.attempt.is_counted or is_mind else timedelta()
        return self.limit is not None and self.now >= self.limit + grace

    def is_stuck_at_timeout(self) -> bool:
        attempt = self.attempt
        is_held = attempt.problem_reason is not None or attempt_state.awaits_open_gate(attempt)
        return self.is_timed_out() and is_held and not attempt.is_started

    def is_start_overdue(self) -> bool:
        return self.start_limit is not None and self.now >= self.start_limit


_Condition = Callable[[_RunningAttempt], bool]
_Verdict = Callable[[_RunningAttempt], _OutcomeAndMessage | None]
_RUNNING_CASES: Mapping[str, tuple[_Condition, _Verdict]] = {
    "the mission was deleted or aborted": (
        _RunningAttempt.is_cancelled,
        _RunningAttempt.cancellation,
    ),
    "the time for all attempts ran out, and it never started": (
        _RunningAttempt.is_stuck_at_timeout,
        lambda run: (
            Outcome.INFRASTRUCTURE_FAILED,
            _not_started_message(
                run.attempt, f"the {run.mission.spec.completion.timeout} for all attempts"
            ),
        ),
    ),
    "the time for all attempts ran out": (
        _RunningAttempt.is_timed_out,
        lambda run: (Outcome.TIMED_OUT, _timeout_message(run.mission, run.attempt)),
    ),
    "it or its checks did not start in time": (
        _RunningAttempt.is_start_overdue,
        lambda run: (
            Outcome.INFRASTRUCTURE_FAILED,
            _not_started_message(run.attempt, run.mission.spec.start_deadline),
        ),
    ),
}
"""The cases that end an open attempt; the first that applies decides."""


def _outcome_while_running(
    observed: MissionObserved, attempts: Sequence[Attempt], now: datetime
) -> _OutcomeAndMessage | None:
    mission, last = observed.mission, attempts[-1]
    run = _RunningAttempt(
        mission,
        _with_refused_write(last, observed),
        limit=deadline(mission, attempts),
        start_limit=start_deadline(mission, last, now=now),
        now=now,
    )
    cases = _RUNNING_CASES.values()
    return next((verdict(run) for applies, verdict in cases if applies(run)), None)


def _with_refused_write(last: Attempt, observed: MissionObserved) -> Attempt:
    """Add what the API server refused to an attempt whose pod shows no other problem.

    The pod waits, for example, for a gate or for the ConfigMap with its knowledge.
    """
    refused = _refused_write(observed)
    is_waiting = not last.is_started and last.problem_reason is None
    if refused is None or not (is_waiting or attempt_state.awaits_open_gate(last)):
        return last
    return replace(last, problem_reason=refused.reason, end_message=refused.message)


def _cancellation(mission: Mission, circumstance: str) -> _OutcomeAndMessage | None:
    if mission.is_deleting:
        return Outcome.CANCELLED, f"the mission was deleted {circumstance}"
    if labels.ABORT in mission.metadata.annotations:
        abort_value = mission.metadata.annotations[labels.ABORT]
        return Outcome.CANCELLED, f'{labels.ABORT} "{abort_value}" ended the mission {circumstance}'
    return None


def _timeout_message(mission: Mission, last: Attempt) -> str:
    circumstances = {
        State.CHECKING: " while it was checked",
        State.REVIEWING: " before it was reviewed",
    }
    return (
        f"the {mission.spec.completion.timeout} for all attempts ran out in attempt {last.number}"
        f"{circumstances.get(last.state, '')}"
    )


def _not_started_message(last: Attempt, limit: str) -> str:
    if last.state is State.CHECKING:
        return f"attempt {last.number} could not be checked within {limit}: {last.end_message}"
    return (
        f"attempt {last.number} did not start within {limit}: {last.end_message or 'it has no pod'}"
    )


def unsupported(mission: Mission, team: MissionTeam) -> str | None:
    """Describe why the mission cannot be judged in its entry cell; None if it can.

    A running container without A2A gets no objective and gives no answer, so only checks that need
    none can judge the work there.
    """
    cell = entrypoint.entrypoint_cell(mission, team)
    if isinstance(cell, NotReady) or cell.spec.effective_mode is not CellMode.SERVICE:
        return None
    if cell.spec.serves_a2a:
        return None
    declared_checks = mission.spec.completion.checks
    response_checks = [check.name for check in declared_checks if check_results.is_response(check)]
    if declared_checks and not response_checks:
        return None
    subject = (
        f"response checks ({', '.join(response_checks)})"
        if response_checks
        else "a mission without checks"
    )
    return (
        f"{cell.ref} keeps running without container.a2a, so it gets no objective and gives no "
        f"answer, and {subject} cannot be judged there; set container.a2a, use command, coverage "
        "or fileExists checks, or mode: Task"
    )
