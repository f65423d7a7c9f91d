"""Following a run until it has ended and its facts are stored, or until patience ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kais_cli import errors, following
from kais_cli.following import State

if TYPE_CHECKING:
    from kais_cli.display import Display
    from kais_cli.ports import Change, Target
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
    """Show what happens to the targets until their run has ended.

    What still tells of the run `after_run` is passed over. So is the deletion of its mission when
    the instance is a target too: a use that was updated makes its mission anew for the next run.

    Raises:
        WaitedTooLong: the timeout passed first; the run goes on.
    """
    began = changed = session.environment.now()
    state, ended_at = State(), None
    is_use = any(target.kind == "BlueprintInstance" for target in targets)
    with display:
        for change in session.cluster.watch(targets):
            now = session.environment.now()
            is_old = change is not None and _tells_of(change, after_run, state, is_use=is_use)
            if change is not None and not is_old:
                before, state = state, state.after(change)
                for line in following.news(before, state):
                    display.line(line)
                changed = now
            display.tick(state, now - began)
            if following.end(state) is not None:
                ended_at = ended_at or now
                if following.is_settled(state) or now - ended_at > _SETTLING:
                    return state
            elif now - began > timeout:
                raise errors.WaitedTooLong(_waited(targets[0], timeout))
            elif now - changed > _SILENCE and state.phase == "Pending":
                display.line("nothing has happened for 30 s; check that the operator runs")
                changed = now
    return state


def _waited(target: Target, timeout: timedelta) -> str:
    return (
        f"{target.kind}/{target.namespace}/{target.name} has not ended after"
        f" {int(timeout.total_seconds())} s and goes on;"
        f" follow it with `kais mission watch {target.name} -n {target.namespace}`"
    )


def _tells_of(change: Change, run: str | None, state: State, *, is_use: bool) -> bool:
    if run is None or change.target.kind not in ("Mission", "BlueprintInstance"):
        return False
    if change.body is None:
        return is_use and change.target.kind == "Mission" and state.mission is None
    return bool(change.body.get("status", {}).get("runId") == run)
