"""One process that renders: started without environment, killed when it passes a limit.

Its time is counted as the processor time that it takes. On a machine that is busy, or while the
caller's own loop is, time goes by in which nothing of the template ran; a good Blueprint must not
be called bad for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import sys
from pathlib import Path
from typing import Any

from kais_rendering import framing, progress_memory
from kais_rendering.errors import Cap, RenderingFailed

Answer = dict[str, Any]

_START_S = 30  # importing on a busy machine
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")  # a second, of `/proc`


class RenderProcess:
    """One process. Use it for one request at a time; after a failure only `kill` is left.

    Attributes:
        is_confined: Whether it can read no file but Python's own, once it is ready.
    """

    def __init__(self, process: asyncio.subprocess.Process, progress: mmap.mmap) -> None:
        self._process = process
        self._progress = progress
        self._is_ready = False
        self.is_confined = False

    @classmethod
    async def start(cls, *, memory_mib: int) -> RenderProcess:
        """Start a process without environment; it is imported and ready some time later."""
        fd = progress_memory.open_shared()
        try:
            progress = progress_memory.map_shared(fd)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "kais_rendering.worker"),
                *("--memory-mib", str(memory_mib), "--progress-fd", str(fd)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                pass_fds=(fd,),
            )
        finally:
            os.close(fd)
        return cls(process, progress)

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
            answer = await asyncio.wait_for(self._read(), _START_S)
        except TimeoutError as exc:
            message = f"the render worker was not ready within {_START_S} s"
            raise RenderingFailed(message, cap="worker") from exc
        self._is_ready = True
        self.is_confined = bool(answer["confined"])

    async def ask(self, request: bytes, *, limit_s: float, elapsed_s: float) -> Answer:
        """Send one request and read its answer.

        Args:
            request: The request, as JSON.
            limit_s: Seconds of processor time.
            elapsed_s: Seconds on the clock, for a process that gets no processor.

        Raises:
            RenderingFailed: The time ran out, or the process died.
        """
        began_s = self._spent_s()
        answer = asyncio.ensure_future(self._exchange(request))
        try:
            async with asyncio.timeout(elapsed_s):
                left_s = limit_s
                while left_s > 0:
                    await asyncio.wait([answer], timeout=left_s)
                    if answer.done():
                        return answer.result()
                    left_s = limit_s - (self._spent_s() - began_s)
        except TimeoutError:
            raise self._failed(f"rendering got no processor for {elapsed_s:g} s", "time") from None
        finally:
            answer.cancel()
        raise self._failed(f"rendering took more than {limit_s:g} s", "time")

    def failure(self, answer: Answer, *, memory_mib: int) -> RenderingFailed:
        """Say what the last request failed of, and where."""
        if "cap" in answer:
            return self._failed(f"rendering took more than {memory_mib} MiB of memory", "memory")
        return self._failed("rendering failed", "worker", detail=f": {answer['failed']}")

    async def kill(self) -> None:
        """End the process, whatever it does, and reap it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._progress.close()

    async def _exchange(self, request: bytes) -> Answer:
        pipe = self._process.stdin
        if pipe is None:
            raise AssertionError("a render worker is started with pipes")
        try:
            pipe.write(framing.frame(request))
            await pipe.drain()
        except (BrokenPipeError, ConnectionResetError) as exc:
            raise self._died() from exc
        return await self._read()

    async def _read(self) -> Answer:
        pipe = self._process.stdout
        if pipe is None:
            raise AssertionError("a render worker is started with pipes")
        try:
            payload = await framing.read(pipe, max_bytes=framing.MAX_BYTES)
        except framing.BadFrame as exc:
            raise self._died() from exc
        if payload is None:
            raise self._died()
        answer: Answer = json.loads(payload)
        return answer

    def _died(self) -> RenderingFailed:
        return self._failed("the render worker died", "worker")

    def _failed(self, problem: str, cap: Cap, *, detail: str = "") -> RenderingFailed:
        leaf = progress_memory.read(self._progress)
        where = f" at {leaf}" if leaf else ""
        return RenderingFailed(f"{problem}{where}{detail}", cap=cap, leaf=leaf)

    def _spent_s(self) -> float:
        """Give the processor time of the process so far, as proc_pid_stat(5) counts it.

        Where the kernel does not report it (macOS), the clock is taken.
        """
        try:
            stat = (_PROC / str(self.pid) / "stat").read_text(encoding="utf-8")
        except OSError as exc:
            if not (_PROC / "self" / "stat").exists():
                return asyncio.get_running_loop().time()
            raise self._died() from exc
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS
