"""One worker for a program without an event loop, such as a command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from kais_rendering.worker_handle import Answer, RenderProcess


class RenderSession:
    """A context manager that starts a worker and kills it at the end of the block.

    `limit_s` limits each answer, both in processor time and in elapsed time.
    """

    def __init__(self, *, limit_s: float, memory_mib: int) -> None:
        self._limit_s = limit_s
        self._memory_mib = memory_mib
        self._runner = asyncio.Runner()
        self._worker: RenderProcess | None = None

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """Run one request and return the answer; after a failure the session cannot be used again.

        Raises:
            RenderingFailed: The request exceeded a limit, or the worker died.
        """
        return self._runner.run(self._ask(json.dumps(request).encode()))

    async def _ask(self, request: bytes) -> Answer:
        if self._worker is None:
            self._worker = await RenderProcess.start(memory_mib=self._memory_mib)
        await self._worker.ready()
        answer = await self._worker.ask(request, limit_s=self._limit_s, elapsed_s=self._limit_s)
        if "done" not in answer:
            raise self._worker.failure(answer, memory_mib=self._memory_mib)
        result: Answer = answer["done"]
        return result

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._worker is not None:
                self._runner.run(self._worker.kill())
        finally:
            self._runner.__exit__(exc_type, exc, traceback)
