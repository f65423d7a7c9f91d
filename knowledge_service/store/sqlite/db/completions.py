"""Resolves the futures of a commit: one by one for threads, in one call for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

Waiting = Future[Any] | asyncio.Future[Any]
"""The future of a caller in a thread, or in an event loop."""


class Completion(NamedTuple):
    """The outcome of a job."""

    future: Waiting
    result: Any
    error: BaseException | None

    def resolve(self) -> None:
        """Wake the caller, unless it has cancelled."""
        if self.future.cancelled():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def resolve(completions: Sequence[Completion]) -> None:
    """Wake the callers: threads here, event loops by one call each."""
    loops: dict[asyncio.AbstractEventLoop, list[Completion]] = {}
    for completion in completions:
        if isinstance(completion.future, Future):
            completion.resolve()
        else:
            loops.setdefault(completion.future.get_loop(), []).append(completion)
    for loop, loop_completions in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits there any more
            loop.call_soon_threadsafe(_resolve_all, loop_completions)


def _resolve_all(completions: Sequence[Completion]) -> None:
    for completion in completions:
        completion.resolve()
