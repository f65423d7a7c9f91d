"""Responses for kopf, from a server that answers as the API server does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from kais_operator.kubernetes.readable_responses import ReadableResponse
from tests.fakes import deep_json


def item(name: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name, "resourceVersion": f"of {name}"}}


def event(type_: str, name: str) -> bytes:
    return json.dumps({"type": type_, "object": item(name)}).encode()


def deepened(content: bytes) -> bytes:
    return deep_json.nest(content, deep_json.LEVELS)


class Server:
    """Answers each request with `parts`, one after the other."""

    parts: list[bytes]
    url: str

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for part in self.parts:
            await response.write(part)
        return response


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    created = Server()
    app = web.Application()
    app.router.add_get("/", created.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    created.url = f"http://{host}:{port}/"
    yield created
    await runner.cleanup()


async def read_json(server: Server) -> object:
    async with (
        aiohttp.ClientSession(response_class=ReadableResponse) as session,
        session.get(server.url) as response,
    ):
        return await response.json()


async def test_a_list_lacks_the_objects_that_nest_too_deeply(server: Server) -> None:
    type_meta = {"apiVersion": "kais.io/v1", "kind": "BlueprintList"}
    metadata = {"resourceVersion": "7", "continue": "more"}
    page = {**type_meta, "items": [item("a"), item("deep"), item("z")], "metadata": metadata}
    content = json.dumps(page).encode()
    before = b'"metadata": {"name": "deep"'
    server.parts = [deep_json.nest(content, deep_json.LEVELS, before=before)]
    assert await read_json(server) == {**page, "items": [item("a"), item("z")]}


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Status", "metadata": {}, "code": 404},
        {"kind": "APIResourceList", "resources": []},
        {"kind": "BlueprintList", "apiVersion": "", "metadata": {}, "items": []},
    ],
    ids=["an error", "a discovery", "an empty list"],
)
async def test_other_answers_are_decoded_as_they_are(
    server: Server, body: dict[str, object]
) -> None:
    server.parts = [json.dumps(body).encode()]
    answer = await read_json(server)
    if body["kind"] == "BlueprintList":
        body = {**body, "metadata": {"resourceVersion": "", "continue": ""}}
    assert answer == body


async def test_an_answer_that_is_no_json_is_the_error_that_kopf_expects(server: Server) -> None:
    server.parts = [b"<html>"]
    with pytest.raises(json.JSONDecodeError):
        await read_json(server)


async def test_a_stream_has_a_bookmark_in_place_of_an_event_that_nests_too_deeply(
    server: Server,
) -> None:
    lines = [event("ADDED", "a"), deepened(event("MODIFIED", "deep")), event("DELETED", "a")]
    stream = b"\n".join([*lines, deepened(event("DELETED", "deep")), b""])
    server.parts = [stream[:10], stream[10:500], stream[500:]]
    received: list[tuple[str, str]] = []
    rest = b""
    async with (
        aiohttp.ClientSession(response_class=ReadableResponse) as session,
        session.get(server.url) as response,
    ):
        async for chunk in response.content.iter_chunked(1024 * 1024):
            *lines, rest = (rest + chunk).split(b"\n")
            for event_ in map(json.loads, lines):
                metadata = event_["object"]["metadata"]
                received.append((event_["type"], metadata["resourceVersion"]))
    assert received == [
        ("ADDED", "of a"),
        ("BOOKMARK", "of deep"),
        ("DELETED", "of a"),
        ("DELETED", "of deep"),
    ]
    assert rest == b""
