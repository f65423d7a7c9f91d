"""Follow a run until it has ended and its facts are stored, or until a timeout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.runs import progress as runs_progress
from kais_cli.runs import waiting_reasons
from kais_cli.runs.progress import RunState

if TYPE_CHECKING:
    from kais_cli.ports import Change, Target
    from kais_cli.runs.progress_display import Display
    from kais_cli.session import Session

_KNOWLEDGE_TIMEOUT = timedelta(
    seconds=20
)  # for the facts of an ended run; they come within seconds
_IDLE_WARNING = timedelta(seconds=30)  # after which a message about the inactivity is useful


def follow(
    session: Session,
    targets: Sequence[Target],
    *,
    display: Display,
    timeout: timedelta,
    after_run: str | None = None,
) -> RunState:
    """Display the changes of the targets until their run has ended.

    Objects that still describe the run `after_run` are ignored. So is the deletion of the mission
    if the instance is a target too: an updated instance recreates its mission for the next run.

    Raises:
        TimedOut: The timeout passed first; the run continues.
    """
    started_at = changed_at = session.environment.now()
    has_instance = any(target.kind == "BlueprintInstance" for target in targets)
    progress, ended_at = _ProgressPrinter(after_run, has_instance=has_instance), None
    with display:
        for change in session.cluster.watch(targets):
            now = session.environment.now()
            if change is not None and progress.handle(change, display):
                changed_at = now
            state = progress.state
            display.tick(state, now - started_at)
            if runs_progress.exit_status_of(state) is not None:
                ended_at = ended_at or now
                if runs_progress.has_final_knowledge(state) or now - ended_at > _KNOWLEDGE_TIMEOUT:
                    return state
            elif now - started_at > timeout:
                raise errors.TimedOut(_timeout_message(targets[0], timeout))
            elif now - changed_at > _IDLE_WARNING and state.phase == "Pending":
                display.line("no progress for 30 s; check that the operator runs")
                changed_at = now
    return progress.state


class _ProgressPrinter:
    """Tracks a followed run and prints what is new."""

    def __init__(self, after_run: str | None, *, has_instance: bool) -> None:
        self.state = RunState()
        self._after_run = after_run
        self._has_instance = has_instance
        self._printed: set[str] = set()

    def handle(self, change: Change, display: Display) -> bool:
        """Process a change and print what is new; False if nothing is new."""
        if not self._is_of_previous_run(change):
            previous, self.state = self.state, self.state.apply(change)
            for line in runs_progress.progress_lines(previous, self.state):
                display.line(line)
            return True
        wait_reasons = waiting_reasons.of_next_run(change.body) if change.body is not None else ()
        new_lines = [wait.line for wait in wait_reasons if wait.line not in self._printed]
        for line in new_lines:
            display.line(line)
        self._printed.update(new_lines)
        return bool(new_lines)

    def _is_of_previous_run(self, change: Change) -> bool:
        run = self._after_run
        if run is None or change.target.kind not in ("Mission", "BlueprintInstance"):
            return False
        if change.body is None:
            is_mission = change.target.kind == "Mission"
            return self._has_instance and is_mission and self.state.mission is None
        return bool(change.body.get("status", {}).get("runId") == run)


def _timeout_message(target: Target, timeout: timedelta) -> str:
    return (
        f"{target.kind}/{target.namespace}/{target.name} has not ended after"
        f" {int(timeout.total_seconds())} s and is still running;"
        f" follow it with `kais mission watch {target.name} -n {target.namespace}`"
    )
