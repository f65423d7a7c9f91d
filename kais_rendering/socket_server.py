"""Serve a pool of workers on a Unix socket, to callers that run as another user.

A connection carries requests in sequence: a message with the namespace, one with the request, then
the answer. A caller cancels its request by closing the connection. A ping is the last message of
its connection. The permissions of the socket decide who may connect: its owner and its group. The
workers run as its owner, so where callers are another user the owner may only ping. A template
that takes over its worker can therefore neither send requests nor use up the callers' slots.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket as sockets
import stat
import struct
from pathlib import Path
from typing import Any, Protocol

from kais_rendering import framing
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.message_transport import Connection
from kais_rendering.worker_handle import Answer

PING = b""
"""Sent in place of a namespace: answered at once, without a worker and without a second message."""
MAX_REQUEST_BYTES = 16 * 2**20
IDLE_S = 120.0
"""How long a connection stays open without a request."""
_NAMESPACE_BYTES = 253
_RIGHTS = 0o660
_OWN_CONNECTIONS = 4  # arbitrary: the kubelet's probe is one
_CREDENTIALS = struct.Struct("3i")  # process, user and group, as in unix(7)
_LOG = logging.getLogger(__name__)


class Pool(Protocol):
    """Answers requests; `pool.RenderPool` is the implementation."""

    async def start(self) -> None:
        """Start the workers."""

    async def close(self) -> None:
        """Stop the workers."""

    async def ask(self, request: bytes, *, namespace: str) -> Answer:
        """Run a request and return the answer.

        Raises:
            RenderingFailed: The request exceeded a limit, or its worker died.
        """
        ...


class RenderServer:
    """Listens on `socket`.

    `transfer_s` limits how long a caller may take to send its request or to read the answer.
    `max_connections` limits how many callers are connected at a time; further connections are
    closed, and those callers try again. A connection without requests is closed after `idle_s`;
    its first request must arrive within `transfer_s`. With `own_user_pings_only`, which requires
    Linux, this process's user may only ping, on a few additional connections.
    """

    def __init__(
        self,
        pool: Pool,
        socket: Path,
        *,
        transfer_s: float = 10.0,
        idle_s: float = IDLE_S,
        max_connections: int = 256,
        own_user_pings_only: bool = False,
    ) -> None:
        self._pool = pool
        self._socket = socket
        self._transfer_s = transfer_s
        self._idle_s = idle_s
        self._max_connections = max_connections
        self._own_user_pings_only = own_user_pings_only
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._own_connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the workers and listen; replaces the socket of an earlier server.

        Raises:
            OSError: The path cannot be listened on, or another file exists there.
        """
        await self._pool.start()
        _remove_socket(self._socket)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: Connection(self._accept), self._socket)
        self._socket.chmod(_RIGHTS)

    async def close(self) -> None:
        """Close all connections and stop the workers."""
        if self._server is not None:
            self._server.close()
            _remove_socket(self._socket)
        connections = [*self._connections, *self._own_connections]
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await self._pool.close()

    def _accept(self, connection: Connection) -> None:
        pings_only = self._own_user_pings_only and _peer_uid(connection) == os.getuid()
        connections = self._own_connections if pings_only else self._connections
        if len(connections) >= (_OWN_CONNECTIONS if pings_only else self._max_connections):
            connection.transport.abort()
            return
        serving = asyncio.create_task(self._serve(connection, pings_only=pings_only))
        connections.add(serving)
        serving.add_done_callback(connections.discard)

    async def _serve(self, connection: Connection, *, pings_only: bool) -> None:
        try:
            wait_s = self._transfer_s
            while await self._serve_once(connection, wait_s=wait_s, pings_only=pings_only):
                wait_s = self._idle_s
        except (framing.BadFrame, TimeoutError, OSError) as exc:
            _LOG.info("a caller was hung up on: %s", str(exc) or "it was too slow")
        except Exception:  # noqa: BLE001 - what one caller causes must not go unnoticed
            _LOG.exception("a caller could not be served")
        finally:
            connection.close()
            await connection.wait_closed()

    async def _serve_once(self, connection: Connection, *, wait_s: float, pings_only: bool) -> bool:
        """Answer one request; False after a ping, or if the caller disconnected or was idle.

        Raises:
            BadFrame: The caller did not send exactly one request.
            OSError, TimeoutError: The caller closed the connection, or is too slow.
        """
        if not await connection.is_readable(within_s=wait_s):
            return False
        namespace = None
        answer: dict[str, Any]
        try:
            async with asyncio.timeout(self._transfer_s):
                namespace, request = await _receive(connection, pings_only=pings_only)
            answer = {"done": await self._ask_pool(connection, namespace, request)}
        except RenderingFailed as exc:
            answer = {"failed": str(exc), "cap": exc.cap, "leaf": exc.leaf}
        except RendererUnavailable as exc:
            answer = {"unavailable": str(exc)}
        connection.send(json.dumps(answer, separators=(",", ":")).encode())
        async with asyncio.timeout(self._transfer_s):
            await connection.drain()
        return namespace != PING

    async def _ask_pool(self, connection: Connection, namespace: bytes, request: bytes) -> Answer:
        """Run the request in the pool, unless the caller closes the connection meanwhile.

        Raises:
            BadFrame: The caller closed the connection, or sent more than one request.
            RenderingFailed: The request exceeded a limit.
            RendererUnavailable: The pool has a problem that the request did not cause.
        """
        if namespace == PING:
            return {}
        with connection.interrupting():
            try:
                return await self._pool.ask(request, namespace=namespace.decode())
            except RenderingFailed:
                raise
            except Exception as exc:
                _LOG.exception("a request could not be answered")
                message = f"the renderer does not render: {type(exc).__name__}: {exc}"
                raise RendererUnavailable(message) from exc


async def _receive(connection: Connection, *, pings_only: bool) -> tuple[bytes, bytes]:
    """Read a namespace and a request; the request of a ping is empty.

    Raises:
        BadFrame: The caller sent something else.
        RenderingFailed: The request is longer than the limit.
    """
    namespace = await connection.receive(max_bytes=_NAMESPACE_BYTES)
    if namespace is None:
        raise framing.BadFrame("the caller asked for nothing")
    if namespace == PING:
        return PING, b""
    if pings_only:
        raise framing.BadFrame("the renderer's own user may only ping")
    if not namespace.isascii():
        raise framing.BadFrame("the namespace is not ASCII")
    try:
        request = await connection.receive(max_bytes=MAX_REQUEST_BYTES)
    except framing.TooLong as exc:
        await connection.discard(
            exc.size
        )  # a caller that is still sending would not read the answer
        raise RenderingFailed(str(exc), cap="memory") from exc
    if request is None:
        raise framing.BadFrame("the caller hung up before its request")
    return namespace, request


def _peer_uid(connection: Connection) -> int:
    """Return the user ID that the caller had when it connected, as reported by the kernel."""
    peer = connection.transport.get_extra_info("socket")
    credentials = peer.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return int(uid)


def _remove_socket(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            path.unlink()
