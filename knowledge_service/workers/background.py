"""The background worker: a thread that repeats its tasks and survives their failures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from knowledge_service.errors import StoreUnavailable

_log = logging.getLogger(__name__)

Task = Callable[[], float | None]
"""Returns the seconds until its next run; None to run when the worker is woken."""
OnRun = Callable[[str, bool], None]
"""Called with the name of a task after each run, and whether it succeeded."""


class TaskFailed(Exception):
    """A task failed for an external reason; it is retried without a traceback in the log."""


def _ignore_run(_task: str, _succeeded: bool) -> None:
    """Ignore the result of a run."""


class BackgroundWorker:
    """A thread that runs its tasks one after the other until it is stopped.

    A task that raises is logged, counted by `on_run`, and runs again after `retry_s`.
    """

    def __init__(
        self,
        name: str,
        tasks: Mapping[str, Task],
        *,
        retry_s: float,
        delay_s: float | None = 0.0,
        on_run: OnRun = _ignore_run,
        stop_timeout_s: float | None = None,
    ) -> None:
        """Create the thread; its tasks first run after `delay_s`, or when it is woken.

        After `stop_timeout_s`, a stop waits no longer for the task, which ends with the process.
        """
        self._stop_timeout_s = stop_timeout_s
        self._tasks = tasks
        self._retry_s = retry_s
        self._delay_s = delay_s
        self._on_run = on_run
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker should stop: long tasks check this and end early."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Run the tasks now, or once more after the current round."""
        self._wake.set()

    def request_stop(self) -> None:
        """Ask the worker to stop after the current task, without waiting for it."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """Stop after the current task, and wait for the thread."""
        self.request_stop()
        if self._thread.is_alive():
            self._thread.join(self._stop_timeout_s)

    def pause(self, seconds: float) -> None:
        """Wait inside a task; returns early when the worker stops."""
        self._stopping.wait(seconds)

    def _loop(self) -> None:
        delay_s = self._delay_s
        while not self._stopping.is_set():
            self._wake.wait(delay_s)
            self._wake.clear()  # before the tasks, so that a wake-up during a round starts another
            delays = [self._run(*item) for item in self._tasks.items() if not self.is_stopping]
            delay_s = min((item for item in delays if item is not None), default=None)

    def _run(self, name: str, task: Task) -> float | None:
        try:
            delay_s = task()
        except StoreUnavailable as exc:
            _log.warning("%s waits for the store", name, extra={"fields": {"why": exc.detail}})
        except TaskFailed as exc:
            fields = {"fields": {"why": str(exc)}}
            _log.warning("%s failed; retrying in %g s", name, self._retry_s, extra=fields)
        except Exception:  # noqa: BLE001 - the thread must not end unnoticed
            _log.exception("%s failed; retrying in %g s", name, self._retry_s)
        else:
            self._on_run(name, True)
            return delay_s
        self._on_run(name, False)
        return self._retry_s


@contextmanager
def run_workers(workers: Sequence[BackgroundWorker]) -> Iterator[None]:
    """Run workers during the block; at its end, request all stops before waiting for any."""
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        for worker in workers:
            worker.request_stop()
        for worker in reversed(workers):
            worker.stop()
