"""Follow a run until it has ended and its facts are stored, or until a timeout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.runs import progress as runs_progress
from kais_cli.runs import run_exit_status, waiting_reasons
from kais_cli.runs.progress import Reported, RunState

if TYPE_CHECKING:
    from kais_cli.ports import Change, Target
    from kais_cli.runs.progress_display import Display
    from kais_cli.session import Session

_KNOWLEDGE_TIMEOUT = timedelta(seconds=20)
"""How long to wait for the facts of a run after its end; they usually take a few seconds."""
_IDLE_WARNING = timedelta(seconds=30)
"""How long a run may stay Pending without a change before a warning names the operator."""


def follow(
    session: Session,
    targets: Sequence[Target],
    *,
    display: Display,
    timeout: timedelta,
    after_run: str | None = None,
) -> RunState:
    """Display the changes of the targets until their run has ended; return its last state.

    After the end, wait for the facts of the run, but at most 20 s.

    With `after_run`, follow the next run: objects that still describe the run of this id only show
    what the next one waits for. The deletion of their mission is ignored if the instance is a
    target too, because an updated instance recreates its mission.

    Raises:
        TimedOut: The timeout passed first; the run continues.
        Interrupted: The user pressed Ctrl-C; the run continues.
    """
    try:
        return _follow(session, targets, display=display, timeout=timeout, after_run=after_run)
    except KeyboardInterrupt:
        raise errors.Interrupted(_interrupt_message(targets)) from None
    except errors.CliError:
        raise
    except Exception:
        if not session.environment.is_interrupted():
            raise
        raise errors.Interrupted(_interrupt_message(targets)) from None


def _follow(
    session: Session,
    targets: Sequence[Target],
    *,
    display: Display,
    timeout: timedelta,
    after_run: str | None,
) -> RunState:
    started_at = changed_at = session.environment.now()
    has_instance = any(target.kind == "BlueprintInstance" for target in targets)
    printer = _ChangePrinter(display, after_run, has_instance=has_instance)
    ended_at = None
    with display:
        for change in session.cluster.watch(targets):
            now = session.environment.now()
            # The watch yields None while nothing changes, so that the timeouts below are checked.
            if change is not None and printer.handle(change):
                changed_at = now
            state = printer.state
            display.tick(state, now - started_at)
            if run_exit_status.exit_status_of(state) is not None:
                ended_at = ended_at or now
                if runs_progress.has_final_knowledge(state) or now - ended_at > _KNOWLEDGE_TIMEOUT:
                    return state
            elif now - started_at > timeout:
                raise errors.TimedOut(_timeout_message(targets[0], timeout))
            elif now - changed_at > _IDLE_WARNING and state.phase == "Pending":
                idle_s = int(_IDLE_WARNING.total_seconds())
                display.line(f"no progress for {idle_s} s; check that the operator runs")
                changed_at = now
    return printer.state


class _ChangePrinter:
    """Applies the changes of a followed run to its state, and displays what is new."""

    def __init__(self, display: Display, after_run: str | None, *, has_instance: bool) -> None:
        self.state = RunState()
        self._reported = Reported()
        self._display = display
        self._after_run = after_run
        self._has_instance = has_instance
        self._printed: set[str] = set()

    def handle(self, change: Change) -> bool:
        """Apply a change and display what is new; return whether the run has progressed.

        Every change of the run counts as progress, displayed or not. A change of the previous run
        counts only if it shows a new reason why the next run waits.
        """
        if not self._is_of_previous_run(change):
            previous, self.state = self.state, self.state.apply(change)
            for line in runs_progress.progress_lines(previous, self.state, self._reported):
                self._display.line(line)
            self._reported = self._reported.after(previous, self.state)
            return True
        wait_reasons = waiting_reasons.of_next_run(change.body) if change.body is not None else ()
        new_lines = [wait.line for wait in wait_reasons if wait.line not in self._printed]
        for line in new_lines:
            self._display.line(line)
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


def _interrupt_message(targets: Sequence[Target]) -> str:
    mission = next((target for target in targets if target.kind == "Mission"), targets[0])
    mission_arguments = f"{mission.name} -n {mission.namespace}"
    return (
        f"{mission.kind}/{mission.namespace}/{mission.name} continues; follow it again with"
        f" `kais mission watch {mission_arguments}`, or end it with"
        f" `kais mission abort {mission_arguments}`"
    )


def _timeout_message(target: Target, timeout: timedelta) -> str:
    return (
        f"{target.kind}/{target.namespace}/{target.name} has not ended after"
        f" {int(timeout.total_seconds())} s and is still running;"
        f" follow it with `kais mission watch {target.name} -n {target.namespace}`"
    )
