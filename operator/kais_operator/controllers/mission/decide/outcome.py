"""Whether a run has ended, and how. Decided once: the answer is stamped and never asked again.

Finished Jobs are judged first and by their own times, so an operator that was away does not turn a
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
from kais_operator.controllers.mission.decide.entrypoint import Obstacle, Team
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.outcome_annotation import Ending
from kais_operator.planning import annotation_values

COUNTING = timedelta(seconds=30)
"""How long a Job may take to count a container that has ended, before the clock decides."""

Verdict = tuple[Outcome, str]


def judge(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    *,
    obstacle: Obstacle | None,
    now: datetime,
) -> Ending | None:
    """Say how the run ended; None while it goes on.

    `obstacle` is why the mission cannot start now; it counts as long as there is no attempt.
    """
    verdict = _verdict(observed, attempts, obstacle=obstacle, now=now)
    if verdict is None:
        return None
    outcome, words = verdict
    last = attempts[-1] if attempts else None
    over_at = last.finished_at if last is not None and last.is_over else None
    latest_map = observed.maps.get(last.job_name or "") if last is not None else None
    receipt, injected = knowledge_injection.given(latest_map)
    return Ending(
        outcome=outcome,
        words=words,
        finished_at=over_at or now,
        started_at=attempts[0].started_at if attempts else None,
        tries=attempt_summary.of_all(attempts),
        receipt=receipt,
        injected=injected,
        attempt=last.number if last is not None else 0,
    )


def deadline(mission: Mission, attempts: Sequence[Attempt]) -> datetime | None:
    """Say when the time for all attempts is over; None before the first."""
    if not attempts:
        return None
    return attempts[0].started_at + durations.parse(mission.spec.completion.timeout)


def start_deadline(mission: Mission, last: Attempt | None, *, now: datetime) -> datetime | None:
    """Say until when something must have started; None when it has.

    Before the first attempt it counts from when the operator took the mission up, not from when it
    was made: nobody could start it while the operator was away.
    """
    patience = durations.parse(mission.spec.start_deadline)
    if last is not None and last.state is State.CHECKING and last.trouble is not None:
        return (last.work_ended_at or last.started_at) + patience
    if last is not None:
        return None if last.has_begun or last.is_over else last.started_at + patience
    made_at = mission.metadata.creation_timestamp or now
    return max(made_at, _taken_up_at(mission) or made_at) + patience


def _taken_up_at(mission: Mission) -> datetime | None:
    try:
        return annotation_values.time(mission.metadata.annotations.get(labels.ACCEPTED_AT))
    except ValueError:
        return None  # somebody edited it


def _verdict(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    *,
    obstacle: Obstacle | None,
    now: datetime,
) -> Verdict | None:
    ledger = observed.ledger.run
    if ledger is not None and ledger.outcome is not None:
        return Outcome(ledger.outcome), f"the ledger has this run closed as {ledger.outcome}"
    if not attempts:
        return _before_first(observed, obstacle, now)
    if attempts[-1].is_over:
        return _after(observed.mission, attempts, now)
    return _during(observed.mission, attempts, now)


def _before_first(
    observed: MissionObserved, obstacle: Obstacle | None, now: datetime
) -> Verdict | None:
    mission = observed.mission
    cancelled = _cancelled(mission, "before it started")
    obstacle = obstacle or _refused(observed)
    if cancelled is not None or obstacle is None:
        return cancelled
    limit = start_deadline(mission, None, now=now)
    if limit is None or now < limit or unsupported(mission, observed.team) is not None:
        return None
    words = f"not started within {mission.spec.start_deadline}: {obstacle.message}"
    return Outcome.INFRASTRUCTURE_FAILED, words


def _refused(observed: MissionObserved) -> Obstacle | None:
    """Give the API server's refusal of the Job, for example by a quota; only trying shows it."""
    if observed.refused_write is None:
        return None
    return Obstacle(Reason.APPLY_FAILED, observed.refused_write)


_SETTLED = {State.SUCCEEDED: Outcome.SUCCEEDED, State.LOST: Outcome.INFRASTRUCTURE_FAILED}


def _after(mission: Mission, attempts: Sequence[Attempt], now: datetime) -> Verdict | None:
    last = attempts[-1]
    words = attempt_summary.of(last).sentence()
    if last.state in _SETTLED:
        return _SETTLED[last.state], f"attempt {last.number}: {words}"
    if last.state is State.TIMED_OUT:
        return Outcome.TIMED_OUT, _timed_out(mission, last)
    most = mission.spec.completion.max_attempts
    limit = deadline(mission, attempts)
    if last.number < most:
        is_late = limit is not None and now >= limit
        late = (Outcome.TIMED_OUT, _timed_out(mission, last)) if is_late else None
        return _cancelled(mission, f"after attempt {last.number} failed") or late
    return Outcome.FAILED, f"attempt {last.number} of {most} failed: {words}"


def _during(mission: Mission, attempts: Sequence[Attempt], now: datetime) -> Verdict | None:
    last = attempts[-1]
    limit = deadline(mission, attempts)
    is_counted = last.is_counted  # the containers have ended, their Job follows
    cancelled = None if is_counted else _cancelled(mission, f"while attempt {last.number} ran")
    if cancelled is not None:
        return cancelled
    if limit is not None and now >= limit + (COUNTING if is_counted else timedelta()):
        if last.trouble is not None and not last.has_begun:
            return Outcome.INFRASTRUCTURE_FAILED, _never_began(mission, last)
        return Outcome.TIMED_OUT, _timed_out(mission, last)
    start_limit = start_deadline(mission, last, now=now)
    if start_limit is not None and now >= start_limit:
        return Outcome.INFRASTRUCTURE_FAILED, _never_began(mission, last)
    return None


def _cancelled(mission: Mission, when: str) -> Verdict | None:
    if mission.is_deleting:
        return Outcome.CANCELLED, f"the mission was deleted {when}"
    if labels.ABORT in mission.metadata.annotations:
        said = mission.metadata.annotations[labels.ABORT]
        return Outcome.CANCELLED, f'{labels.ABORT} "{said}" ended the mission {when}'
    return None


def _timed_out(mission: Mission, last: Attempt) -> str:
    while_ = {State.CHECKING: " while it was checked", State.REVIEWING: " before it was reviewed"}
    return (
        f"the {mission.spec.completion.timeout} for all attempts ran out in attempt {last.number}"
        f"{while_.get(last.state, '')}"
    )


def _never_began(mission: Mission, last: Attempt) -> str:
    limit = mission.spec.start_deadline
    if last.state is State.CHECKING:
        return f"attempt {last.number} could not be checked within {limit}: {last.words}"
    return f"attempt {last.number} did not start within {limit}: {last.words or 'it has no pod'}"


def unsupported(mission: Mission, team: Team) -> str | None:
    """Say what a mission asks of its cell that this version cannot do; None for nothing."""
    cell = entrypoint.entry_cell(mission, team)
    if isinstance(cell, Obstacle) or cell.spec.effective_mode is not CellMode.SERVICE:
        return None
    wanted = mission.spec.completion.checks
    answers = [check.name for check in wanted if check_rules.is_response(check)]
    if wanted and not answers:
        return None
    why = f"response checks ({', '.join(answers)})" if answers else "a mission without checks"
    return (
        f"{cell.ref} keeps running, and this version sends it no objective and reads no answer, so "
        f"{why} cannot be judged there; use command, coverage or fileExists checks, or mode: Task"
    )
