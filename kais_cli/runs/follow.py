"""Follow a run until it has ended and its facts are stored, or until a timeout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.runs import progress as runs_progress
from kais_cli.runs import waiting_reasons
from kais_cli.runs.progress import State

if TYPE_CHECKING:
    from kais_cli.ports import Change, Target
    from kais_cli.runs.progress_display import Display
    from kais_cli.session import Session

_SETTLING = timedelta(seconds=20)  # for the facts of an ended run; they come within seconds
_SILENCE = timedelta(seconds=30)  # after which it is worth saying that nothing happens


def follow(
    session: Session,
    targets: Sequence[Target],
    *,
    display: Display,
    timeout: timedelta,
    after_run: str | None = None,
) -> State:
    """Display the changes of the targets until their run has ended.

    What still tells of the run `after_run` is passed over. So is the deletion of its mission when
    the instance is a target too: an updated use recreates its mission for the next run.

    Raises:
        TimedOut: The timeout passed first; the run continues.
    """
    began = changed = session.environment.now()
    is_use = any(target.kind == "BlueprintInstance" for target in targets)
    progress, ended_at = _Progress(after_run, is_use=is_use), None
    with display:
        for change in session.cluster.watch(targets):
            now = session.environment.now()
            if change is not None and progress.take(change, display):
                changed = now
            state = progress.state
            display.tick(state, now - began)
            if runs_progress.end(state) is not None:
                ended_at = ended_at or now
                if runs_progress.is_settled(state) or now - ended_at > _SETTLING:
                    return state
            elif now - began > timeout:
                raise errors.WaitedTooLong(_waited(targets[0], timeout))
            elif now - changed > _SILENCE and state.phase == "Pending":
                display.line("no progress for 30 s; check that the operator runs")
                changed = now
    return progress.state


class _Progress:
    """Tracks a followed run and prints what is new."""

    def __init__(self, after_run: str | None, *, is_use: bool) -> None:
        self.state = State()
        self._after_run = after_run
        self._is_use = is_use
        self._printed: set[str] = set()

    def take(self, change: Change, display: Display) -> bool:
        """Process a change and print what is new; False if nothing is new."""
        if not self._is_of_run_before(change):
            before, self.state = self.state, self.state.after(change)
            for line in runs_progress.news(before, self.state):
                display.line(line)
            return True
        waits = waiting_reasons.of_next_run(change.body) if change.body is not None else ()
        new = [wait.line for wait in waits if wait.line not in self._printed]
        for line in new:
            display.line(line)
        self._printed.update(new)
        return bool(new)

    def _is_of_run_before(self, change: Change) -> bool:
        run = self._after_run
        if run is None or change.target.kind not in ("Mission", "BlueprintInstance"):
            return False
        if change.body is None:
            is_mission = change.target.kind == "Mission"
            return self._is_use and is_mission and self.state.mission is None
        return bool(change.body.get("status", {}).get("runId") == run)


def _waited(target: Target, timeout: timedelta) -> str:
    return (
        f"{target.kind}/{target.namespace}/{target.name} has not ended after"
        f" {int(timeout.total_seconds())} s and goes on;"
        f" follow it with `kais mission watch {target.name} -n {target.namespace}`"
    )
