"""Threads that run blocking calls for the event loop, one call at a time each.

The executor of the standard library does the same for any number of submitters: each call takes two
futures, three locks and a chain of callbacks between them. Here only the event loop submits, so a
call takes one future of the loop, and one wakeup at its end.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Call(NamedTuple):
    function: Callable[[], Any]
    future: asyncio.Future[Any]
    on_end: Callable[[_Calls, asyncio.Future[Any], Any, BaseException | None], None]


_Calls = queue.SimpleQueue[_Call | None]
"""The next call of one thread; None ends it."""


class RequestThreads:
    """Starts a thread when a call finds none idle, up to `max_threads`; further calls wait.

    The thread that ended its call last takes the next one: its data is still in the caches of its
    processor, and with one call at a time, one thread runs them all.

    Use it from one event loop only. The callers bound how many calls wait at once
    (`concurrency_limits`), but a call whose caller has gone runs on in its thread. The threads end
    with this object, and do not delay the end of the process.
    """

    def __init__(self, max_threads: int = 32) -> None:
        self._max_threads = max_threads
        self._threads = 0
        self._idle: list[_Calls] = []
        self._waiting: deque[_Call] = deque()

    async def run(self, function: Callable[[], T]) -> T:
        """Run a call in a thread and return its result.

        A cancelled call that has not begun is dropped; one that has begun runs to its end.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if not self._idle and self._threads < self._max_threads:
            self._start_thread()
        call = _Call(function, future, self._end)
        if self._idle:
            self._idle.pop().put(call)
        else:
            self._waiting.append(call)
        return await future

    def _start_thread(self) -> None:
        calls: _Calls = queue.SimpleQueue()
        name = f"request_{self._threads + 1}"
        threading.Thread(target=_work, args=(calls,), name=name, daemon=True).start()
        self._threads += 1
        self._idle.append(calls)
        weakref.finalize(self, calls.put, None)

    def _end(
        self, thread: _Calls, future: asyncio.Future[Any], result: Any, error: BaseException | None
    ) -> None:  # fmt: skip
        if self._waiting:
            thread.put(self._waiting.popleft())
        else:
            self._idle.append(thread)
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _work(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        result, error = None, None
        if not call.future.cancelled():
            try:
                result = call.function()
            except BaseException as exc:  # noqa: BLE001 - the caller that awaits the future gets it
                error = exc
        with suppress(RuntimeError):  # the loop is closed, so no caller awaits the future
            loop = call.future.get_loop()
            loop.call_soon_threadsafe(call.on_end, calls, call.future, result, error)
        del call, result, error  # an idle thread holds no request
