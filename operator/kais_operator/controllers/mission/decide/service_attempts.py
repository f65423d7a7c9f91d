"""Missions whose entry cell keeps running: an attempt is a round of its checks in that container.

This version sends a Service cell no objective. What the cell was started for is judged by the
checks: all are run once a round, and a round that fails is followed by another after a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kais import durations, labels, workspace_paths
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.cell_template import CellMode
from kais.resources.check import Check, CheckType
from kais_operator.controllers.mission.decide import (
    attempts_annotation,
    check_evaluation,
    check_rules,
)
from kais_operator.controllers.mission.decide.attempts import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import Obstacle
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    RunningContainer,
    exec_key,
    ref_of,
)
from kais_operator.planning.plan import Action, ObjectRef, PatchMetadata, RunInContainer

PAUSE = timedelta(seconds=15)
"""Between a round that failed and the next one; an arbitrary number."""
_LOOK = timedelta(seconds=1)
_GRACE = timedelta(seconds=5)
"""A mission whose time is over ends its commands; they end by themselves this much later."""

Step = tuple[Obstacle | None, tuple[Action, ...], timedelta | None]


def is_round(cell: Cell) -> bool:
    """Whether a cell keeps running, so that an attempt is no Job."""
    return cell.spec.effective_mode is CellMode.SERVICE


def start(observed: MissionObserved, seen: Sequence[Attempt], now: datetime) -> Step:
    """Choose the write that begins the next round."""
    previous = seen[-1] if seen else None
    if previous is not None and previous.finished_at is not None:
        due = previous.finished_at + PAUSE
        if now < due:
            words = "the checks are evaluated again after a pause"
            return Obstacle(Reason.RETRYING, words), (), due - now
    number = previous.number + 1 if previous else 1
    begun = Attempt(number, None, State.CHECKING, now, has_begun=True, is_exec=True)
    metadata = observed.mission.metadata
    written = PatchMetadata(
        ObjectRef(observed.mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={labels.ATTEMPTS: attempts_annotation.annotation([*seen, begun])},
    )
    return None, (written,), None


def go_on(
    observed: MissionObserved, last: Attempt, *, deadline: datetime | None, now: datetime
) -> Step:
    """Choose the commands that have not been started, and requeue until all have ended.

    `deadline` is when the time of the mission is over: no command is given more than that.
    """
    if last.state is State.REVIEWING:
        return None, (), None
    wanted = check_evaluation.to_run(observed, last)
    container = observed.container
    if wanted and container is None:
        words = "the checks wait for a ready pod of the cell"
        return Obstacle(Reason.WAITING_FOR_PODS, words), (), _LOOK
    whole = durations.parse(observed.mission.spec.completion.timeout)
    most = whole if deadline is None else min(whole, deadline - now + _GRACE)
    actions = tuple(
        _run(observed, last, check, container, most=most) for check in wanted if container
    )
    return None, actions, _LOOK


def _run(
    observed: MissionObserved,
    last: Attempt,
    check: Check,
    container: RunningContainer,
    *,
    most: timedelta,
) -> RunInContainer:
    argv = check_rules.argv_of(check)
    if check.type is CheckType.FILE_EXISTS:
        argv = workspace_paths.shell_command(check.paths or ())
    return RunInContainer(
        exec_key(observed.mission, last.number, check.name),
        ref_of(observed.mission),
        container.pod,
        container.name,
        tuple(argv),
        min(check_rules.timeout_of(check), most).total_seconds(),
    )
