"""The operator's way to the store: what arrives there, and the words when nothing comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from aiohttp import web
from aiohttp.test_utils import TestServer

from kais_operator.knowledge import client as knowledge_client
from kais_operator.knowledge import transport
from knowledge_client import errors, models

Answers = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Answers], Awaitable[str]]]:
    servers: list[TestServer] = []

    async def started(answers: Answers) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answers)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url(""))

    yield started
    for server in servers:
        await server.close()


async def test_path_body_and_token_arrive_as_they_were_sent(serve, tmp_path):
    requests: list[web.Request] = []
    bodies: list[bytes] = []

    async def answers(request: web.Request) -> web.Response:
        requests.append(request)
        bodies.append(await request.read())
        return web.Response(status=204)

    (tmp_path / "token").write_text("secret\n")
    client = knowledge_client.connect(await serve(answers), token_file=str(tmp_path / "token"))
    with pytest.raises(errors.UnexpectedAnswer):
        await client.put_scope("realm:demo/cell:a", models.ScopeConfig(read_only=True))
    await client.aclose()
    assert (requests[0].method, requests[0].raw_path) == ("PUT", "/v1/scopes/realm:demo/cell:a")
    assert requests[0].headers["Authorization"] == "Bearer secret"
    assert requests[0].headers["Content-Type"] == "application/json"
    assert bodies == [b'{"read_only":true}']


async def test_a_refusal_keeps_its_words(serve):
    async def answers(_: web.Request) -> web.Response:
        return web.Response(status=503, text="busy", headers={"Retry-After": "7"})

    client = knowledge_client.connect(await serve(answers), token_file=None)
    with pytest.raises(errors.KnowledgeUnavailable, match="503 'busy'") as caught:
        await client.get_run("r")
    assert caught.value.retry_after_s == 7
    await client.aclose()


async def test_a_store_that_hangs_up_is_away(serve):
    async def answers(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    client = knowledge_client.connect(await serve(answers), token_file=None)
    with pytest.raises(errors.KnowledgeUnavailable, match="no answer from"):
        await client.whoami()
    await client.aclose()


async def test_a_store_that_is_not_there_is_away():
    client = knowledge_client.connect("http://127.0.0.1:9", token_file=None)
    message = r"no answer from http://127\.0\.0\.1:9 \(Connection refused\); check"
    with pytest.raises(errors.KnowledgeUnavailable, match=message):
        await client.whoami()
    await client.aclose()


async def test_a_store_that_says_nothing_is_away(serve, monkeypatch):
    async def answers(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    monkeypatch.setattr(knowledge_client, "TIMEOUT_S", 0.05)
    client = knowledge_client.connect(await serve(answers), token_file=None)
    with pytest.raises(errors.KnowledgeUnavailable, match="no answer from"):
        await client.whoami()
    await client.aclose()


async def test_an_address_of_no_protocol_is_a_mistake_in_the_settings():
    client = knowledge_client.connect("gopher://store", token_file=None)
    with pytest.raises(errors.InvalidRequest, match="KNOWLEDGE_SERVICE_URL"):
        await client.whoami()
    await client.aclose()


async def test_a_name_that_nobody_resolves_is_waited_for_no_longer(monkeypatch):
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    monkeypatch.setattr(knowledge_client, "TIMEOUT_S", 0.05)
    client = knowledge_client.connect("http://store.example", token_file=None)
    with pytest.raises(errors.KnowledgeUnavailable, match="no answer from"):
        await asyncio.wait_for(client.whoami(), 60)
    await client.aclose()


async def test_an_answer_that_comes_compressed_all_the_same_is_read(serve):
    async def answers(_: web.Request) -> web.Response:
        answer = web.Response(status=503, text="busy")
        answer.enable_compression(web.ContentCoding.gzip)
        return answer

    client = knowledge_client.connect(await serve(answers), token_file=None)
    with pytest.raises(errors.KnowledgeUnavailable, match="503 'busy'"):
        await client.get_run("r")
    await client.aclose()


def test_an_idle_connection_is_left_before_the_store_closes_it():
    kept_by_the_store_s = uvicorn.Config("app").timeout_keep_alive
    assert kept_by_the_store_s - transport.KEEPALIVE_S > 1
