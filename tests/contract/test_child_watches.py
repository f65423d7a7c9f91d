"""Watches of children, against a server that streams events as the API server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from kais_operator import errors
from kais_operator.informer import child_watches, watch_client
from kais_operator.informer.child_watches import ChildWatches
from kais_operator.informer.list_client import ObjectVersion, WatchTarget
from kais_operator.informer.watch_client import WatchClient
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.kubernetes.api_client import ApiClient
from kais_operator.planning.plan import ObjectRef
from tests.fakes import deep_json
from tests.fakes.clock import FakeClock

TARGET = WatchTarget("Pod", "demo", "app.kubernetes.io/managed-by=kais")
PODS = "/api/v1/namespaces/demo/pods"


def event(type_: str, name: str, version: int) -> bytes:
    metadata = {"name": name, "namespace": "demo", "resourceVersion": str(version)}
    metadata = {**metadata, "uid": name, "managedFields": [{"manager": "kubelet"}]}
    body = {"kind": "Pod", "metadata": metadata}
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


def failure(code: int, message: str) -> bytes:
    status = {"kind": "Status", "code": code, "message": message}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Server:
    """An API server; each watch gets the next of `streams`, and None keeps it open."""

    def __init__(self) -> None:
        self.version = 5
        self.listed: bytes | None = None
        self.watches: list[dict[str, str]] = []
        self.streams: list[list[bytes | None]] = []
        self.received: list[tuple[str, str, bool]] = []
        self.skipped: list[tuple[ObjectRef, str]] = []
        self.has_received = asyncio.Event()

    async def pods(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query and self.listed is not None:
            return web.Response(body=self.listed, content_type="application/json")
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}})
        self.watches.append(dict(request.query))
        parts = self.streams.pop(0) if self.streams else [None]
        if parts == [b"403"]:
            return web.json_response({"kind": "Status", "message": "no right"}, status=403)
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            if part is None:
                await asyncio.sleep(3600)
            else:
                await response.write(part)
        return response

    def skip(self, change: ObjectVersion) -> None:
        self.skipped.append((change.ref, change.version))

    def receive(self, kind: str, body: dict[str, Any], is_deleted: bool) -> None:
        assert "managedFields" not in body["metadata"]
        self.received.append((kind, body["metadata"]["name"], is_deleted))
        self.has_received.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.received) < count:
                self.has_received.clear()
                await self.has_received.wait()


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, WatchClient]]:
    created = Server()
    app = web.Application()
    app.router.add_get(PODS, created.pods)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    configuration.host = f"http://{host}:{port}"
    link = ApiClient(configuration).clone(is_bounded=False)
    yield created, WatchClient(link)
    await link.close()
    await runner.cleanup()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_watches, "_RETRY_RANGE_S", (0.01, 0.02))
    monkeypatch.setattr(child_watches, "_LOGGED_FORBIDDEN_COUNT", 2)


async def watch(api: Server, client: WatchClient, *, events: int) -> None:
    """Watch until so many events were received."""
    health = WatchHealth(FakeClock(), watches=())
    task = asyncio.create_task(ChildWatches(client, api.receive, api.skip, health).run((TARGET,)))
    try:
        await api.wait_for(events)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_changes_are_reported_from_the_present_version_on(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    first, second = event("ADDED", "a", 6), event("DELETED", "a", 7)
    api.streams = [[first[:40], first[40:] + second[:9], second[9:], None]]
    await watch(api, client, events=2)
    assert api.received == [("Pod", "a", False), ("Pod", "a", True)]
    assert api.watches == [
        {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "resourceVersion": "5",
            "labelSelector": "app.kubernetes.io/managed-by=kais",
        }
    ]


async def test_an_event_of_an_object_that_nests_too_deeply_is_skipped_among_others(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    deep = deep_json.nest(event("MODIFIED", "deep", 6), deep_json.LEVELS)
    gone = deep_json.nest(event("DELETED", "deep", 8), deep_json.LEVELS)
    api.streams = [[deep, event("ADDED", "b", 7)], [gone, None]]
    await watch(api, client, events=2)
    assert api.received == [("Pod", "b", False), ("Pod", "deep", True)]
    assert api.skipped == [(ObjectRef("Pod", "demo", "deep"), "6")]
    assert [query["resourceVersion"] for query in api.watches] == ["5", "7"]


async def test_a_watch_starts_although_the_first_object_nests_too_deeply(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    page = {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {}}]}
    api.listed = deep_json.nest(json.dumps(page).encode(), deep_json.LEVELS)
    api.streams = [[event("ADDED", "a", 6), None]]
    await watch(api, client, events=1)
    assert api.received == [("Pod", "a", False)]


async def test_the_answer_to_a_call_that_nests_too_deeply_is_an_error_of_the_cluster(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    api.listed = deep_json.nest(b'{"metadata": {}}', deep_json.LEVELS)
    with pytest.raises(errors.TooDeep, match=f"GET {PODS}: the object nests deeper than"):
        await client._api_client.call("GET", PODS)


async def test_a_watch_that_ends_resumes_from_the_last_event_or_bookmark(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    api.streams = [
        [event("ADDED", "a", 6)],
        [event("BOOKMARK", "", 9)],
        [event("MODIFIED", "a", 10), None],
    ]
    await watch(api, client, events=2)
    assert api.received == [("Pod", "a", False), ("Pod", "a", False)]
    assert [query["resourceVersion"] for query in api.watches] == ["5", "6", "9"]


async def test_a_version_that_is_too_old_is_replaced_by_the_present_one(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    api.streams = [[failure(410, "too old resource version")], [event("ADDED", "b", 21), None]]
    await watch(api, client, events=1)
    assert [query["resourceVersion"] for query in api.watches] == ["5", "5"]
    assert api.received == [("Pod", "b", False)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([b"403"], "no right"),
        ([failure(500, "storage is down")], "storage is down"),
        ([b"<html>\n"], "the answer is no event"),
    ],
)
async def test_a_watch_that_fails_is_opened_again_and_its_error_logged_once(
    server: tuple[Server, WatchClient],
    answer: list[bytes | None],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api, client = server
    api.streams = [answer, answer, answer, [event("ADDED", "a", 6), None]]
    await watch(api, client, events=1)
    assert len(api.watches) == 4
    (record,) = [r.getMessage() for r in caplog.records if r.name == child_watches.__name__]
    assert record.startswith("watch of Pod in demo: ")
    assert message in record


async def test_a_watch_that_falls_silent_is_opened_again(
    server: tuple[Server, WatchClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, client = server
    monkeypatch.setattr(watch_client, "IDLE_TIMEOUT_S", 0.05)
    api.streams = [[event("ADDED", "a", 6), None], [event("ADDED", "b", 7), None]]
    await watch(api, client, events=2)
    assert [query["resourceVersion"] for query in api.watches[:2]] == ["5", "6"]


async def test_an_error_in_a_stream_is_an_error_of_the_cluster(
    server: tuple[Server, WatchClient],
) -> None:
    api, client = server
    api.streams = [[failure(403, "pods is forbidden")]]
    with pytest.raises(errors.Forbidden, match="pods is forbidden"):
        await anext(client.events(TARGET, version="1"))
