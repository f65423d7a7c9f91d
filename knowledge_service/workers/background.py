"""One kind of background thread: it repeats its tasks, and no failure of a task ends it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from knowledge_service.errors import StoreUnavailable

_log = logging.getLogger(__name__)

Task = Callable[[], float | None]
"""Returns after how many seconds it is to run again; None when the worker is woken."""
OnRun = Callable[[str, bool], None]
"""Called with the name of a task after each run, and whether it succeeded."""


class TaskFailed(Exception):
    """A task could not do its work now, for a reason outside of it."""


def _ignore_run(_task: str, _succeeded: bool) -> None:
    """Count nothing."""


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
    ) -> None:
        """Prepare the thread; its first round begins after `delay_s`, or when it is woken."""
        self._tasks = tasks
        self._retry_s = retry_s
        self._delay_s = delay_s
        self._on_run = on_run
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker was told to stop: a long task ends early."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Run the tasks now, or once more after the round at hand."""
        self._wake.set()

    def request_stop(self) -> None:
        """Say that the task at hand is the last one, and do not wait for its end."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """Finish the task at hand and end."""
        self.request_stop()
        if self._thread.is_alive():
            self._thread.join()

    def pause(self, seconds: float) -> None:
        """Wait inside a task, unless the worker is stopped."""
        self._stopping.wait(seconds)

    def _loop(self) -> None:
        delay_s = self._delay_s
        while not self._stopping.is_set():
            self._wake.wait(delay_s)
            self._wake.clear()  # before the tasks: what wakes during a round begins another
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
    """Start workers, and stop them in the end: all are told to before any is waited for."""
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        for worker in workers:
            worker.request_stop()
        for worker in reversed(workers):
            worker.stop()
