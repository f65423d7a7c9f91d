"""A pool of render processes: started early, killed at their limits, replaced at once.

A request takes an idle worker. At most one request per worker runs at a time; the others queue by
namespace, see `fair_share`. A worker that exceeds its time limit is killed. A worker that ran out
of memory or died is not used again. Its replacement starts importing before a request needs it.
"""

from __future__ import annotations

import asyncio
import logging

from kais_rendering.errors import RenderingFailed
from kais_rendering.fair_share import FairShare
from kais_rendering.worker_handle import START_S, Answer, RenderProcess

_LOG = logging.getLogger(__name__)
LIMIT_S = 2.0
"""The limit of processor time of a request."""
PATIENCE = 10
"""A multiple of the limit that may pass as elapsed time, for a worker that gets no processor."""
LONGEST_ANSWER_S = 2 * (START_S + LIMIT_S * PATIENCE)
"""Maximum elapsed time of a request with a worker: two tries that each start a new worker."""


class RenderPool:
    """A fixed number of workers, shared by all namespaces."""

    def __init__(
        self, *, workers: int = 3, limit_s: float = LIMIT_S, memory_mib: int = 256
    ) -> None:
        self._wanted = workers
        self._share = FairShare(workers)
        self._limit_s = limit_s
        self._memory_mib = memory_mib
        self._idle: asyncio.Queue[RenderProcess | None] = asyncio.Queue()
        self._started = False
        self._is_warned = False
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start all workers without waiting for their imports; has no effect if already started."""
        async with self._starting:
            if not self._started:
                self._started = True
                for _ in range(self._wanted):
                    self._idle.put_nowait(await self._new())

    async def close(self) -> None:
        """Stop the idle workers; call it when no request runs."""
        while not self._idle.empty():
            worker = self._idle.get_nowait()
            if worker is not None:
                await worker.kill()

    def problem(self) -> str | None:
        """Return None: a worker that cannot start fails only its request."""
        return None

    async def ask(self, request: bytes, *, namespace: str) -> Answer:
        """Wait for an idle worker, run a request of a namespace and return the answer.

        If the worker dies, a second worker gets the request: the death does not prove that the
        template is bad, because the kernel may have needed the memory.

        Raises:
            RenderingFailed: The request exceeded a limit or both workers died; the message names
                the
                limit and the leaf.
        """
        await self.start()
        async with self._share.turn(namespace):
            try:
                return await self._ask_once(request)
            except RenderingFailed as exc:
                if exc.cap != "worker":
                    raise
            return await self._ask_once(request)

    async def _ask_once(self, request: bytes) -> Answer:
        worker = await self._idle.get()
        is_sound = False
        try:
            if worker is None or not worker.is_alive:
                worker = await self._replaced(worker)
            await worker.ready()
            self._note_confinement(worker)
            elapsed_s = self._limit_s * PATIENCE
            answer = await worker.ask(request, limit_s=self._limit_s, elapsed_s=elapsed_s)
            if "done" not in answer:
                raise worker.failure(answer, memory_mib=self._memory_mib)
            is_sound = not answer.get("worn")
        finally:
            await asyncio.shield(self._give_back(worker, is_sound=is_sound))
        result: Answer = answer["done"]
        return result

    def _note_confinement(self, worker: RenderProcess) -> None:
        if not worker.is_confined and not self._is_warned:
            self._is_warned = True
            _LOG.warning(
                "the kernel has no Landlock: a template that breaks out of its sandbox could read "
                "what this user can read"
            )

    async def _give_back(self, worker: RenderProcess | None, *, is_sound: bool) -> None:
        """Return the worker's slot to the pool in any case; an empty slot gets a worker on use."""
        slot = worker if is_sound else None
        try:
            if not is_sound:
                slot = await self._replaced(worker)
        except OSError:
            _LOG.warning("no new render worker could be started; the next request tries again")
        finally:
            self._idle.put_nowait(slot)

    async def _replaced(self, worker: RenderProcess | None) -> RenderProcess:
        if worker is not None:
            await worker.kill()
        return await self._new()

    async def _new(self) -> RenderProcess:
        return await RenderProcess.start(memory_mib=self._memory_mib)
