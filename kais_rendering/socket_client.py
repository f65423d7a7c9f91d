"""The client of a `RenderServer`, used in place of a `RenderPool` in the same process.

The server may start later than the client, and may stop and start again. A request waits for the
server for a limited time, and is sent a second time if the server stops while it handles the
request. The client pings the server continuously, so that readiness reports an unreachable server
and a request fails at once when the server has been unreachable for long. Connections stay open
between requests. A connection that the server closed is replaced, which does not count as a failed
try.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from kais_rendering import framing, worker_pool
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.fair_share import FairShare
from kais_rendering.message_transport import Connection
from kais_rendering.socket_server import IDLE_S, PING
from kais_rendering.worker_handle import Answer

GRACE_S = 10.0
"""How long a request waits for an unreachable server; a restart takes less."""
ANSWER_S = worker_pool.LONGEST_ANSWER_S + worker_pool.LIMIT_S * worker_pool.PATIENCE
"""How long a request waits for its answer: the maximum for it and one earlier request."""
_REUSE_S = IDLE_S / 2  # so that the server never closes a connection that is about to be used
_CONNECTIONS = 64  # arbitrary, far more than workers; further requests wait here, by namespace
_TRIES = 2  # on new connections
_PING_S = 5.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.05, 2.0
_CONNECTION_LOST = (OSError, framing.BadFrame, TimeoutError)
_LOG = logging.getLogger(__name__)


class BadAnswer(framing.BadFrame):
    """The server sent an answer that the protocol does not have."""


class RenderClient:
    """The pool of the server at `socket`, with the methods of `pool.RenderPool`."""

    def __init__(
        self,
        socket: Path,
        *,
        grace_s: float = GRACE_S,
        answer_s: float = ANSWER_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = socket
        self._grace_s = grace_s
        self._answer_s = answer_s
        self._idle: list[tuple[Connection, float]] = []
        self._monotonic = monotonic
        self._share = FairShare(_CONNECTIONS)
        self._up = asyncio.Event()
        self._ping_now = asyncio.Event()
        self._away_since_s = monotonic()
        self._cause = "it has not been reached yet"
        self._pings: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to ping the server; has no effect if already started."""
        if self._pings is None:
            self._away_since_s = self._monotonic()
            self._pings = asyncio.create_task(self._ping_forever())

    async def close(self) -> None:
        """Stop pinging the server and close the idle connections."""
        if self._pings is not None:
            self._pings.cancel()
            await asyncio.gather(self._pings, return_exceptions=True)
        self._close_idle()

    def problem(self) -> str | None:
        """Return why nothing can be rendered; None while the server answers."""
        return None if self._up.is_set() else f"the renderer does not answer: {self._cause}"

    async def ask(self, request: bytes, *, namespace: str) -> Answer:
        """Send a request of a namespace to the server and return the answer.

        Raises:
            RenderingFailed: The request exceeded a limit, or the server stopped twice while
                handling it.
            RendererUnavailable: The server was unreachable for the grace period, did not answer in
                time,
                or cannot answer because of a problem that the request did not cause.
        """
        await self.start()
        async with self._share.turn(namespace):
            connection = self._take_idle()
            if connection is not None:
                try:
                    return await self._exchange(connection, namespace, request)
                except (
                    _CONNECTION_LOST
                ) as exc:  # perhaps before the server got the request, so it is sent again
                    self._note_away(exc)
            return await self._ask_anew(namespace, request)

    async def _ask_anew(self, namespace: str, request: bytes) -> Answer:
        """Send a request on a new connection, and once more if the server stops meanwhile.

        Raises:
            RenderingFailed: The request exceeded a limit, or the server stopped twice while
                handling it.
            RendererUnavailable: The server is unreachable, did not answer in time, or cannot
                answer.
        """
        failures = 0
        while True:
            await self._wait_for_server()
            try:
                connection = await self._connect()
            except OSError as exc:
                self._note_away(exc)
                continue
            try:
                return await self._exchange(connection, namespace, request)
            except _CONNECTION_LOST as exc:
                self._note_away(exc)
                failures += 1
                if failures == _TRIES:
                    message = "the renderer ended while this was rendered, twice"
                    raise RenderingFailed(message, cap="worker") from exc

    async def _wait_for_server(self) -> None:
        left_s = self._away_since_s + self._grace_s - self._monotonic()
        try:
            async with asyncio.timeout(None if self._up.is_set() else max(0.0, left_s)):
                await self._up.wait()
        except TimeoutError:
            raise RendererUnavailable(self.problem() or "the renderer does not answer") from None

    def _take_idle(self) -> Connection | None:
        """Return the idle connection used last, unless the server closed it or soon will."""
        while self._idle:
            connection, idle_since_s = self._idle.pop()
            if connection.is_idle and self._monotonic() - idle_since_s < _REUSE_S:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_unix_connection(
            Connection, str(self._socket)
        )
        return connection

    async def _exchange(self, connection: Connection, namespace: str, request: bytes) -> Answer:
        """Send a request and read its answer; close the connection if the caller is cancelled.

        Raises:
            RenderingFailed: The answer is a failure.
            RendererUnavailable: The answer reports a problem of the server, comes too late, or has
                an
                unknown shape.
            OSError, BadFrame: The server closed the connection.
        """
        is_sound = False
        limit = asyncio.timeout(self._answer_s)
        try:
            async with limit:
                payload = await _exchange(connection, namespace.encode(), request)
            is_sound = True
        except TimeoutError as exc:
            if not limit.expired():
                raise
            message = f"the renderer gave no answer within {self._answer_s:g} s"
            raise RendererUnavailable(message) from exc
        finally:
            if is_sound:
                self._idle.append((connection, self._monotonic()))
            else:
                connection.close()
        try:
            return _read_answer(payload)
        except BadAnswer as exc:
            raise RendererUnavailable(f"the renderer does not answer: {exc}") from exc

    def _close_idle(self) -> None:
        while self._idle:
            connection, _ = self._idle.pop()
            connection.close()

    async def _ping_forever(self) -> None:
        retry_s = _FIRST_RETRY_S
        while True:
            self._ping_now.clear()
            if await self._ping():
                self._up.set()
                retry_s = _FIRST_RETRY_S
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PING_S):
                        await self._ping_now.wait()
            else:
                await asyncio.sleep(retry_s)
                retry_s = min(_LONGEST_RETRY_S, 2 * retry_s)

    async def _ping(self) -> bool:
        try:
            async with asyncio.timeout(_PING_S):
                connection = await self._connect()
                try:
                    _read_answer(await _exchange(connection, PING))
                finally:
                    connection.close()
        except _CONNECTION_LOST as exc:
            self._note_away(exc)
            return False
        except Exception as exc:  # noqa: BLE001 - readiness and every request wait for the pings
            _LOG.exception("the renderer could not be pinged")
            self._note_away(exc)
            return False
        return True

    def _note_away(self, exc: Exception) -> None:
        if self._up.is_set():
            self._away_since_s = self._monotonic()
        self._up.clear()
        self._close_idle()
        self._cause = str(exc) or "no answer in time"
        self._ping_now.set()


async def _exchange(connection: Connection, *messages: bytes) -> bytes:
    connection.send(*messages)
    await connection.drain()
    payload = await connection.receive(max_bytes=framing.MAX_BYTES)
    if payload is None:
        raise framing.BadFrame("the renderer hung up")
    return payload


def _read_answer(payload: bytes) -> Answer:
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError) as exc:
        raise BadAnswer("its answer is not JSON") from exc
    match answer:
        case {"done": dict(result)}:
            return result
        case {"unavailable": str(message)}:
            raise RendererUnavailable(message)
        case {
            "failed": str(message),
            "cap": "time" | "memory" | "worker" as cap,
            "leaf": str(leaf),
        }:
            raise RenderingFailed(message, cap=cap, leaf=leaf)
    raise BadAnswer("its answer has no known shape")
