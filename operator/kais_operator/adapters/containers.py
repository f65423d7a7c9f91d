"""The Containers port: logs, and commands over the API's WebSocket exec, in the background.

A pass never waits for a command: it is started here, runs as a task of its own with its time and
size limits, and a later pass finds its end. What runs is forgotten when this process ends.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from datetime import datetime
from typing import Any

import aiohttp

from kais_operator import errors
from kais_operator.adapters import api_paths
from kais_operator.adapters.connection import Connection
from kais_operator.adapters.container_logs import KEPT_BYTES, MOST_BYTES, LogReader
from kais_operator.adapters.side_loop import SideLoop
from kais_operator.decide.missions.checks import Log, Process
from kais_operator.decide.plan import ObjectRef, RunInContainer
from kais_operator.ports import Clock

_WORDS_BYTES = 2048
_AT_ONCE = 32
_KEPT = 128
"""Ends of commands, with their output; an arbitrary number that bounds memory to 32 MiB."""
_PROTOCOL = "v4.channel.k8s.io"
_OUT, _ERR, _STATUS = 1, 2, 3


class ApiContainers:
    """Reads logs and runs commands over one connection; `close` ends what runs."""

    def __init__(self, connection: Connection, *, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._side = SideLoop("containers")
        self._twin = connection.twin()
        self._logs = LogReader(connection, self._twin, self._side)
        self._known: OrderedDict[str, tuple[Process, str]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_AT_ONCE)

    def log(self, pod: ObjectRef, container: str) -> Log | None:
        """Give the end of a container's log, both streams; None while it is read."""
        return self._logs.take(pod, container)

    def run(self, command: RunInContainer) -> None:
        """Start a command in the background; nothing happens when its key is known."""
        if command.key in self._known:
            return
        self._known[command.key] = (Process(), "")
        self._forget_old()
        task = asyncio.create_task(self._run(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def found(self, key: str) -> tuple[Process, str] | None:
        """Give how a started command stands, and its standard output so far as it ended."""
        return self._known.get(key)

    def _forget_old(self) -> None:
        """Keep the latest ends only; they are judged within a second or two."""
        ended = [key for key, (process, _) in self._known.items() if _is_over(process)]
        for key in ended[:-_KEPT]:
            del self._known[key]

    async def close(self) -> None:
        """End what runs here; processes in containers are not ended by that."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._side.close(last=self._twin.close())

    async def _run(self, command: RunInContainer) -> None:
        async with self._room:
            began = self._clock.now()
            self._known[command.key] = (Process(began), "")
            heard = _Heard()
            try:
                async with asyncio.timeout(command.timeout_s):
                    await self._hear(command, heard)
            except TimeoutError:
                words = f"it did not end within {command.timeout_s:.0f} s"
                self._known[command.key] = (Process(began, failure=words), "")
                return
            except errors.ClusterError as exc:
                self._known[command.key] = (Process(began, failure=str(exc)), "")
                return
            process = heard.process(began=began, ended=self._clock.now())
            self._known[command.key] = (process, "" if process.failure else heard.text())

    async def _hear(self, command: RunInContainer, heard: _Heard) -> None:
        query = [("container", command.container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", text) for text in command.argv]
        path = f"{api_paths.single(command.pod)}/exec"
        async with self._connection.socket(path, query=query, protocol=_PROTOCOL) as socket:
            async for frame in socket:
                if frame.type is not aiohttp.WSMsgType.BINARY or not frame.data:
                    continue
                heard.take(frame.data[0], frame.data[1:])
                if heard.is_over:
                    return


def _is_over(process: Process) -> bool:
    return process.ended_at is not None or process.failure is not None


class _Heard:
    """What came over one socket: the end of each stream, and the status that ends it."""

    def __init__(self) -> None:
        self._streams = {_OUT: bytearray(), _ERR: bytearray()}
        self._status: dict[str, Any] | None = None
        self._bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is wanted."""
        return self._status is not None or self._bytes > MOST_BYTES

    def take(self, channel: int, data: bytes) -> None:
        """Keep the end of what comes."""
        if channel == _STATUS:
            self._status = json.loads(data)
        elif channel in self._streams:
            self._bytes += len(data)
            stream = self._streams[channel]
            stream += data
            del stream[: max(0, len(stream) - KEPT_BYTES)]

    def text(self) -> str:
        """Give the standard output."""
        return self._streams[_OUT].decode("utf-8", "replace")

    def process(self, *, began: datetime, ended: datetime) -> Process:
        """Read the status: how the command ended, or why it could not be started."""
        if self._status is None:
            why = "the connection ended before the command did"
            if self._bytes > MOST_BYTES:
                why = f"it printed more than {MOST_BYTES // 2**20} MiB and was given up on"
            return Process(began, failure=why)
        said = bytes(self._streams[_ERR] or self._streams[_OUT])[-_WORDS_BYTES:]
        words = said.decode("utf-8", "replace")
        if self._status.get("status") == "Success":
            return Process(began, ended, 0, words)
        causes = (self._status.get("details") or {}).get("causes") or ()
        codes = [cause.get("message") for cause in causes if cause.get("reason") == "ExitCode"]
        if not codes:
            return Process(began, failure=str(self._status.get("message") or "it did not run"))
        return Process(began, ended, int(codes[0]), words)
