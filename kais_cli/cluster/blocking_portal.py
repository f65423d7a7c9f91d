"""Runs an event loop in a thread, because commands are synchronous.

A port-forward must keep running while a command waits for a response through it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class BlockingPortal:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A connection that breaks inside a port-forward is reported by the client that used it.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kais-cluster", daemon=True
        )
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine and wait for its result; interrupting the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task of the loop without waiting, so that a second Ctrl-C does no harm."""
        self._loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """Stop the thread and its loop; not required before the process exits."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
