"""The search process answers one request at a time, and a second one when the first takes long."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from knowledge_service.process_messages import Connection
from knowledge_service.search_process import protocol
from knowledge_service.search_process.request_loop import RequestLoop

LIMIT_S = 60.0
LONG = b"long"
LARGE = b"large"
# More than the buffers of a connection hold.
LARGE_RESPONSE = b"x" * (4 << 20)
FRAME = struct.Struct("<I")


@dataclass
class World:
    """A loop with three connections; requests that start with `LONG` take until they are ended."""

    connections: list[Connection]
    sockets: list[socket.socket]
    overdue: Connection
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def answer(self, request: bytes | memoryview) -> bytes:
        text = bytes(request)
        if text.startswith(LONG):
            self.began.release()
            assert self.ended.acquire(timeout=LIMIT_S)
        return LARGE_RESPONSE if text == LARGE else b"answer to " + text

    def begin_long(self, number: int) -> None:
        self.connections[number].send(LONG)
        assert self.began.acquire(timeout=LIMIT_S)

    def response(self, number: int, within_s: float = LIMIT_S) -> bytes:
        return bytes(self.connections[number].receive(time.monotonic() + within_s))


@contextmanager
def serving(patience: timedelta) -> Iterator[World]:
    pairs = [socket.socketpair() for _ in range(4)]
    *sockets, overdue = [pair[0] for pair in pairs]
    world = World([Connection(each) for each in sockets], sockets, Connection(overdue))
    *served, reports = [pair[1] for pair in pairs]
    loop = RequestLoop(
        world.answer,
        {each.fileno(): Connection(each) for each in served},
        Connection(reports),
        patience,
    )
    loop.start()
    yield world
    for _ in pairs:
        world.ended.release()
    for pair in pairs:
        pair[0].close()


@pytest.fixture
def world() -> Iterator[World]:
    with serving(timedelta(0)) as world:
        yield world


def test_request_waits_for_the_one_before_it(world: World) -> None:
    world.begin_long(0)
    world.connections[1].send(b"short")
    with pytest.raises(TimeoutError):
        world.response(1, within_s=0.1)
    world.ended.release()
    assert world.response(0) == b"answer to long"
    assert world.response(1) == b"answer to short"


def test_overdue_requests_are_answered_beside_a_long_one(world: World) -> None:
    world.begin_long(0)
    for _ in range(2):
        for number in (1, 2):
            world.connections[number].send(b"short")
        world.overdue.send(protocol.OVERDUE)
        assert [world.response(number) for number in (1, 2)] == [b"answer to short"] * 2
    world.ended.release()
    assert world.response(0) == b"answer to long"


def test_two_requests_run_at_once_at_most(world: World) -> None:
    world.begin_long(0)
    world.connections[1].send(LONG)
    world.overdue.send(protocol.OVERDUE)
    assert world.began.acquire(timeout=LIMIT_S)
    world.connections[2].send(b"short")
    world.overdue.send(protocol.OVERDUE)
    with pytest.raises(TimeoutError):
        world.response(2, within_s=0.1)
    world.ended.release()
    assert world.response(2) == b"answer to short"


def test_overdue_request_waits_while_the_first_one_is_short() -> None:
    with serving(timedelta(seconds=LIMIT_S)) as world:
        world.begin_long(0)
        world.connections[1].send(b"short")
        world.overdue.send(protocol.OVERDUE)
        with pytest.raises(TimeoutError):
            world.response(1, within_s=0.1)
        world.ended.release()
        assert world.response(1) == b"answer to short"


def test_report_without_a_waiting_request_does_nothing(world: World) -> None:
    world.overdue.send(protocol.OVERDUE)
    world.connections[0].send(b"short")
    assert world.response(0) == b"answer to short"


def test_requests_that_arrive_together_are_answered_in_order(world: World) -> None:
    """The service sends the next request of a connection when it stops waiting for one."""
    frames = b"".join(FRAME.pack(len(text)) + text for text in (b"first", b"second"))
    world.sockets[0].sendall(frames)
    assert [world.response(0), world.response(0)] == [b"answer to first", b"answer to second"]


def test_half_a_request_delays_no_other(world: World) -> None:
    world.sockets[0].sendall(FRAME.pack(5) + b"fi")
    world.connections[1].send(b"short")
    assert world.response(1) == b"answer to short"
    world.sockets[0].sendall(b"rst")
    assert world.response(0) == b"answer to first"


def test_responses_that_nobody_reads_delay_no_other(world: World) -> None:
    """The service stops waiting for a late response, and may not use its connection for long."""
    for number in (0, 1):
        world.connections[number].send(LARGE)
    world.connections[2].send(b"short")
    world.overdue.send(protocol.OVERDUE)
    assert world.response(2) == b"answer to short"
    world.connections[0].send(b"short")
    assert world.response(0) == LARGE_RESPONSE
    assert world.response(0) == b"answer to short"


def test_request_behind_one_with_a_large_response_is_answered_after_it(world: World) -> None:
    frames = b"".join(FRAME.pack(len(text)) + text for text in (LARGE, b"second"))
    world.sockets[0].sendall(frames)
    assert world.response(0) == LARGE_RESPONSE
    assert world.response(0) == b"answer to second"


def test_connection_that_closes_before_its_response_is_read_leaves_the_others_in_use(
    world: World,
) -> None:
    world.connections[0].send(LARGE)
    assert world.sockets[0].recv(1)
    world.sockets[0].close()
    world.connections[1].send(b"short")
    assert world.response(1) == b"answer to short"


def test_closed_connection_leaves_the_others_in_use(world: World) -> None:
    world.sockets[0].close()
    world.connections[1].send(b"short")
    assert world.response(1) == b"answer to short"
