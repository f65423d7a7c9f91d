"""Asks a `RenderServer`, in place of a pool of one's own.

The server may come later, go, and come again: a request waits for it a while, and is sent a second
time when the server ended over it. Whether it is there is tried all the time, so that readiness can
tell and a request fails at once when it has been away for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from kais_rendering import framing
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.fair_share import FairShare
from kais_rendering.process import Answer
from kais_rendering.server import PING

GRACE_S = 10.0
"""So long a request waits for a server that is away; a restart takes less."""
_CONNECTIONS = 64  # arbitrary, far more than workers; what exceeds it waits here, by namespace
_PING_S = 5.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.05, 2.0
_GONE = (OSError, framing.BadFrame, TimeoutError)
_LOG = logging.getLogger(__name__)


class BadAnswer(framing.BadFrame):
    """The server answered something else than its protocol has."""


class RenderClient:
    """The pool of the server at `socket`, with the methods of `pool.RenderPool`."""

    def __init__(
        self,
        socket: Path,
        *,
        grace_s: float = GRACE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = socket
        self._grace_s = grace_s
        self._monotonic = monotonic
        self._share = FairShare(_CONNECTIONS)
        self._up = asyncio.Event()
        self._ping_now = asyncio.Event()
        self._away_since_s = monotonic()
        self._cause = "it has not been reached yet"
        self._pings: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look for the server; repeating it does nothing."""
        if self._pings is None:
            self._away_since_s = self._monotonic()
            self._pings = asyncio.create_task(self._ping_forever())

    async def close(self) -> None:
        """Look for the server no longer."""
        if self._pings is not None:
            self._pings.cancel()
            await asyncio.gather(self._pings, return_exceptions=True)

    def problem(self) -> str | None:
        """Say why nothing can be rendered; None while the server answers."""
        return None if self._up.is_set() else f"the renderer does not answer: {self._cause}"

    async def ask(self, request: bytes, *, namespace: str) -> Answer:
        """Have one request of a namespace answered.

        Raises:
            RenderingFailed: A limit was passed, or the server ended over the request, twice.
            RendererUnavailable: The server has been away for the grace, or it cannot tell an answer
                for a reason of its own.
        """
        await self.start()
        async with self._share.turn(namespace):
            is_second = False
            while True:
                await self._wait_for_server()
                connection = await self._connect()
                if connection is None:
                    continue
                try:
                    return await _exchange(*connection, namespace.encode(), request)
                except BadAnswer as exc:
                    raise RendererUnavailable(f"the renderer does not answer: {exc}") from exc
                except _GONE as exc:
                    self._note_away(exc)
                    if is_second:
                        message = "the renderer ended while this was rendered, twice"
                        raise RenderingFailed(message, cap="worker") from exc
                    is_second = True

    async def _wait_for_server(self) -> None:
        left_s = self._away_since_s + self._grace_s - self._monotonic()
        try:
            async with asyncio.timeout(None if self._up.is_set() else max(0.0, left_s)):
                await self._up.wait()
        except TimeoutError:
            raise RendererUnavailable(self.problem() or "the renderer does not answer") from None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            return await asyncio.open_unix_connection(self._socket)
        except OSError as exc:
            self._note_away(exc)
            return None

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
                connection = await asyncio.open_unix_connection(self._socket)
                await _exchange(*connection, PING, None)
        except _GONE as exc:
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
        self._cause = str(exc) or "no answer in time"
        self._ping_now.set()


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    namespace: bytes,
    request: bytes | None,
) -> Answer:
    """Send a request and read its answer; a cancelled caller hangs up.

    Raises:
        RenderingFailed: The answer is a failure.
        RendererUnavailable: The answer is a trouble of the server's own.
        BadAnswer: The answer is of no known shape.
        OSError, BadFrame: The server is gone.
    """
    try:
        writer.write(
            framing.frame(namespace) + (b"" if request is None else framing.frame(request))
        )
        await writer.drain()
        payload = await framing.read(reader, max_bytes=framing.MAX_BYTES)
    finally:
        writer.close()
    if payload is None:
        raise framing.BadFrame("the renderer hung up")
    return _read_answer(payload)


def _read_answer(payload: bytes) -> Answer:
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError) as exc:
        raise BadAnswer("its answer is no JSON") from exc
    match answer:
        case {"done": dict(done)}:
            return done
        case {"unavailable": str(words)}:
            raise RendererUnavailable(words)
        case {"failed": str(words), "cap": "time" | "memory" | "worker" as cap, "leaf": str(leaf)}:
            raise RenderingFailed(words, cap=cap, leaf=leaf)
    raise BadAnswer("its answer has no known shape")
