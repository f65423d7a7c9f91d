"""The renderer in a process of its own: its protocol, bad callers, and restarts."""

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from kais_rendering import framing, socket_server
from kais_rendering import socket_client as client_module
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.socket_server import RenderServer
from kais_rendering.worker_pool import RenderPool
from tests.fakes.render_servers import (
    FIND,
    FOUND,
    ScriptedPool,
    asking,
    connect,
    is_hung_up_on,
    serving,
    until_noticed,
)

HANG = json.dumps(
    {"op": "find", "pattern": "(a+)+$", "text": "a" * 40 + "!", "ignore_case": False}
).encode()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "renderer.sock"


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_request_is_answered_over_the_socket_as_by_a_pool(socket: Path) -> None:
    async with serving(RenderPool(workers=1), socket), asking(socket, grace_s=60) as client:
        assert await client.ask(FIND, namespace="n") == FOUND
        assert client.problem() is None


async def test_a_worker_that_is_killed_at_its_limit_is_reported_and_the_next_request_served(
    socket: Path,
) -> None:
    pool = RenderPool(workers=1, limit_s=0.3)
    async with serving(pool, socket), asking(socket, grace_s=60) as client:
        with pytest.raises(RenderingFailed, match=" s at parameters") as failed:
            await client.ask(HANG, namespace="n")
        assert (failed.value.cap, failed.value.leaf) == ("time", "parameters")
        assert await client.ask(FIND, namespace="n") == FOUND


async def test_a_worker_that_dies_under_a_request_is_replaced_unnoticed(socket: Path) -> None:
    pool = RenderPool(workers=1)
    async with serving(pool, socket), asking(socket, grace_s=60) as client:
        await client.ask(FIND, namespace="n")
        worker = await pool._idle.get()
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        pool._idle.put_nowait(worker)
        assert await client.ask(FIND, namespace="n") == FOUND


async def test_only_the_owner_and_the_group_may_connect(socket: Path) -> None:
    async with serving(ScriptedPool(), socket):
        assert rights(socket) == 0o660


async def test_a_caller_that_hangs_up_takes_its_request_back(socket: Path) -> None:
    pool = ScriptedPool()
    async with serving(pool, socket):
        _, writer = await connect(socket)
        writer.write(framing.frame(b"n") + framing.frame(FIND))
        await pool.begun.wait()
        writer.close()
        await asyncio.wait_for(pool.cancelled.wait(), 20)


async def test_a_request_that_is_cancelled_is_cancelled_at_the_server_too(socket: Path) -> None:
    pool = ScriptedPool()
    async with serving(pool, socket), asking(socket, grace_s=60) as client:
        request = asyncio.create_task(client.ask(FIND, namespace="n"))
        await pool.begun.wait()
        request.cancel()
        await asyncio.wait_for(pool.cancelled.wait(), 20)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: renderer\r\n\r\n",
        b"\xff\xff\xff\xff" + b"x" * 100,
        framing.frame(b"n" * 300),
        framing.frame("für".encode()) + framing.frame(FIND),
        framing.frame(b"n") + framing.frame(FIND) + b"more",
    ],
    ids=["http", "huge", "namespace too long", "no ASCII", "a second request"],
)
async def test_a_caller_that_sends_something_else_is_hung_up_on(socket: Path, sent: bytes) -> None:
    async with serving(ScriptedPool(), socket), asking(socket, grace_s=60) as client:
        reader, writer = await connect(socket)
        writer.write(sent)
        assert await is_hung_up_on(reader)
        writer.close()
        await client._wait_for_server()
        assert client.problem() is None, "others are served"


async def test_a_connection_that_fails_is_told_in_the_log(
    socket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(ScriptedPool(), socket), asking(socket, grace_s=60) as client:
        await until_noticed(client, is_up=True)
        pool = ScriptedPool()
        monkeypatch.setattr(socket_server.json, "dumps", pool.__getattribute__)
        reader, writer = await connect(socket)
        writer.write(framing.frame(socket_server.PING))
        assert await is_hung_up_on(reader)
        writer.close()
    assert "a caller could not be served" in caplog.text


async def test_a_request_that_is_no_json_fails_alone(socket: Path) -> None:
    async with serving(RenderPool(workers=1), socket), asking(socket, grace_s=60) as client:
        with pytest.raises(RenderingFailed, match="JSONDecodeError"):
            await client.ask(b"no JSON", namespace="n")
        assert await client.ask(FIND, namespace="n") == FOUND


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x00\x00",
        framing.frame(b"n") + b"\x00\x00\x10",
        framing.frame(b"n") + (socket_server.MAX_REQUEST_BYTES + 1).to_bytes(4, "big"),
    ],
)
async def test_a_caller_that_sends_too_slowly_is_hung_up_on(socket: Path, sent: bytes) -> None:
    async with serving(ScriptedPool(), socket, transfer_s=0.1):
        reader, writer = await connect(socket)
        writer.write(sent)
        assert await is_hung_up_on(reader)
        writer.close()


async def test_a_caller_that_reads_no_answer_holds_its_connection_for_a_while_only(
    socket: Path,
) -> None:
    pool = ScriptedPool()
    pool.answer = {"text": "x" * 8 * 2**20}  # more than both buffers of the socket take
    pool.finish.set()
    async with serving(pool, socket, transfer_s=0.1) as running:
        _, writer = await connect(socket)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(framing.frame(b"n") + framing.frame(FIND))
        await pool.begun.wait()
        (connection,) = running._connections
        await asyncio.wait_for(asyncio.wait([connection]), 20)
        writer.transport.abort()


