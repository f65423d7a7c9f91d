"""Containers in memory: logs that a test wrote, commands that end when a test says so."""

from __future__ import annotations

from collections.abc import Sequence

from kais_operator.planning import container_results
from kais_operator.planning.container_results import Log, Process
from kais_operator.planning.plan import ObjectRef, RunInContainer
from tests.fakes.chart_rbac import Rights
from tests.fakes.clock import FakeClock


class FakeContainers:
    """The Containers port. `logs` are by container; `read` counts the calls for them.

    While it `is_slow`, every log is still being read.
    """

    def __init__(self, clock: FakeClock, *, rights: Sequence[Rights] = ()) -> None:
        self.clock = clock
        self.rights = tuple(rights)
        self.logs: dict[str, str] = {}
        self.log_problems: dict[str, str] = {}
        self.is_slow = False
        self.read = 0
        self.started: list[RunInContainer] = []
        self.ended: list[RunInContainer] = []
        self.known: dict[str, tuple[Process, str]] = {}

    def read_log(self, pod: ObjectRef, container: str) -> Log | None:
        self._require(pod, "log", "get")
        self.read += 1
        if self.is_slow:
            return None
        if container not in self.logs:
            return Log(problem=f"its output is gone with its pod: {pod}: no log of {container}")
        return Log(self.logs[container], self.log_problems.get(container))

    def start_command(self, command: RunInContainer) -> None:
        self._require(command.pod, "exec", "get", "create")
        known = self.known.get(command.key)
        if known is None or (command.repeats and not _is_open(known)):
            self.started.append(command)
            process, previous = known if known is not None else (Process(), "")
            self.known[command.key] = (
                Process(self.clock.now(), last_failure=process.problem),
                previous,
            )

    def result_of(self, mission: ObjectRef, key: str) -> tuple[Process, str] | None:
        return self.known.get(key)

    def is_running(self, mission: ObjectRef) -> bool:
        commands = self._of(mission)
        return any(command.repeats or _is_open(self.known[command.key]) for command in commands)

    def end_commands(self, mission: ObjectRef) -> None:
        for command in self._of(mission):
            if _is_open(self.known.pop(command.key)):
                self.ended.append(command)

    def end_all(self) -> None:
        for command in self.started:
            self.end_commands(command.mission)

    def _of(self, mission: ObjectRef) -> list[RunInContainer]:
        commands = {command.key: command for command in self.started if command.mission == mission}
        return [command for key, command in commands.items() if key in self.known]

    def _require(self, pod: ObjectRef, subresource: str, *verbs: str) -> None:
        for rights in self.rights:
            for verb in verbs:
                rights.require(verb, pod, subresource=subresource)

    def end(self, check: str, *, code: int = 0, out: str = "", message: str = "") -> None:
        """End the latest command of a check."""
        key = next(key for key in reversed(self.known) if key.endswith(f"/{check}"))
        started_at = self.known[key][0].began_at
        self.known[key] = (Process(started_at, self.clock.now(), code, message), out)

    def fail(self, check: str, reason: str) -> None:
        """Have the latest command of a check not run."""
        key = next(key for key in reversed(self.known) if key.endswith(f"/{check}"))
        process, previous = self.known[key]
        began = process.began_at
        missing = container_results.is_program_missing(reason)
        self.known[key] = (Process(began, failure=reason, is_program_missing=missing), previous)

    def forget(self) -> None:
        """Lose everything, as a new process does."""
        self.known.clear()


def _is_open(found: tuple[Process, str]) -> bool:
    return found[0].ended_at is None and found[0].failure is None
