"""An event loop beside the commands, which are written without one.

A port-forward must go on while a command waits for the answer that comes through it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class BackgroundLoop:
    """An event loop in a thread that ends with the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A connection that breaks inside a port-forward is reported by the client that used it.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kais-cluster", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine there and wait for it; an interrupt of the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the thread and its loop; a process that ends need not do so."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
