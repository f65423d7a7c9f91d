"""One worker for a program without an event loop, such as a command."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

from kais_rendering.worker_handle import Answer, RenderProcess


class RenderSession:
    """Runs requests one after another in one worker, which starts at the first request.

    A worker that failed, was interrupted or has used half of its memory is replaced. Requests of
    several threads, such as the calls of an MCP client, take turns.
    """

    def __init__(self, *, memory_mib: int) -> None:
        self._memory_mib = memory_mib
        self._runner = asyncio.Runner()
        self._worker: RenderProcess | None = None
        self._turn = threading.Lock()

    def ask(self, request: Mapping[str, Any], *, limit_s: float) -> Answer:
        """Run one request and return the answer.

        Args:
            request: The request.
            limit_s: Limit of the answer, both in processor time and in elapsed time, in seconds.

        Raises:
            RenderingFailed: The request exceeded a limit, or the worker died.
        """
        with self._turn:
            try:
                answer = self._runner.run(self._ask(json.dumps(request).encode(), limit_s))
            except BaseException:
                self._stop()
                raise
            if answer.get("worn"):
                self._stop()
        result: Answer = answer["done"]
        return result

    async def _ask(self, request: bytes, limit_s: float) -> Answer:
        if self._worker is None:
            self._worker = await RenderProcess.start(memory_mib=self._memory_mib)
        await self._worker.ready()
        answer = await self._worker.ask(request, limit_s=limit_s, elapsed_s=limit_s)
        if "done" not in answer:
            raise self._worker.failure(answer, memory_mib=self._memory_mib)
        return answer

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._runner.run(worker.kill())

    def close(self) -> None:
        """Kill the worker."""
        with self._turn:
            try:
                self._stop()
            finally:
                self._runner.close()
