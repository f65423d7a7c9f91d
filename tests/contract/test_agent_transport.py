"""The way to the Services of cells, with a real server: whole answers, and streams as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from kais_operator.agents import transport
from kais_operator.agents.transport import DirectTransport, ZonedTimes

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n%s\r\n"
Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(write: Write) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await write(writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"


@asynccontextmanager
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=ZonedTimes(DirectTransport()), timeout=10) as opened:
        yield opened


async def test_events_are_read_before_the_stream_ends() -> None:
    is_read = asyncio.Event()

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % b"" + b"data: first\n\n")
        await writer.drain()
        await is_read.wait()
        writer.write(b"data: last\n\n")

    async with serving(write) as url, client() as http, http.stream("GET", url) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "data: first"
        is_read.set()
        assert [line async for line in lines if line] == ["data: last"]


async def test_stream_without_an_end_is_cut_at_its_bound() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % b"")
        for _ in range(transport.MAX_STREAM_BYTES // 65536 + 1):
            writer.write(b"x" * 65536)

    async with serving(write) as url, client() as http, http.stream("GET", url) as response:
        with pytest.raises(httpx.RemoteProtocolError, match="more than 1048576 bytes"):
            async for _ in response.aiter_raw():
                pass


async def test_compressed_stream_is_refused() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % b"Content-Encoding: gzip\r\n" + b"\x1f\x8b")

    async with serving(write) as url, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="compressed"):
            await http.get(url)
