"""Decide once whether a run has ended, and how; the outcome is stamped and never computed again.

Finished Jobs are evaluated first and by their own times, so the operator's absence never turns a
success into a timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kais import durations, labels
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais.resources.cell_template import CellMode
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    attempt_summary,
    check_rules,
    entrypoint,
    knowledge_injection,
)
from kais_operator.controllers.mission.decide.attempts import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam, NotReady
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import annotation_values

JOB_STATUS_GRACE = timedelta(seconds=30)
"""How long a Job may take to count an ended container, before the deadline applies."""

Verdict = tuple[Outcome, str]


def decide_outcome(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    *,
    obstacle: NotReady | None,
    now: datetime,
) -> RunOutcome | None:
    """Return how the run ended; None while it continues.

    `obstacle` is why the mission cannot start now. It applies only before the first attempt.
    """
    verdict = _decide(observed, attempts, obstacle=obstacle, now=now)
    if verdict is None:
        return None
    outcome, message = verdict
    last = attempts[-1] if attempts else None
    over_at = last.finished_at if last is not None and last.is_over else None
    latest_map = observed.maps.get(last.job_name or "") if last is not None else None
    receipt, injected = knowledge_injection.receipt_of(latest_map)
    return RunOutcome(
        outcome=outcome,
        message=message,
        finished_at=over_at or now,
        started_at=attempts[0].started_at if attempts else None,
        attempts=attempt_summary.summarise_all(attempts),
        receipt=receipt,
        injected=injected,
        attempt=last.number if last is not None else 0,
    )


def deadline(mission: Mission, attempts: Sequence[Attempt]) -> datetime | None:
    """Return when the time for all attempts ends; None before the first attempt."""
    if not attempts:
        return None
    return attempts[0].started_at + durations.parse(mission.spec.completion.timeout)


def start_deadline(mission: Mission, last: Attempt | None, *, now: datetime) -> datetime | None:
    """Return by when the mission, its attempt or its checks must start; None when they have.

    Before the first attempt the time counts from when the operator accepted the mission, not from
    its creation: it could not start while the operator was absent.
    """
    limit = durations.parse(mission.spec.start_deadline)
    if last is not None and last.state is State.CHECKING and last.trouble is not None:
        return (last.work_ended_at or last.started_at) + limit
    if last is not None:
        return None if last.is_started or last.is_over else last.started_at + limit
    created_at = mission.metadata.creation_timestamp or now
    return max(created_at, _accepted_at(mission) or created_at) + limit


def _accepted_at(mission: Mission) -> datetime | None:
    try:
        return annotation_values.time(mission.metadata.annotations.get(labels.ACCEPTED_AT))
    except ValueError:
        return None  # the annotation was edited


def _decide(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    *,
    obstacle: NotReady | None,
    now: datetime,
) -> Verdict | None:
    ledger = observed.ledger.run
    if ledger is not None and ledger.outcome is not None:
        return Outcome(ledger.outcome), f"the ledger has this run closed as {ledger.outcome}"
    if not attempts:
        return _outcome_before_start(observed, obstacle, now)
    if attempts[-1].is_over:
        return _outcome_after_attempt(observed.mission, attempts, now)
    return _outcome_while_running(observed.mission, attempts, now)


def _outcome_before_start(
    observed: MissionObserved, obstacle: NotReady | None, now: datetime
) -> Verdict | None:
    mission = observed.mission
    cancelled = _cancelled(mission, "before it started")
    obstacle = obstacle or _write_refused(observed)
    if cancelled is not None or obstacle is None:
        return cancelled
    limit = start_deadline(mission, None, now=now)
    if limit is None or now < limit or unsupported(mission, observed.team) is not None:
        return None
    message = f"not started within {mission.spec.start_deadline}: {obstacle.message}"
    return Outcome.INFRASTRUCTURE_FAILED, message


def _write_refused(observed: MissionObserved) -> NotReady | None:
    """Return why the API server refused the Job, for example by a quota; only a write shows it."""
    if observed.refused_write is None:
        return None
    return NotReady(Reason.APPLY_FAILED, observed.refused_write)


_SETTLED = {State.SUCCEEDED: Outcome.SUCCEEDED, State.LOST: Outcome.INFRASTRUCTURE_FAILED}


def _outcome_after_attempt(
    mission: Mission, attempts: Sequence[Attempt], now: datetime
) -> Verdict | None:
    last = attempts[-1]
    message = attempt_summary.summarise(last).sentence()
    if last.state in _SETTLED:
        return _SETTLED[last.state], f"attempt {last.number}: {message}"
    if last.state is State.TIMED_OUT:
        return Outcome.TIMED_OUT, _timeout_message(mission, last)
    max_attempts = mission.spec.completion.max_attempts
    limit = deadline(mission, attempts)
    if last.number < max_attempts:
        is_late = limit is not None and now >= limit
        late = (Outcome.TIMED_OUT, _timeout_message(mission, last)) if is_late else None
        return _cancelled(mission, f"after attempt {last.number} failed") or late
    return Outcome.FAILED, f"attempt {last.number} of {max_attempts} failed: {message}"


def _outcome_while_running(
    mission: Mission, attempts: Sequence[Attempt], now: datetime
) -> Verdict | None:
    last = attempts[-1]
    limit = deadline(mission, attempts)
    is_counted = last.is_counted  # the containers have ended, the Job will follow
    cancelled = None if is_counted else _cancelled(mission, f"while attempt {last.number} ran")
    if cancelled is not None:
        return cancelled
    if limit is not None and now >= limit + (JOB_STATUS_GRACE if is_counted else timedelta()):
        if last.trouble is not None and not last.is_started:
            return Outcome.INFRASTRUCTURE_FAILED, _not_started_message(mission, last)
        return Outcome.TIMED_OUT, _timeout_message(mission, last)
    start_limit = start_deadline(mission, last, now=now)
    if start_limit is not None and now >= start_limit:
        return Outcome.INFRASTRUCTURE_FAILED, _not_started_message(mission, last)
    return None


def _cancelled(mission: Mission, circumstance: str) -> Verdict | None:
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


def _not_started_message(mission: Mission, last: Attempt) -> str:
    limit = mission.spec.start_deadline
    if last.state is State.CHECKING:
        return f"attempt {last.number} could not be checked within {limit}: {last.end_message}"
    return (
        f"attempt {last.number} did not start within {limit}: {last.end_message or 'it has no pod'}"
    )


def unsupported(mission: Mission, team: MissionTeam) -> str | None:
    """Describe what this version cannot do for a mission in its cell; None when it can do all."""
    cell = entrypoint.entrypoint_cell(mission, team)
    if isinstance(cell, NotReady) or cell.spec.effective_mode is not CellMode.SERVICE:
        return None
    declared_checks = mission.spec.completion.checks
    answers = [check.name for check in declared_checks if check_rules.is_response(check)]
    if declared_checks and not answers:
        return None
    subject = f"response checks ({', '.join(answers)})" if answers else "a mission without checks"
    return (
        f"{cell.ref} keeps running, and this version sends it no objective and reads no answer, so "
        f"{subject} cannot be judged there; use command, coverage or fileExists checks, or mode: "
        "Task"
    )
