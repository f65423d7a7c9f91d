"""Serves a pool of workers on a Unix socket, to a caller that runs as another user.

A connection carries one request: a message with the namespace and one with the request, then the
answer. A caller that hangs up takes its request back. Who may connect is decided by the rights of
the socket: its owner and its group.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any, Protocol

from kais_rendering import framing
from kais_rendering.errors import RenderingFailed
from kais_rendering.process import Answer

PING = b""
"""In place of a namespace: answered at once, without a worker and without a second message."""
MAX_REQUEST_BYTES = 16 * 2**20
_NAMESPACE_BYTES = 253
_RIGHTS = 0o660
_LOG = logging.getLogger(__name__)


class Pool(Protocol):
    """What answers requests; `pool.RenderPool` does."""

    async def start(self) -> None:
        """Start the workers."""

    async def close(self) -> None:
        """End the workers."""

    async def ask(self, request: bytes, *, namespace: str) -> Answer:
        """Have a request answered, or raise RenderingFailed."""
        ...


class RenderServer:
    """Listens on `socket`.

    `transfer_s` bounds how long a caller may take to send its request or to read the answer, and
    `max_connections` how many callers are connected at a time; more are hung up on, and try again.
    """

    def __init__(
        self, pool: Pool, socket: Path, *, transfer_s: float = 10.0, max_connections: int = 256
    ) -> None:
        self._pool = pool
        self._socket = socket
        self._transfer_s = transfer_s
        self._max_connections = max_connections
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the workers and listen; what an earlier server left at the path is replaced.

        Raises:
            OSError: The path cannot be listened on, or another file is there.
        """
        await self._pool.start()
        _remove_socket(self._socket)
        self._server = await asyncio.start_unix_server(self._accept, self._socket)
        self._socket.chmod(_RIGHTS)

    async def close(self) -> None:
        """Hang up on everybody, and end the workers."""
        if self._server is not None:
            self._server.close()
            _remove_socket(self._socket)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._pool.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._max_connections:
            writer.transport.abort()
            return
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._transfer_s):
                namespace, request = await _receive(reader)
            answer = await self._answer(reader, namespace, request)
            writer.write(framing.frame(json.dumps(answer, separators=(",", ":")).encode()))
            async with asyncio.timeout(self._transfer_s):
                await writer.drain()
        except (framing.BadFrame, TimeoutError, OSError) as exc:
            _LOG.info("a caller was hung up on: %s", str(exc) or "it was too slow")
        finally:
            await _hang_up(writer)

    async def _answer(
        self, reader: asyncio.StreamReader, namespace: bytes, request: bytes
    ) -> dict[str, Any]:
        """Have a request answered, unless its caller hangs up meanwhile.

        Raises:
            BadFrame: The caller hung up, or sent more than one request.
        """
        if namespace == PING:
            return {"done": {}}
        asking = asyncio.create_task(self._pool.ask(request, namespace=namespace.decode()))
        hang_up = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait([asking, hang_up], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise framing.BadFrame("the caller did not wait for its answer")
            return {"done": asking.result()}
        except RenderingFailed as exc:
            return {"failed": str(exc), "cap": exc.cap, "leaf": exc.leaf}
        finally:
            for task in (asking, hang_up):
                task.cancel()
            await asyncio.gather(asking, hang_up, return_exceptions=True)


async def _receive(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read a namespace and a request; the latter is empty for a ping."""
    namespace = await framing.read(reader, max_bytes=_NAMESPACE_BYTES)
    if namespace is None:
        raise framing.BadFrame("the caller asked for nothing")
    if namespace == PING:
        return PING, b""
    if not namespace.isascii():
        raise framing.BadFrame("the namespace is not ASCII")
    request = await framing.read(reader, max_bytes=MAX_REQUEST_BYTES)
    if request is None:
        raise framing.BadFrame("the caller hung up before its request")
    return namespace, request


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection; what a caller that reads nothing leaves unsent is dropped."""
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _remove_socket(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            path.unlink()