async def test_callers_beyond_the_bound_are_hung_up_on(socket: Path) -> None:
    pool = ScriptedPool()
    async with serving(pool, socket, max_connections=1):
        _, first = await connect(socket)
        first.write(framing.frame(b"n") + framing.frame(FIND))
        await pool.begun.wait()
        reader, second = await connect(socket)
        assert await is_hung_up_on(reader)
        first.close()
        second.close()


async def test_its_own_user_may_only_ping_where_others_are_served(socket: Path) -> None:
    pool = ScriptedPool()
    async with serving(pool, socket, own_user_pings_only=True), asking(socket) as client:
        await until_noticed(client, is_up=True)
        reader, writer = await connect(socket)
        writer.write(framing.frame(b"n") + framing.frame(FIND))
        assert await is_hung_up_on(reader)
        writer.close()
        assert pool.requests == 0


async def test_its_own_user_takes_no_connection_of_others(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "_OWN_CONNECTIONS", 1)
    options = {"own_user_pings_only": True, "max_connections": 1}
    async with serving(RenderPool(workers=1), socket, **options):
        _, first = await connect(socket)  # accepted before the second one
        reader, second = await connect(socket)
        assert await is_hung_up_on(reader), "it has a bound of its own"
        monkeypatch.setattr(socket_server, "_peer_uid", lambda _: os.getuid() + 1)
        async with asking(socket, grace_s=60) as client:
            assert await client.ask(FIND, namespace="n") == FOUND
        first.close()
        second.close()


async def test_the_program_can_be_told_that_its_own_user_may_only_ping(socket: Path) -> None:
    program = (sys.executable, "-P", "-m", "kais_rendering")
    serve = (*program, "serve", "--own-user-pings-only", "--socket", str(socket))
    ping = (*program, "ping", "--socket", str(socket))
    running = await asyncio.create_subprocess_exec(*serve)
    try:
        async with asking(socket, grace_s=60) as client:
            await until_noticed(client, is_up=True)
        assert await (await asyncio.create_subprocess_exec(*ping)).wait() == 0
        reader, writer = await connect(socket)
        writer.write(framing.frame(b"n") + framing.frame(FIND))
        assert await is_hung_up_on(reader)
        writer.close()
    finally:
        running.terminate()
        assert await running.wait() == 0


async def test_a_request_waits_for_a_server_that_is_not_there_yet(socket: Path) -> None:
    async with asking(socket, grace_s=60) as client:
        request = asyncio.create_task(client.ask(FIND, namespace="n"))
        await until_noticed(client, is_up=False)
        assert "the renderer does not answer" in (client.problem() or "")
        async with serving(RenderPool(workers=1), socket):
            assert await request == FOUND
            assert client.problem() is None


async def test_a_request_survives_a_restart_of_the_server(socket: Path) -> None:
    async with asking(socket, grace_s=60) as client:
        pool = ScriptedPool()
        async with serving(pool, socket):
            request = asyncio.create_task(client.ask(FIND, namespace="n"))
            await pool.begun.wait()
        async with serving(RenderPool(workers=1), socket):
            assert await request == FOUND


async def test_a_request_over_which_the_server_ends_twice_fails(socket: Path) -> None:
    async with asking(socket, grace_s=60) as client:
        request = asyncio.create_task(client.ask(FIND, namespace="n"))
        for _ in range(2):
            pool = ScriptedPool()
            async with serving(pool, socket):
                await pool.begun.wait()
        with pytest.raises(RenderingFailed, match="ended while this was rendered, twice") as failed:
            await request
        assert failed.value.cap == "worker"


async def test_a_request_fails_when_the_server_stays_away(socket: Path) -> None:
    async with asking(socket, grace_s=0.1) as client:
        with pytest.raises(RendererUnavailable, match=r"does not answer: .*No such file"):
            await client.ask(FIND, namespace="n")


async def test_a_server_that_went_away_is_noticed_without_a_request(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_PING_S", 0.05)
    async with asking(socket, grace_s=60) as client:
        async with serving(ScriptedPool(), socket):
            await until_noticed(client, is_up=True)
        await until_noticed(client, is_up=False)


async def test_a_socket_that_a_killed_server_left_is_replaced_and_no_other_file_is(
    socket: Path,
) -> None:
    async with serving(ScriptedPool(), socket):
        stale = socket.with_name("stale.sock")
        await asyncio.to_thread(socket.rename, stale)
    async with serving(ScriptedPool(), stale), asking(stale, grace_s=60) as client:
        await until_noticed(client, is_up=True)
    other_path = socket.with_name("file")
    other_path.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        await RenderServer(ScriptedPool(), other_path).start()
    assert other_path.read_text() == "precious"


async def test_the_program_serves_until_sigterm_and_its_ping_tells(socket: Path) -> None:
    program = (sys.executable, "-P", "-m", "kais_rendering")
    ping = (*program, "ping", "--socket", str(socket))
    running = await asyncio.create_subprocess_exec(*program, "serve", "--socket", str(socket))
    try:
        async with asking(socket, grace_s=60) as client:
            assert await client.ask(FIND, namespace="n") == FOUND
        assert await (await asyncio.create_subprocess_exec(*ping)).wait() == 0
    finally:
        running.terminate()
        assert await running.wait() == 0
    silent = await asyncio.create_subprocess_exec(*ping, stderr=asyncio.subprocess.PIPE)
    _, text = await silent.communicate()
    assert silent.returncode == 1
    assert b"No such file" in text
