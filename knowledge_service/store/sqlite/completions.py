"""Waking those who wait for a commit: threads each, an event loop once for all of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

Waiting = Future[Any] | asyncio.Future[Any]
"""Who waits: a thread, or somebody in an event loop."""


class Answer(NamedTuple):
    """What becomes of a job."""

    done: Waiting
    result: Any
    error: BaseException | None

    def give(self) -> None:
        """Wake who waits, unless it has gone."""
        if self.done.cancelled():
            return
        if self.error is None:
            self.done.set_result(self.result)
        else:
            self.done.set_exception(self.error)


def give(answers: Sequence[Answer]) -> None:
    """Wake who waits: threads here, event loops by one call each."""
    loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        if isinstance(answer.done, Future):
            answer.give()
        else:
            loops.setdefault(answer.done.get_loop(), []).append(answer)
    for loop, found in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits there any more
            loop.call_soon_threadsafe(_give_all, found)


def _give_all(answers: Sequence[Answer]) -> None:
    for answer in answers:
        answer.give()
