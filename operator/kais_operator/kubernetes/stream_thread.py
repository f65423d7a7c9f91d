"""An event loop in its own thread, for streams that may be long.

They are read and truncated there, so the loop that reconciles never waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_STOP_TIMEOUT_S = 5.0
"""Coroutines that still run after this time end with the process."""


class StreamThread:
    """A loop that the first coroutine starts; `close` cancels what runs in it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread; its future may be used from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started())

    async def close(self, *, cleanup: Coroutine[Any, Any, None]) -> None:
        """Cancel what runs, run `cleanup` in the thread, and wait for its end."""
        if self._loop is None or self._thread is None:
            cleanup.close()
            return
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        ended = asyncio.run_coroutine_threadsafe(_end(cleanup), loop)
        await asyncio.wait([asyncio.wrap_future(ended)], timeout=_STOP_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, _STOP_TIMEOUT_S)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name=self._name, daemon=True
            )
            self._thread.start()
        return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _end(last: Coroutine[Any, Any, None]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await last
