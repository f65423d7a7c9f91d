"""Start and stop the processes of one cluster.

Each process is recorded with its pid and start time. A pid that the kernel has reused is therefore
never mistaken for our process, and a run can stop what an earlier run started.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, subprocesses

_POLL_S = 0.1
_GRACE_S = 10.0  # after which a terminating process is killed


@dataclass(frozen=True)
class Processes:
    """The processes recorded in one state directory."""

    directory: Path

    def names(self) -> list[str]:
        """Return the names of all recorded processes, running or not."""
        folder = self.directory / "pids"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def pid(self, name: str) -> int | None:
        """Return the pid of a running process; None if it has ended."""
        try:
            pid, started = (self.directory / "pids" / name).read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if start_time(int(pid)) == started else None

    def log(self, name: str) -> Path:
        """Return the path of a process's log."""
        return self.directory / "logs" / f"{name}.log"

    def start(
        self, program: str | Path, arguments: Sequence[object] = (), *, env: Mapping[str, str]
    ) -> None:
        """Start a program in a new session and record it under its file name."""
        path = Path(program)
        log = os.fspath(self.log(path.name))
        pid = os.posix_spawn(
            path,
            [path.name, *(str(part) for part in arguments)],
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        record = self.directory / "pids" / path.name
        record.write_text(f"{pid} {start_time(pid)}\n")

    def stop(self, names: Sequence[str], *, grace_s: float = _GRACE_S) -> None:
        """Terminate all, wait for each, and kill those that exceed the grace period."""
        for name in names:
            self._signal(name, signal.SIGTERM)
        for name in names:
            deadline = time.monotonic() + grace_s
            while self.pid(name) and time.monotonic() < deadline:
                time.sleep(_POLL_S / 2)
            self._signal(name, signal.SIGKILL)
            while self.pid(name):
                time.sleep(_POLL_S / 10)
            self._reap(name)
            (self.directory / "pids" / name).unlink(missing_ok=True)

    def wait_for(
        self, name: str, goal: str, is_done: Callable[[], bool], *, deadline: float
    ) -> None:
        """Wait until `is_done` returns true while all recorded processes keep running.

        `deadline` is a reading of the monotonic clock.

        Raises:
            StartFailed: A process ended, or the deadline passed; with the end of its log.
        """
        while not is_done():
            for process_name in self.names():
                if not self.pid(process_name):
                    raise self.failure(
                        process_name, f"{process_name} ended while waiting for {goal}"
                    )
            if time.monotonic() > deadline:
                raise self.failure(name, f"no {goal} in time")
            time.sleep(_POLL_S)

    def failure(self, name: str, message: str) -> errors.StartFailed:
        """Return an error with the end of a process's log."""
        try:
            text = self.log(name).read_text(errors="replace")
        except OSError:
            text = "(no log)"
        return errors.StartFailed(
            f"{message}; the end of {self.log(name)}:\n{subprocesses.last_lines(text)}"
        )

    def _signal(self, name: str, number: signal.Signals) -> None:
        pid = self.pid(name)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self, name: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # it may be the child of another process
            pid = int((self.directory / "pids" / name).read_text().split()[0])
            os.waitpid(pid, os.WNOHANG)


def start_time(pid: int) -> str:
    """Return the start time of a process in the kernel's ticks; empty if it has ended.

    A zombie counts as ended, even where process 1 reaps it late.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(") ")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]
