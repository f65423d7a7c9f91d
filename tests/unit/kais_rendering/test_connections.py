"""Connections to the renderer: kept open, bounded, replaced after a restart; answers in time."""

import asyncio
import socket as sockets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from kais_rendering import framing, socket_server, worker_pool
from kais_rendering import socket_client as client_module
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.message_transport import Connection
from kais_rendering.worker_handle import ProcessorTime
from tests.fakes.render_servers import (
    FIND,
    FOUND,
    ScriptedPool,
    asking,
    connect,
    is_hung_up_on,
    read_frame,
    serving,
)

REQUEST = framing.frame(b"n") + framing.frame(FIND)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "renderer.sock"


def finished_pool() -> ScriptedPool:
    scripted = ScriptedPool()
    scripted.finish.set()
    return scripted


async def test_requests_that_follow_each_other_use_one_connection(socket: Path) -> None:
    async with serving(finished_pool(), socket) as running, asking(socket, grace_s=60) as client:
        for _ in range(5):
            assert await client.ask(FIND, namespace="n") == FOUND
        assert len(running.callers) == 1


async def test_requests_at_a_time_use_no_more_connections_than_the_bound(socket: Path) -> None:
    async with serving(finished_pool(), socket) as running, asking(socket, grace_s=60) as client:
        names = [f"n-{number}" for number in range(200)]
        answers = await asyncio.gather(*(client.ask(FIND, namespace=name) for name in names))
        assert answers == [FOUND] * 200
        assert len(running.callers) <= client_module._CONNECTIONS


async def test_a_failed_rendering_keeps_its_connection(socket: Path) -> None:
    scripted = finished_pool()
    async with serving(scripted, socket) as running, asking(socket, grace_s=60) as client:
        scripted.error = RenderingFailed("too slow", cap="time")
        with pytest.raises(RenderingFailed, match="too slow"):
            await client.ask(FIND, namespace="n")
        with pytest.raises(RenderingFailed, match="is longer than"):
            await client.ask(b"x" * (socket_server.MAX_REQUEST_BYTES + 1), namespace="n")
        scripted.error = None
        assert await client.ask(FIND, namespace="n") == FOUND
        assert len(running.callers) == 1


async def test_a_long_answer_arrives_whole_and_leaves_its_connection_usable(socket: Path) -> None:
    scripted = finished_pool()
    scripted.answer = {"text": "x" * 8 * 2**20}
    async with serving(scripted, socket) as running, asking(socket, grace_s=60) as client:
        assert await client.ask(FIND, namespace="n") == scripted.answer
        assert await client.ask(FIND, namespace="n") == scripted.answer
        assert len(running.callers) == 1


async def test_a_request_that_is_cancelled_takes_its_connection_along(socket: Path) -> None:
    scripted = ScriptedPool()
    async with serving(scripted, socket) as running, asking(socket, grace_s=60) as client:
        request = asyncio.create_task(client.ask(FIND, namespace="n"))
        await scripted.begun.wait()
        request.cancel()
        await asyncio.wait_for(scripted.cancelled.wait(), 20)
        scripted.finish.set()
        scripted.answer = {"found": False}
        assert await client.ask(FIND, namespace="n") == {"found": False}
        assert len(running.callers) == 2


async def test_a_connection_that_a_stopped_server_closed_counts_against_no_request(
    socket: Path,
) -> None:
    async with asking(socket, grace_s=60) as client:
        async with serving(finished_pool(), socket):
            assert await client.ask(FIND, namespace="n") == FOUND
        scripted = ScriptedPool()
        request = asyncio.create_task(client.ask(FIND, namespace="n"))
        async with serving(scripted, socket):
            await scripted.begun.wait()
        async with serving(finished_pool(), socket):
            assert await request == FOUND, "the server ended over it once only"


async def test_an_end_of_the_server_over_an_open_connection_is_not_its_first_failure(
    socket: Path,
) -> None:
    async with asking(socket, grace_s=60) as client:
        scripted = finished_pool()
        async with serving(scripted, socket):
            assert await client.ask(FIND, namespace="n") == FOUND
            scripted.begun.clear()
            scripted.finish.clear()
            request = asyncio.create_task(client.ask(FIND, namespace="n"))
            await scripted.begun.wait()
        scripted_pool = ScriptedPool()
        async with serving(scripted_pool, socket):
            await scripted_pool.begun.wait()
        async with serving(finished_pool(), socket):
            assert await request == FOUND


async def test_a_connection_is_not_used_when_the_server_is_about_to_close_it(
    socket: Path,
) -> None:
    now_s = 0.0
    async with (
        serving(finished_pool(), socket) as running,
        asking(socket, grace_s=60, monotonic=lambda: now_s) as client,
    ):
        assert await client.ask(FIND, namespace="n") == FOUND
        now_s += socket_server.IDLE_S - 1
        assert await client.ask(FIND, namespace="n") == FOUND
        assert len(running.callers) == 2


async def test_the_server_closes_a_connection_that_asks_no_more(socket: Path) -> None:
    async with serving(finished_pool(), socket, idle_s=0.1):
        reader, writer = await connect(socket)
        writer.write(REQUEST)
        assert await read_frame(reader)
        assert await is_hung_up_on(reader)
        writer.close()


async def test_a_ping_is_the_last_request_of_its_connection(socket: Path) -> None:
    async with serving(ScriptedPool(), socket):
        reader, writer = await connect(socket)
        writer.write(framing.frame(socket_server.PING))
        assert await read_frame(reader) == b'{"done":{}}'
        assert await is_hung_up_on(reader)
        writer.close()


async def test_a_request_without_an_answer_in_time_is_a_trouble_of_the_renderer(
    socket: Path,
) -> None:
    scripted = ScriptedPool()
    async with (
        serving(scripted, socket) as running,
        asking(socket, grace_s=60, answer_s=0.1) as client,
    ):
        with pytest.raises(RendererUnavailable, match=r"gave no answer within 0\.1 s"):
            await client.ask(FIND, namespace="n")
        await asyncio.wait_for(scripted.cancelled.wait(), 20)
        assert scripted.requests == 1, "it is not sent a second time"
        scripted.finish.set()
        assert await client.ask(FIND, namespace="n") == FOUND
        assert len(running.callers) == 2


def test_an_answer_may_take_longer_than_a_render_that_is_still_within_its_limits() -> None:
    a_worker_s = worker_pool.START_S + worker_pool.LIMIT_S * worker_pool.PATIENCE
    assert 2 * a_worker_s < client_module.ANSWER_S, "a worker that died has a successor"


@pytest.mark.parametrize("new_event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_message_to_a_peer_that_has_gone_fails_when_it_is_awaited(
    new_event_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def send_to_nobody() -> None:
        own_end, peers_end = sockets.socketpair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.connect_accepted_socket(Connection, own_end)
        peers_end.close()
        await connection.wait_closed()
        connection.send(b"a request")
        with pytest.raises(OSError, match="the connection ended"):
            await connection.drain()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(send_to_nobody())


def test_the_processor_time_of_a_process_that_has_ended_cannot_be_read() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(OSError, match="the process has ended"):
        ProcessorTime(ended.pid).read_s()
