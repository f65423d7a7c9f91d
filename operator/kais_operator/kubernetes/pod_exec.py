"""The Containers port: reads logs, and runs commands with exec over WebSockets.

A reconcile never waits for a command: the command runs in another thread's event loop, with limits
of time and size, and a later reconcile reads its result. Commands do not survive this process. Only
the leader starts commands, and they end with its session.
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
from kais_operator.kubernetes.api_client import ApiClient
from kais_operator.kubernetes.pod_logs import MAX_BYTES, TAIL_BYTES, LogReader, Tail
from kais_operator.kubernetes.stream_thread import StreamThread
from kais_operator.planning import container_results
from kais_operator.planning.container_results import Log, Process
from kais_operator.planning.plan import ObjectRef, RunInContainer
from kais_operator.ports import Clock
from kais_rendering.fair_share import FairShare, surplus

_MESSAGE_BYTES = 2048
_MAX_CONCURRENT, _MAX_PER_NAMESPACE = 128, 8
"""Concurrent commands, in total and per namespace, so that hanging ones leave room for others."""
_MAX_RESULTS = 128
"""Results that are kept, with their output; arbitrary, bounds memory to 32 MiB.

Those of commands that repeat come on top. There is one for each pod that works, and they end with
their missions.
"""
_PROTOCOL = "v4.channel.k8s.io"
_STDOUT, _STDERR, _EXIT_STATUS = 1, 2, 3


class _Command:
    """A command; its thread sets the attributes, and reconciles read them.

    Attributes:
        repeats: whether it is started again and again.
        result: its state, and its standard output once it has ended; that of the latest run that
            succeeded if it repeats.
        last_failure: why the run before it failed, if it repeats one.
        is_cancelled: it was not started, because the Lease was lost while it was queued.
    """

    def __init__(
        self, *, repeats: bool = False, previous: tuple[Process, str] | None = None
    ) -> None:
        self.repeats = repeats
        process, text = previous or (Process(), "")
        self.last_failure = process.problem
        self.result: tuple[Process, str] = (Process(last_failure=self.last_failure), text)
        self.is_cancelled = False
        self.running: Future[None] | None = None

    @property
    def is_over(self) -> bool:
        process, _ = self.result
        return self.is_cancelled or process.ended_at is not None or process.failure is not None


class ApiContainers:
    """Reads logs and runs commands; `close` ends them."""

    def __init__(
        self, api_client: ApiClient, *, is_leader: Callable[[], bool], clock: Clock
    ) -> None:
        self._api_client = api_client
        self._is_leader = is_leader
        self._clock = clock
        self._loop_thread = StreamThread("containers")
        self._stream_client = api_client.clone()
        self._logs = LogReader(api_client, self._stream_client, self._loop_thread)
        self._share = FairShare(_MAX_CONCURRENT, max_per_namespace=_MAX_PER_NAMESPACE)
        self._commands: dict[tuple[ObjectRef, str], _Command] = {}

    def read_log(self, pod: ObjectRef, container: str) -> Log | None:
        """Return the end of a container's log, both streams; None while it is being read."""
        return self._logs.pop_or_start(pod, container)

    def start_command(self, command: RunInContainer) -> None:
        """Start a command in the background, unless its key has been started.

        Raises:
            NotLeading: the Lease is lost; nothing was started.
        """
        self._require_leadership(command)
        previous = self._commands.get((command.mission, command.key))
        is_started = previous is not None and not previous.is_cancelled
        if previous is not None and is_started and not (command.repeats and previous.is_over):
            return
        self._drop_old_results()
        state = _Command(
            repeats=command.repeats, previous=previous.result if previous is not None else None
        )
        self._commands[(command.mission, command.key)] = state
        self._api_client.requests["connect", "pods"] += 1
        state.running = self._loop_thread.submit(self._run(command, state))

    def result_of(self, mission: ObjectRef, key: str) -> tuple[Process, str] | None:
        """Return the state of a started command, and its standard output once it has ended."""
        command = self._commands.get((mission, key))
        return command.result if command is not None and not command.is_cancelled else None

    def is_running(self, mission: ObjectRef) -> bool:
        """Return whether a command of a mission is still running, or one repeats."""
        return any(
            owner == mission and (command.repeats or not command.is_over)
            for (owner, _), command in self._commands.items()
        )

    def end_commands(self, mission: ObjectRef) -> None:
        """End the commands of a mission, and drop their results."""
        self._end([key for key in self._commands if key[0] == mission])

    def end_all(self) -> None:
        """End all commands, and drop their results."""
        self._end(list(self._commands))

    async def close(self) -> None:
        """End all commands here; their processes in containers continue."""
        self.end_all()
        await self._loop_thread.close(cleanup=self._stream_client.close())

    def _end(self, keys: list[tuple[ObjectRef, str]]) -> None:
        for key in keys:
            command = self._commands.pop(key)
            if command.running is not None:
                command.running.cancel()

    def _require_leadership(self, command: RunInContainer) -> None:
        if not self._is_leader():
            raise errors.NotLeading(f"the Lease is lost; no command was run in {command.pod}")

    def _drop_old_results(self) -> None:
        """Keep the latest results only; they are evaluated within a second or two."""
        ended = [
            key
            for key, command in self._commands.items()
            if command.is_over and not command.repeats
        ]
        for key in surplus(ended, limit=_MAX_RESULTS, namespace=lambda key: key[0].namespace):
            del self._commands[key]

    async def _run(self, command: RunInContainer, state: _Command) -> None:
        async with self._share.turn(command.pod.namespace):
            if not self._is_leader():
                state.is_cancelled = True
                return
            started_at = self._clock.now()
            _, previous = state.result
            state.result = (Process(started_at, last_failure=state.last_failure), previous)
            process, text = await self._run_to_end(command, started_at)
            has_failed = process.problem is not None
            state.result = (process, previous if command.repeats and has_failed else text)

    async def _run_to_end(
        self, command: RunInContainer, started_at: datetime
    ) -> tuple[Process, str]:
        output = _ExecOutput()
        try:
            async with asyncio.timeout(command.timeout_s):
                await self._stream_exec(command, output)
        except TimeoutError:
            failure = f"it did not end within {command.timeout_s:.0f} s"
            return Process(started_at, failure=failure), ""
        except errors.ClusterError as exc:
            return _failed(started_at, str(exc)), ""
        process = output.process(started_at=started_at, ended_at=self._clock.now())
        return process, "" if process.failure else output.text()

    async def _stream_exec(self, command: RunInContainer, output: _ExecOutput) -> None:
        query = [("container", command.container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", text) for text in command.argv]
        path = f"{api_paths.single(command.pod)}/exec"
        async with self._stream_client.open_websocket(
            path, query=query, protocol=_PROTOCOL
        ) as socket:
            async for frame in socket:
                if frame.type is not aiohttp.WSMsgType.BINARY or not frame.data:
                    continue
                output.add(frame.data[0], frame.data[1:])
                if output.is_over:
                    return


def _failed(started_at: datetime, message: str) -> Process:
    is_missing = container_results.is_program_missing(message)
    return Process(started_at, failure=message, is_program_missing=is_missing)


class _ExecOutput:
    """The output of one exec: the tail of each stream, and the exit status."""

    def __init__(self) -> None:
        self._stdout, self._stderr = Tail(TAIL_BYTES), Tail(_MESSAGE_BYTES)
        self._status: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the output is complete or too long."""
        return self._status is not None or self._is_too_long

    @property
    def _is_too_long(self) -> bool:
        return self._stdout.received + self._stderr.received > MAX_BYTES

    def add(self, channel: int, data: bytes) -> None:
        """Add the data of one frame."""
        if channel == _EXIT_STATUS:
            self._status = json.loads(data)
        elif channel == _STDOUT:
            self._stdout.add(data)
        elif channel == _STDERR:
            self._stderr.add(data)

    def text(self) -> str:
        """Return the standard output."""
        return self._stdout.text()

    def process(self, *, started_at: datetime, ended_at: datetime) -> Process:
        """Return how the command ended, or why it could not be started."""
        if self._status is None:
            failure = "the connection ended before the command did"
            if self._is_too_long:
                failure = f"it printed more than {MAX_BYTES // 2**20} MiB and was stopped"
            return Process(started_at, failure=failure)
        message = self._stderr.text() or self._stdout.text(limit=_MESSAGE_BYTES)
        if self._status.get("status") == "Success":
            return Process(started_at, ended_at, 0, message)
        causes = (self._status.get("details") or {}).get("causes") or ()
        codes = [cause.get("message") for cause in causes if cause.get("reason") == "ExitCode"]
        if not codes:
            return _failed(started_at, str(self._status.get("message") or "it did not run"))
        return Process(started_at, ended_at, int(codes[0]), message)
