"""Attempts of a mission whose entry cell keeps running: series of checks in its container.

This version sends a Service cell no objective; the checks evaluate the work of the running cell.
All checks run once in each attempt. After an attempt that fails, the next one follows after a
pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kais import durations, workspace_paths
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.cell_template import CellMode
from kais.resources.check import Check, CheckType
from kais_operator.controllers.mission.decide import (
    attempt_checks,
    check_results,
    run_history_annotation,
)
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import NotReady
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    RunningContainer,
    exec_key,
    ref_of,
)
from kais_operator.planning.plan import Action, RunInContainer

PAUSE = timedelta(seconds=15)
"""Pause between a failed attempt and the next one; an arbitrary number."""
_POLL_INTERVAL = timedelta(seconds=1)
_COMMAND_GRACE = timedelta(seconds=5)
"""A mission ends its commands at its deadline; by themselves they end this much later."""

Step = tuple[NotReady | None, tuple[Action, ...], timedelta | None]


def is_service_attempt(cell: Cell) -> bool:
    """Whether a cell keeps running, so that its attempts have no Job."""
    return cell.spec.effective_mode is CellMode.SERVICE


def next_attempt(observed: MissionObserved, attempts: Sequence[Attempt], now: datetime) -> Step:
    """Choose the write that starts the next series of checks."""
    previous = attempts[-1] if attempts else None
    if previous is not None and previous.finished_at is not None:
        due = previous.finished_at + PAUSE
        if now < due:
            message = "the checks are evaluated again after a pause"
            return NotReady(Reason.RETRYING, message), (), due - now
    number = previous.number + 1 if previous else 1
    attempt = Attempt(number, None, State.CHECKING, now, is_started=True, is_exec=True)
    return None, (run_history_annotation.stamp(observed.mission, [*attempts, attempt]),), None


def run_checks(
    observed: MissionObserved, last: Attempt, *, deadline: datetime | None, now: datetime
) -> Step:
    """Choose the commands that have not been started, and requeue until all have ended.

    `deadline` is when the time of the mission ends; no command gets more time than that.
    """
    if last.state is State.REVIEWING:
        return None, (), None
    checks = attempt_checks.checks_to_start(observed, last)
    container = observed.container
    if checks and container is None:
        message = "the checks wait for a ready pod of the cell"
        return NotReady(Reason.WAITING_FOR_PODS, message), (), _POLL_INTERVAL
    timeout = durations.parse(observed.mission.spec.completion.timeout)
    max_duration = timeout if deadline is None else min(timeout, deadline - now + _COMMAND_GRACE)
    actions = tuple(
        _run(observed, last, check, container, max_duration=max_duration)
        for check in checks
        if container
    )
    return None, actions, _POLL_INTERVAL


def _run(
    observed: MissionObserved,
    last: Attempt,
    check: Check,
    container: RunningContainer,
    *,
    max_duration: timedelta,
) -> RunInContainer:
    argv = check_results.argv_of(check)
    if check.type is CheckType.FILE_EXISTS:
        argv = workspace_paths.shell_command(check.paths or ())
    return RunInContainer(
        exec_key(observed.mission, last.number, check.name),
        ref_of(observed.mission),
        container.pod,
        container.name,
        tuple(argv),
        min(check_results.timeout_of(check), max_duration).total_seconds(),
    )
