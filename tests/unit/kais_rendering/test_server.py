"""The renderer in a process of its own: its protocol, bad callers, and restarts."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kais_rendering import client as client_module
from kais_rendering import framing, server
from kais_rendering.client import RenderClient
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.pool import RenderPool
from kais_rendering.server import RenderServer

FIND = json.dumps({"op": "find", "pattern": "a+", "text": "aa", "ignore_case": False}).encode()
HANG = json.dumps(
    {"op": "find", "pattern": "(a+)+$", "text": "a" * 40 + "!", "ignore_case": False}
).encode()
FOUND = {"found": True}


class ScriptedPool:
    """A pool whose requests begin, and end when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.finish = asyncio.Event()
        self.answer: dict[str, Any] = FOUND
        self.trouble: Exception | None = None
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
        if self.trouble is not None:
            raise self.trouble
        return self.answer


@contextlib.asynccontextmanager
async def serving(pool: server.Pool, path: Path, **options: Any) -> AsyncIterator[RenderServer]:
    running = RenderServer(pool, path, **options)
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


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "renderer.sock"


async def connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def is_hung_up_on(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 20) == b""
    except ConnectionResetError:
        return True


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


async def test_a_request_that_is_too_long_is_answered_and_not_sent_again(socket: Path) -> None:
    async with serving(ScriptedPool(), socket), asking(socket, grace_s=60) as client:
        with pytest.raises(RenderingFailed, match="16777217 bytes is longer than") as failed:
            await client.ask(b"x" * (server.MAX_REQUEST_BYTES + 1), namespace="n")
        assert failed.value.cap == "memory", "another try does no better"
        assert client.problem() is None


@pytest.mark.parametrize(
    "trouble",
    [
        BlockingIOError(11, "Resource temporarily unavailable"),
        json.JSONDecodeError("Expecting value", "nonsense", 0),
        KeyError("confined"),
        TimeoutError("no worker"),
        framing.BadFrame("no frame"),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
async def test_a_trouble_of_the_server_is_blamed_on_no_request(
    socket: Path, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    pool = ScriptedPool()
    pool.trouble = trouble
    pool.finish.set()
    async with serving(pool, socket), asking(socket, grace_s=60) as client:
        with pytest.raises(RendererUnavailable, match=type(trouble).__name__):
            await client.ask(FIND, namespace="n")
        assert client.problem() is None, "the server itself answers"
        assert pool.requests == 1
        pool.trouble = None
        assert await client.ask(FIND, namespace="n") == FOUND
    assert "a request could not be answered" in caplog.text


async def test_a_connection_that_fails_is_told_in_the_log(
    socket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(ScriptedPool(), socket), asking(socket, grace_s=60) as client:
        await until_noticed(client, is_up=True)
        pool = ScriptedPool()
        monkeypatch.setattr(server.json, "dumps", pool.__getattribute__)
        reader, writer = await connect(socket)
        writer.write(framing.frame(server.PING))
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
        framing.frame(b"n") + (server.MAX_REQUEST_BYTES + 1).to_bytes(4, "big"),
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
    monkeypatch.setattr(server, "_OWN_CONNECTIONS", 1)
    options = {"own_user_pings_only": True, "max_connections": 1}
    async with serving(RenderPool(workers=1), socket, **options):
        _, first = await connect(socket)  # accepted before the second one
        reader, second = await connect(socket)
        assert await is_hung_up_on(reader), "it has a bound of its own"
        monkeypatch.setattr(server, "_peer_uid", lambda _: os.getuid() + 1)
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


class Answering:
    """A server that gives `payload` as its answer to everything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.payload = json.dumps({"done": {}}).encode()

    async def __call__(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framing.frame(self.payload))
        await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def answering(path: Path) -> AsyncIterator[Answering]:
    answers = Answering(path)
    async with await asyncio.start_unix_server(answers, path):
        yield answers


BAD_ANSWERS = [
    b"nonsense",
    b"[" * 100_000,
    b"\xff",
    b"[]",
    b"7",
    b"{}",
    b'{"done": []}',
    b'{"failed": "no leaf", "cap": "time"}',
    b'{"failed": "it was lazy", "cap": "laziness", "leaf": ""}',
    b'{"failed": {}, "cap": "time", "leaf": ""}',
    b'{"unavailable": 7}',
]


@pytest.mark.parametrize("payload", BAD_ANSWERS, ids=lambda payload: payload[:20].decode("latin1"))
async def test_an_answer_of_another_shape_is_blamed_on_no_request(
    socket: Path, payload: bytes
) -> None:
    async with answering(socket) as server_, asking(socket, grace_s=60) as client:
        await until_noticed(client, is_up=True)
        server_.payload = payload
        with pytest.raises(RendererUnavailable, match="does not answer: its answer "):
            await client.ask(FIND, namespace="n")
        assert client.problem() is None, "only a connection tells that it is away"


@pytest.mark.parametrize("payload", BAD_ANSWERS, ids=lambda payload: payload[:20].decode("latin1"))
async def test_a_ping_with_an_answer_of_another_shape_is_not_the_last(
    socket: Path, payload: bytes
) -> None:
    async with answering(socket) as server_, asking(socket, grace_s=60) as client:
        server_.payload = payload
        await until_noticed(client, is_up=False)
        assert "does not answer: its answer " in (client.problem() or "")
        server_.payload = b'{"done": {}}'
        await until_noticed(client, is_up=True)


async def test_no_failure_of_a_ping_is_the_last(
    socket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = client_module._read_answer

    def fail(_: bytes) -> dict[str, Any]:
        raise ZeroDivisionError("a mistake of ours")

    async with serving(ScriptedPool(), socket):
        monkeypatch.setattr(client_module, "_read_answer", fail)
        async with asking(socket, grace_s=60) as client:
            await until_noticed(client, is_up=False)
            assert "a mistake of ours" in (client.problem() or "")
            monkeypatch.setattr(client_module, "_read_answer", read)
            await until_noticed(client, is_up=True)
    assert "the renderer could not be pinged" in caplog.text


async def test_a_server_that_went_away_is_noticed_without_a_request(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_PING_S", 0.05)
    async with asking(socket, grace_s=60) as client:
        async with serving(ScriptedPool(), socket):
            await until_noticed(client, is_up=True)
        await until_noticed(client, is_up=False)


async def until_noticed(client: RenderClient, *, is_up: bool) -> None:
    async with asyncio.timeout(20):
        while client._up.is_set() is not is_up or "not been reached" in client._cause:
            await asyncio.sleep(0.01)
            if is_up and client._up.is_set():
                return


async def test_a_socket_that_a_killed_server_left_is_replaced_and_no_other_file_is(
    socket: Path,
) -> None:
    async with serving(ScriptedPool(), socket):
        stale = socket.with_name("stale.sock")
        await asyncio.to_thread(socket.rename, stale)
    async with serving(ScriptedPool(), stale), asking(stale, grace_s=60) as client:
        await until_noticed(client, is_up=True)
    other = socket.with_name("file")
    other.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        await RenderServer(ScriptedPool(), other).start()
    assert other.read_text() == "precious"


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
    _, words = await silent.communicate()
    assert silent.returncode == 1
    assert b"No such file" in words
