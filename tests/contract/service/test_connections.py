"""Connections are bounded: a new one finds a place while any is idle, and words where none is."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from knowledge_service import http_limits
from tests.knowledge_process import Served, serving

BOUND = 4
BOUNDED = f"from knowledge_service import http_limits\nhttp_limits._MAX_CONNECTIONS = {BOUND}\n"
PROBE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
LISTEN = b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("connections") / "knowledge.db", BOUNDED) as server:
        yield server


def connect(served: Served, held: ExitStack, sent: bytes) -> socket.socket:
    address = httpx.URL(served.url)
    assert address.port
    where = (address.host, address.port)
    connection = held.enter_context(socket.create_connection(where, timeout=20))
    connection.sendall(sent)
    return connection


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    text = b""
    while mark not in text and (piece := connection.recv(4096)):
        text += piece
    return text


@pytest.mark.parametrize("idle", [b"", b"GET /healthz HTTP/1.1\r\nx-", PROBE])
def test_new_connection_takes_the_place_of_the_one_idle_longest(
    served: Served, idle: bytes
) -> None:
    with ExitStack() as held:
        connections = []
        for _ in range(BOUND):
            connection = connect(served, held, idle)
            if idle == PROBE:
                assert b"ok" in read_until(connection, b"}")
            connections.append(connection)
        newest = connect(served, held, PROBE)
        assert b" 200 OK" in read_until(newest, b"}")
        answer = read_until(connections[0], b"\r\n\r\n")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")
        if idle == PROBE:
            connections[-1].sendall(PROBE)
            assert b" 200 OK" in read_until(connections[-1], b"}")


def test_connection_beyond_those_in_use_is_told_to_come_again(served: Served) -> None:
    with ExitStack() as held:
        for _ in range(BOUND):
            assert b"listening" in read_until(connect(served, held, LISTEN), b": listening")
        answer = read_until(connect(served, held, PROBE), b"\r\n\r\n{NEVER}")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in head
        assert b"application/problem+json" in head
        assert json.loads(body)["code"] == "store-unavailable"
        detail = f"all {BOUND} connections are in use; try again"
        assert json.loads(body)["detail"] == detail
        records = [json.loads(line) for line in served.said().splitlines()]
        (refusal,) = [record for record in records if record["message"] == "request refused"]
        assert (refusal["path"], refusal["why"]) == ("/healthz", detail)


class FakeTransport(asyncio.Transport):
    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1), "sockname": ("10.0.0.9", 8000)})
        self.written = b""
        self.closed = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()


async def test_one_address_may_hold_only_a_part_of_all_connections(tmp_path: Path) -> None:
    async def app(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    configuration = uvicorn.Config(app, log_config=None)
    configuration.load()
    state = ServerState()

    async def answer(address: str) -> bytes:
        transport = FakeTransport(address)
        connection = http_limits.LimitedHttpProtocol(configuration, state, {})
        connection.connection_made(transport)
        connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await asyncio.wait_for(transport.closed.wait(), 5)
        return transport.written

    for number in range(http_limits._MAX_PER_ADDRESS):
        opened = http_limits.LimitedHttpProtocol(configuration, state, {})
        opened.connection_made(FakeTransport("10.0.0.1" if number else "127.0.0.1"))
    assert (await answer("10.0.0.1")).startswith(b"HTTP/1.1 204 ")
    refusal = await answer("10.0.0.1")
    assert refusal.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 2" in refusal
    assert b"128 connections from one address are open; reuse them for several requests" in refusal
    assert (await answer("10.0.0.2")).startswith(b"HTTP/1.1 204 ")
    for h11_protocol in list(state.connections):
        h11_protocol.connection_lost(None)
