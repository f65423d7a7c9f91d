"""One render process: started without environment, killed when it exceeds a limit.

Its time limit counts processor time. On a busy machine, or while the caller's event loop is busy,
time passes in which the template does not run, and a valid Blueprint must not fail because of
that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from kais_rendering import framing, progress_memory
from kais_rendering.errors import Cap, RenderingFailed
from kais_rendering.message_transport import Connection

Answer = dict[str, Any]

START_S = 30
"""How long a worker may take to import, on a busy machine."""
_PROC = Path("/proc")
_STAT_BYTES = 1024  # arbitrary, more than the fields of stat need
_TICKS = os.sysconf("SC_CLK_TCK")  # clock ticks per second in `/proc`


class RenderProcess:
    """One process. Run one request at a time; after a failure only `kill` may be called.

    Attributes:
        is_confined: Whether it can read only Python's files; set when it is ready.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, connection: Connection, progress: mmap.mmap
    ) -> None:
        self._process = process
        self._connection = connection
        self._processor_time = ProcessorTime(process.pid)
        self._progress = progress
        self._is_ready = False
        self.is_confined = False

    @classmethod
    async def start(cls, *, memory_mib: int) -> RenderProcess:
        """Start a process without environment; `ready` waits for its imports."""
        fd = progress_memory.open_shared()
        own_end, workers_end = socket.socketpair()
        try:
            progress = progress_memory.map_shared(fd)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "kais_rendering.worker_program"),
                *("--memory-mib", str(memory_mib), "--progress-fd", str(fd)),
                stdin=workers_end.fileno(),
                stdout=workers_end.fileno(),
                stderr=asyncio.subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                pass_fds=(fd,),
            )
            loop = asyncio.get_running_loop()
            _, connection = await loop.connect_accepted_socket(Connection, own_end)
        except BaseException:
            own_end.close()
            raise
        finally:
            workers_end.close()
            os.close(fd)
        return cls(process, connection, progress)

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not been seen to end."""
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait until the imports are done; their time does not count for a request.

        Raises:
            RenderingFailed: The process did not start, or not in time.
        """
        if self._is_ready:
            return
        try:
            answer = await asyncio.wait_for(self._receive(), START_S)
        except TimeoutError as exc:
            message = f"the render worker was not ready within {START_S} s"
            raise RenderingFailed(message, cap="worker") from exc
        self._is_ready = True
        self.is_confined = bool(answer["confined"])

    async def ask(self, request: bytes, *, limit_s: float, elapsed_s: float) -> Answer:
        """Send one request and read its answer.

        Args:
            request: The request, as JSON.
            limit_s: Limit of processor time, in seconds.
            elapsed_s: Limit of elapsed time, in seconds, for a process that gets no processor.

        Raises:
            RenderingFailed: The request exceeded a time limit, or the process died.
        """
        began_s = self._spent_s()
        clock = asyncio.get_running_loop().time
        end_s = clock() + elapsed_s
        self._connection.send(request)
        left_s = limit_s
        while left_s > 0:
            try:
                async with asyncio.timeout(min(left_s, end_s - clock())):
                    return await self._receive()
            except TimeoutError:
                if clock() >= end_s:
                    message = f"rendering got no processor for {elapsed_s:g} s"
                    raise self._failed(message, "time") from None
            left_s = limit_s - (self._spent_s() - began_s)
        raise self._failed(f"rendering took more than {limit_s:g} s", "time")

    def failure(self, answer: Answer, *, memory_mib: int) -> RenderingFailed:
        """Return the error for the answer of a failed request, with the leaf where it failed."""
        if "cap" in answer:
            return self._failed(f"rendering took more than {memory_mib} MiB of memory", "memory")
        return self._failed("rendering failed", "worker", detail=f": {answer['failed']}")

    async def kill(self) -> None:
        """Kill the process, whatever it does, and reap it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._connection.close()
        self._processor_time.close()
        self._progress.close()

    async def _receive(self) -> Answer:
        """Wait for an answer; after a cancellation it can be called again.

        Raises:
            RenderingFailed: The process died.
        """
        try:
            await self._connection.drain()
            payload = await self._connection.receive(max_bytes=framing.MAX_BYTES)
        except (framing.BadFrame, OSError) as exc:
            raise self._died() from exc
        if payload is None:
            raise self._died()
        answer: Answer = json.loads(payload)
        return answer

    def _died(self) -> RenderingFailed:
        return self._failed("the render worker died", "worker")

    def _failed(self, problem: str, cap: Cap, *, detail: str = "") -> RenderingFailed:
        leaf = progress_memory.read(self._progress)
        location = f" at {leaf}" if leaf else ""
        if cap == "time" and leaf.startswith("parameter "):
            location += ": its pattern does not end on this value; make the pattern simpler"
        return RenderingFailed(f"{problem}{location}{detail}", cap=cap, leaf=leaf)

    def _spent_s(self) -> float:
        try:
            return self._processor_time.read_s()
        except OSError as exc:
            raise self._died() from exc


class ProcessorTime:
    """The processor time that a process has used, as in proc_pid_stat(5).

    Where the kernel does not report it (macOS), elapsed time is used.
    """

    def __init__(self, pid: int) -> None:
        self._has_proc = (_PROC / "self" / "stat").exists()
        self._fd: int | None = None
        if self._has_proc:
            with contextlib.suppress(FileNotFoundError):  # it has ended: `read_s` reports that
                self._fd = os.open(_PROC / str(pid) / "stat", os.O_RDONLY)

    def read_s(self) -> float:
        """Return the time in seconds.

        Raises:
            OSError: The process has ended.
        """
        if not self._has_proc:
            return time.monotonic()
        if self._fd is None:
            raise ProcessLookupError("the process has ended")
        stat = os.pread(self._fd, _STAT_BYTES, 0)
        user, system = stat.rpartition(b")")[2].split(None, 13)[11:13]
        return (int(user) + int(system)) / _TICKS

    def close(self) -> None:
        """Close the file of `/proc`."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
