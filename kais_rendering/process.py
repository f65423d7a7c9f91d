"""One process that renders: started without environment, asked a line at a time, killed.

Its time is counted as the processor time that it takes. On a machine that is busy, or while the
operator's own loop is, time goes by in which nothing of the template ran; a good Blueprint must
not be called bad for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import sys
from pathlib import Path
from typing import Any

from msgspec import json

from kais_rendering import errors, progress_memory

Answer = dict[str, Any]

_LINE_BYTES = 16 * 2**20  # an answer is a capped output and its report, far below
_START_S = 30  # importing on a busy machine
_PATIENCE = 10  # times the limit, for a process that got no processor; then it is given up
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")  # a second, of `/proc`


class RenderProcess:
    """One process. Use it for one request at a time; after a failure only `kill` is left.

    Attributes:
        is_confined: Whether it can read no file but Python's own, once it is ready.
    """

    def __init__(self, process: asyncio.subprocess.Process, place: mmap.mmap) -> None:
        self._process = process
        self._place = place
        self._is_ready = False
        self.is_confined = False

    @classmethod
    async def start(cls, *, memory_mib: int) -> RenderProcess:
        """Start a process without environment; it is imported and ready some time later."""
        fd = progress_memory.open_shared()
        try:
            place = progress_memory.share(fd)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "kais_rendering.worker"),
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
            answer = await asyncio.wait_for(self._read(), _START_S)
        except TimeoutError as exc:
            message = f"the render worker was not ready within {_START_S} s"
            raise errors.RenderingFailed(message, cap="worker") from exc
        self._is_ready = True
        self.is_confined = bool(answer["confined"])

    async def ask(self, line: bytes, *, limit_s: float) -> Answer:
        """Send one request and read its answer.

        Args:
            line: The request.
            limit_s: Seconds of processor time; ten times as many may go by on the clock.

        Raises:
            RenderingFailed: The time ran out, or the process died.
        """
        began_s = self._spent_s()
        answer = asyncio.ensure_future(self._exchange(line))
        try:
            async with asyncio.timeout(limit_s * _PATIENCE):
                left_s = limit_s
                while left_s > 0:
                    await asyncio.wait([answer], timeout=left_s)
                    if answer.done():
                        return answer.result()
                    left_s = limit_s - (self._spent_s() - began_s)
        except TimeoutError:
            message = f"rendering got no processor for {limit_s * _PATIENCE:g} s{self._where()}"
            raise errors.RenderingFailed(message, cap="time") from None
        finally:
            answer.cancel()
        message = f"rendering took more than {limit_s:g} s{self._where()}"
        raise errors.RenderingFailed(message, cap="time")

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
        leaf = progress_memory.read(self._place)
        return f" at {leaf}" if leaf else ""

    def _spent_s(self) -> float:
        """Give the processor time of the process so far, as proc_pid_stat(5) counts it.

        Where the kernel does not tell it (macOS), the clock is taken.
        """
        try:
            told = (_PROC / str(self.pid) / "stat").read_text(encoding="utf-8")
        except OSError as exc:
            if not (_PROC / "self" / "stat").exists():
                return asyncio.get_running_loop().time()
            raise self._died() from exc
        user, system = told.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS
