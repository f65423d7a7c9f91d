"""The processes that render: started early, killed at their limits, replaced at once.

A request takes an idle worker, at most as many as there are workers run at a time and the others
queue. A worker that passes the wall limit is killed, one that ran out of memory or died is not
used again, and its successor starts importing before anybody asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import sys
from typing import Any

from msgspec import json

from kais_operator import errors
from kais_operator.adapters import render_place

Answer = dict[str, Any]

_LOG = logging.getLogger(__name__)
_LINE_BYTES = 16 * 2**20  # an answer is a capped output and its report, far below
_START_S = 30  # importing on a busy machine


class RenderWorker:
    """One process. Use it for one request at a time; after a failure only `kill` is left."""

    def __init__(self, process: asyncio.subprocess.Process, place: mmap.mmap) -> None:
        self._process = process
        self._place = place
        self._is_ready = False

    @classmethod
    async def start(cls, *, memory_mib: int) -> RenderWorker:
        """Start a process without environment; it is imported and ready some time later."""
        fd = render_place.open_shared()
        try:
            place = render_place.share(fd)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "kais_operator.adapters.render_worker"),
                *("--memory-mib", str(memory_mib), "--place-fd", str(fd)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=(fd,),
                limit=_LINE_BYTES,
            )
        finally:
            os.close(fd)
        return cls(process, place)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended, as far as is known."""
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait until the imports are done, which is no request's time.

        Raises:
            RenderingFailed: The process did not come up.
        """
        if self._is_ready:
            return
        try:
            await asyncio.wait_for(self._read(), _START_S)
        except TimeoutError as exc:
            message = f"the render worker was not ready within {_START_S} s"
            raise errors.RenderingFailed(message, cap="worker") from exc
        self._is_ready = True

    async def ask(self, line: bytes, *, limit_s: float) -> Answer:
        """Send one request and read its answer.

        Raises:
            RenderingFailed: The time ran out, or the process died.
        """
        try:
            return await asyncio.wait_for(self._exchange(line), limit_s)
        except TimeoutError as exc:
            message = f"rendering took more than {limit_s:g} s{self._where()}"
            raise errors.RenderingFailed(message, cap="time") from exc

    def failure(self, answer: Answer, *, memory_mib: int) -> errors.RenderingFailed:
        """Say what the last request failed of, and where."""
        if "cap" in answer:
            message = f"rendering took more than {memory_mib} MiB of memory{self._where()}"
            return errors.RenderingFailed(message, cap="memory")
        message = f"rendering failed{self._where()}: {answer['failed']}"
        return errors.RenderingFailed(message, cap="worker")

    async def kill(self) -> None:
        """End the process, whatever it does, and reap it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._place.close()

    async def _exchange(self, line: bytes) -> Answer:
        pipe = self._process.stdin
        if pipe is None:
            raise AssertionError("a render worker is started with pipes")
        try:
            pipe.write(line + b"\n")
            await pipe.drain()
        except (BrokenPipeError, ConnectionResetError) as exc:
            raise self._died() from exc
        return await self._read()

    async def _read(self) -> Answer:
        pipe = self._process.stdout
        if pipe is None:
            raise AssertionError("a render worker is started with pipes")
        line = await pipe.readline()
        if not line:
            raise self._died()
        answer: Answer = json.decode(line)
        return answer

    def _died(self) -> errors.RenderingFailed:
        message = f"the render worker died{self._where()}"
        return errors.RenderingFailed(message, cap="worker")

    def _where(self) -> str:
        leaf = render_place.read(self._place)
        return f" at {leaf}" if leaf else ""


class RenderPool:
    """A fixed number of workers, shared by everybody who renders."""

    def __init__(self, *, workers: int = 2, limit_s: float = 2.0, memory_mib: int = 256) -> None:
        self._wanted = workers
        self._limit_s = limit_s
        self._memory_mib = memory_mib
        self._idle: asyncio.Queue[RenderWorker | None] = asyncio.Queue()
        self._started = False
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start all workers; they import while the caller goes on. Repeating it does nothing."""
        async with self._starting:
            if not self._started:
                self._started = True
                for _ in range(self._wanted):
                    self._idle.put_nowait(await self._new())

    async def close(self) -> None:
        """End the idle workers; call it when nothing renders any more."""
        while not self._idle.empty():
            worker = self._idle.get_nowait()
            if worker is not None:
                await worker.kill()

    async def ask(self, line: bytes) -> Answer:
        """Have one request answered, waiting for an idle worker first.

        A worker that dies is no proof against the template (the kernel may have needed its memory),
        so the request gets a second one.

        Raises:
            RenderingFailed: A cap was passed; the message names it and the leaf.
        """
        await self.start()
        try:
            return await self._ask_once(line)
        except errors.RenderingFailed as exc:
            if exc.cap != "worker":
                raise
        return await self._ask_once(line)

    async def _ask_once(self, line: bytes) -> Answer:
        worker = await self._idle.get()
        is_sound = False
        try:
            if worker is None or not worker.is_alive:
                worker = await self._replaced(worker)
            await worker.ready()
            answer = await worker.ask(line, limit_s=self._limit_s)
            if "done" not in answer:
                raise worker.failure(answer, memory_mib=self._memory_mib)
            is_sound = not answer.get("worn")
        finally:
            await asyncio.shield(self._give_back(worker, is_sound=is_sound))
        done: Answer = answer["done"]
        return done

    async def _give_back(self, worker: RenderWorker | None, *, is_sound: bool) -> None:
        """Keep the number of places whatever happens: a place without a worker is filled on use."""
        place = worker if is_sound else None
        try:
            if not is_sound:
                place = await self._replaced(worker)
        except OSError:
            _LOG.warning("no new render worker could be started; the next request tries again")
        finally:
            self._idle.put_nowait(place)

    async def _replaced(self, worker: RenderWorker | None) -> RenderWorker:
        if worker is not None:
            await worker.kill()
        return await self._new()

    async def _new(self) -> RenderWorker:
        return await RenderWorker.start(memory_mib=self._memory_mib)
