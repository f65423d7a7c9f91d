"""Answers of the renderer: whose trouble a failure is, and answers that no server should give."""

import json
from pathlib import Path
from typing import Any

import pytest

from kais_rendering import framing, socket_server
from kais_rendering import socket_client as client_module
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from tests.fakes.render_servers import (
    FIND,
    FOUND,
    ScriptedPool,
    answering,
    asking,
    serving,
    until_noticed,
)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "renderer.sock"


async def test_a_request_that_is_too_long_is_answered_and_not_sent_again(socket: Path) -> None:
    async with serving(ScriptedPool(), socket), asking(socket, grace_s=60) as client:
        with pytest.raises(RenderingFailed, match="16777217 bytes is longer than") as failed:
            await client.ask(b"x" * (socket_server.MAX_REQUEST_BYTES + 1), namespace="n")
        assert failed.value.cap == "memory", "another try does no better"
        assert client.problem() is None


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(11, "Resource temporarily unavailable"),
        json.JSONDecodeError("Expecting value", "nonsense", 0),
        KeyError("confined"),
        TimeoutError("no worker"),
        framing.BadFrame("no frame"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_trouble_of_the_server_is_blamed_on_no_request(
    socket: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    pool = ScriptedPool()
    pool.error = error
    pool.finish.set()
    async with serving(pool, socket), asking(socket, grace_s=60) as client:
        with pytest.raises(RendererUnavailable, match=type(error).__name__):
            await client.ask(FIND, namespace="n")
        assert client.problem() is None, "the server itself answers"
        assert pool.requests == 1
        pool.error = None
        assert await client.ask(FIND, namespace="n") == FOUND
    assert "a request could not be answered" in caplog.text


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
