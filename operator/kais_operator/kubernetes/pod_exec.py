"""The Containers port: logs, and commands over the API's WebSocket exec, in the background.

A pass never waits for a command: it is started here, runs in a thread's own event loop with its
time and size limits, and a later pass finds its end. What runs is forgotten when this process ends.
A command is started only by who leads, and those of a term end with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

import aiohttp

from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import Connection
from kais_operator.kubernetes.event_loop_thread import SideLoop
from kais_operator.kubernetes.pod_logs import KEPT_BYTES, MOST_BYTES, LogReader, Tail
from kais_operator.planning.container_results import Log, Process
from kais_operator.planning.plan import ObjectRef, RunInContainer
from kais_operator.ports import Clock
from kais_rendering.fair_share import FairShare, surplus

_WORDS_BYTES = 2048
_AT_ONCE, _MOST = 128, 8
"""Commands at a time, in all and of one namespace: some that hang leave room for everybody else."""
_KEPT = 128
"""Ends of commands, with their output; an arbitrary number that bounds memory to 32 MiB."""
_PROTOCOL = "v4.channel.k8s.io"
_OUT, _ERR, _STATUS = 1, 2, 3


class _Command:
    """One command; its thread sets the attributes, and a pass reads them.

    Attributes:
        found: how it stands, and its standard output once it ended.
        is_void: it was not started, as the Lease was lost while it waited for its turn.
    """

    def __init__(self) -> None:
        self.found: tuple[Process, str] = (Process(), "")
        self.is_void = False
        self.running: Future[None] | None = None

    @property
    def is_over(self) -> bool:
        process, _ = self.found
        return self.is_void or process.ended_at is not None or process.failure is not None


class ApiContainers:
    """Reads logs and runs commands over one connection; `close` ends what runs."""

    def __init__(self, connection: Connection, *, leads: Callable[[], bool], clock: Clock) -> None:
        self._connection = connection
        self._leads = leads
        self._clock = clock
        self._side = SideLoop("containers")
        self._twin = connection.twin()
        self._logs = LogReader(connection, self._twin, self._side)
        self._share = FairShare(_AT_ONCE, most=_MOST)
        self._commands: dict[tuple[ObjectRef, str], _Command] = {}

    def log(self, pod: ObjectRef, container: str) -> Log | None:
        """Give the end of a container's log, both streams; None while it is read."""
        return self._logs.take(pod, container)

    def run(self, command: RunInContainer) -> None:
        """Start a command in the background; nothing happens when its key is known.

        Raises:
            NotLeading: the Lease is lost; nothing was started.
        """
        self._require_lead(command)
        known = self._commands.get((command.mission, command.key))
        if known is not None and not known.is_void:
            return
        self._forget_old()
        started = self._commands[(command.mission, command.key)] = _Command()
        self._connection.requests["connect"] += 1
        started.running = self._side.submit(self._run(command, started))

    def found(self, mission: ObjectRef, key: str) -> tuple[Process, str] | None:
        """Give how a started command stands, and its standard output so far as it ended."""
        known = self._commands.get((mission, key))
        return known.found if known is not None and not known.is_void else None

    def is_running(self, mission: ObjectRef) -> bool:
        """Whether a command of a mission has not ended."""
        return any(
            owner == mission and not command.is_over
            for (owner, _), command in self._commands.items()
        )

    def end_commands(self, mission: ObjectRef) -> None:
        """End the commands of a mission and forget them."""
        self._end([key for key in self._commands if key[0] == mission])

    def end_all(self) -> None:
        """End all commands and forget them."""
        self._end(list(self._commands))

    async def close(self) -> None:
        """End what runs here; processes in containers are not ended by that."""
        self.end_all()
        await self._side.close(last=self._twin.close())

    def _end(self, keys: list[tuple[ObjectRef, str]]) -> None:
        for key in keys:
            command = self._commands.pop(key)
            if command.running is not None:
                command.running.cancel()

    def _require_lead(self, command: RunInContainer) -> None:
        if not self._leads():
            raise errors.NotLeading(f"the Lease is lost; no command was run in {command.pod}")

    def _forget_old(self) -> None:
        """Keep the latest ends only; they are judged within a second or two."""
        ended = [key for key, command in self._commands.items() if command.is_over]
        for key in surplus(ended, limit=_KEPT, namespace=lambda key: key[0].namespace):
            del self._commands[key]

    async def _run(self, command: RunInContainer, started: _Command) -> None:
        async with self._share.turn(command.pod.namespace):
            if not self._leads():
                started.is_void = True
                return
            began = self._clock.now()
            started.found = (Process(began), "")
            heard = _Heard()
            try:
                async with asyncio.timeout(command.timeout_s):
                    await self._hear(command, heard)
            except TimeoutError:
                words = f"it did not end within {command.timeout_s:.0f} s"
                started.found = (Process(began, failure=words), "")
                return
            except errors.ClusterError as exc:
                started.found = (Process(began, failure=str(exc)), "")
                return
            process = heard.process(began=began, ended=self._clock.now())
            started.found = (process, "" if process.failure else heard.text())

    async def _hear(self, command: RunInContainer, heard: _Heard) -> None:
        query = [("container", command.container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", text) for text in command.argv]
        path = f"{api_paths.single(command.pod)}/exec"
        async with self._twin.socket(path, query=query, protocol=_PROTOCOL) as socket:
            async for frame in socket:
                if frame.type is not aiohttp.WSMsgType.BINARY or not frame.data:
                    continue
                heard.take(frame.data[0], frame.data[1:])
                if heard.is_over:
                    return


class _Heard:
    """What came over one socket: the end of each stream, and the status that ends it."""

    def __init__(self) -> None:
        self._out, self._err = Tail(KEPT_BYTES), Tail(_WORDS_BYTES)
        self._status: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is wanted."""
        return self._status is not None or self._is_too_much

    @property
    def _is_too_much(self) -> bool:
        return self._out.received + self._err.received > MOST_BYTES

    def take(self, channel: int, data: bytes) -> None:
        """Keep the end of what comes."""
        if channel == _STATUS:
            self._status = json.loads(data)
        elif channel == _OUT:
            self._out.add(data)
        elif channel == _ERR:
            self._err.add(data)

    def text(self) -> str:
        """Give the standard output."""
        return self._out.text()

    def process(self, *, began: datetime, ended: datetime) -> Process:
        """Read the status: how the command ended, or why it could not be started."""
        if self._status is None:
            why = "the connection ended before the command did"
            if self._is_too_much:
                why = f"it printed more than {MOST_BYTES // 2**20} MiB and was given up on"
            return Process(began, failure=why)
        words = self._err.text() or self._out.text(last=_WORDS_BYTES)
        if self._status.get("status") == "Success":
            return Process(began, ended, 0, words)
        causes = (self._status.get("details") or {}).get("causes") or ()
        codes = [cause.get("message") for cause in causes if cause.get("reason") == "ExitCode"]
        if not codes:
            return Process(began, failure=str(self._status.get("message") or "it did not run"))
        return Process(began, ended, int(codes[0]), words)
