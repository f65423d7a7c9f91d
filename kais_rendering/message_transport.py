"""One end of a connection that carries length-prefixed messages in sequence.

It replaces asyncio's streams and needs fewer iterations of the event loop: a reader wakes up only
when the whole message has arrived, and no task waits for the end of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import cast

from kais_rendering import framing

_READ_AHEAD_BYTES = 2**16  # arbitrary: bytes read from the kernel before anyone receives them


class Connection(asyncio.Protocol):
    """A protocol for asyncio's transports; supports one `receive` or `discard` at a time.

    `on_connect` is called with each new connection; a server starts to serve it there.
    """

    def __init__(self, on_connect: Callable[[Connection], None] | None = None) -> None:
        self._on_connect = on_connect
        self._block: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._awaited_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_writing_paused = False
        self._is_ended = False
        self._error: Exception | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport, once connected."""
        return self._transport

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and no received data is unread."""
        return not (self._is_ended or self._received or self._transport.is_closing())

    def send(self, *payloads: bytes) -> None:
        """Send messages without waiting; `drain` waits until the peer has read most of them.

        After the end of the connection nothing is sent, and `drain` raises. asyncio ignores such a
        write, and uvloop raises RuntimeError.
        """
        if self._transport.is_closing():
            return
        self._transport.write(b"".join(framing.frame(payload) for payload in payloads))

    async def drain(self) -> None:
        """Wait until more data can be sent.

        Raises:
            OSError: The connection ended.
        """
        if self._is_ended and self._transport.is_closing():
            raise self._error or ConnectionResetError("the connection ended")
        if self._is_writing_paused:
            self._writer = asyncio.get_running_loop().create_future()
            try:
                await self._writer
            finally:
                self._writer = None

    async def receive(self, *, max_bytes: int) -> bytes | None:
        """Wait for one message; None at the end of the connection.

        Raises:
            TooLong: The message is longer than the limit.
            BadFrame: The connection ended within the message.
            OSError: The connection broke.
        """
        if not await self._fill(framing.HEADER_BYTES):
            if self._received:
                raise framing.BadFrame("the connection ended within a message")
            return None
        size = framing.payload_bytes(self._received)
        if size > max_bytes:
            del self._received[: framing.HEADER_BYTES]
            raise framing.TooLong(size, max_bytes=max_bytes)
        end = framing.HEADER_BYTES + size
        if not await self._fill(end):
            raise framing.BadFrame("the connection ended within a message")
        payload = bytes(self._received[framing.HEADER_BYTES : end])
        del self._received[:end]
        return payload

    async def discard(self, size: int) -> None:
        """Read and discard `size` bytes, or fewer if the connection ends.

        Raises:
            OSError: The connection broke.
        """
        while size > 0:
            chunk = min(size, _READ_AHEAD_BYTES)
            if not await self._fill(chunk):
                return
            del self._received[:chunk]
            size -= chunk

    async def is_readable(self, *, within_s: float) -> bool:
        """Wait for the start of a message; False after the timeout, or if the connection ends."""
        try:
            async with asyncio.timeout(within_s):
                return await self._fill(1)
        except TimeoutError:
            return False

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Cancel the block if the peer closes the connection or sends data meanwhile.

        Raises:
            BadFrame: The peer closed the connection or sent data, before or during the block.
        """
        if not self.is_idle:
            raise framing.BadFrame("the peer did not wait for its answer")
        task = asyncio.current_task()
        self._block = task
        try:
            yield
        except asyncio.CancelledError as exc:
            if task is not None and self._block is None and task.uncancel() == 0:
                raise framing.BadFrame("the peer did not wait for its answer") from exc
            raise
        finally:
            self._block = None

    def close(self) -> None:
        """Close the connection; data that the peer has not read yet is dropped."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        self._transport.close()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed."""
        await asyncio.shield(self._closed)

    async def _fill(self, size: int) -> bool:
        """Wait until `size` bytes have been received; False if the connection ends first.

        Raises:
            OSError: The connection broke.
        """
        while len(self._received) < size:
            if self._error is not None:
                raise self._error
            if self._is_ended:
                return False
            self._awaited_bytes = size
            self._reader = asyncio.get_running_loop().create_future()
            self._transport.resume_reading()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the transport."""
        self._transport = cast("asyncio.Transport", transport)
        if self._on_connect is not None:
            self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        """Called by the transport."""
        self._received += data
        if self._reader is not None:
            if len(self._received) >= self._awaited_bytes:
                _wake(self._reader)
            return
        self._interrupt()
        if len(self._received) > _READ_AHEAD_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Called by the transport, which then closes."""
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport."""
        self._end(exc)
        if self._writer is not None and not self._writer.done():
            self._writer.set_exception(exc or ConnectionResetError("the connection ended"))
        _wake(self._closed)

    def pause_writing(self) -> None:
        """Called by the transport."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._is_writing_paused = False
        if self._writer is not None:
            _wake(self._writer)

    def _end(self, error: Exception | None) -> None:
        self._is_ended = True
        self._error = self._error or error
        if self._reader is not None:
            _wake(self._reader)
        self._interrupt()

    def _interrupt(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
