"""Render servers and their callers, within the test's own process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kais_rendering import framing, socket_server
from kais_rendering.message_transport import Connection
from kais_rendering.socket_client import RenderClient
from kais_rendering.socket_server import RenderServer

FIND = json.dumps({"op": "find", "pattern": "a+", "text": "aa", "ignore_case": False}).encode()
FOUND = {"found": True}


class ScriptedPool:
    """A pool whose requests begin, and end when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.finish = asyncio.Event()
        self.answer: dict[str, Any] = FOUND
        self.error: Exception | None = None
        self.requests = 0

    async def start(self) -> None:
        """Nothing has to start."""

    async def close(self) -> None:
        """Nothing has to end."""

    async def ask(self, request: bytes, *, namespace: str) -> dict[str, Any]:
        del request, namespace
        self.requests += 1
        self.begun.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.error is not None:
            raise self.error
        return self.answer


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read one message; IncompleteReadError if the connection ends before its end."""
    header = await reader.readexactly(framing.HEADER_BYTES)
    return await reader.readexactly(framing.payload_bytes(header))


@contextlib.asynccontextmanager
async def serving(
    pool: socket_server.Pool, path: Path, **options: Any
) -> AsyncIterator[CountingServer]:
    running = CountingServer(pool, path, **options)
    await running.start()
    try:
        yield running
    finally:
        await running.close()


@contextlib.asynccontextmanager
async def asking(path: Path, **options: Any) -> AsyncIterator[RenderClient]:
    client = RenderClient(path, **options)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


class Answering:
    """A server that gives `payload` as its answer to everything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.payload = json.dumps({"done": {}}).encode()

    async def __call__(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framing.frame(self.payload))
        await writer.drain()
        writer.close()


class CountingServer(RenderServer):
    """A server that remembers how many connections it was asked for anything but a ping."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.callers = set[Connection]()

    async def _ask_pool(
        self, connection: Connection, namespace: bytes, request: bytes
    ) -> dict[str, Any]:
        if namespace != socket_server.PING:
            self.callers.add(connection)
        return await super()._ask_pool(connection, namespace, request)


@contextlib.asynccontextmanager
async def answering(path: Path) -> AsyncIterator[Answering]:
    answers = Answering(path)
    async with await asyncio.start_unix_server(answers, path):
        yield answers


async def connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path)


async def is_hung_up_on(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 20) == b""
    except ConnectionResetError:
        return True


async def until_noticed(client: RenderClient, *, is_up: bool) -> None:
    async with asyncio.timeout(20):
        while client._up.is_set() is not is_up or "not been reached" in client._cause:
            await asyncio.sleep(0.01)
            if is_up and client._up.is_set():
                return
