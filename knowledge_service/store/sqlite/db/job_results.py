"""Resolves the futures of a commit: one by one for threads, in one call for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

JobFuture = Future[Any] | asyncio.Future[Any]
"""The future of a caller in a thread, or in an event loop."""


class JobResult(NamedTuple):
    """The outcome of a job."""

    future: JobFuture
    result: Any
    error: BaseException | None

    def deliver(self) -> None:
        """Wake the caller, unless it has cancelled or given up."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def deliver(results: Sequence[JobResult]) -> None:
    """Wake the callers: threads here, event loops by one call each."""
    loops: dict[asyncio.AbstractEventLoop, list[JobResult]] = {}
    for job_result in results:
        if isinstance(job_result.future, Future):
            job_result.deliver()
        else:
            loops.setdefault(job_result.future.get_loop(), []).append(job_result)
    for loop, loop_results in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so its callers no longer wait
            loop.call_soon_threadsafe(_deliver_all, loop_results)


def _deliver_all(results: Sequence[JobResult]) -> None:
    for job_result in results:
        job_result.deliver()
