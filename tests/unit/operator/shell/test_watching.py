"""A watch that fell behind lists again, so that what went in between is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.adapters.cache import Cache
from kais_operator.adapters.watching import KindWatch, Subject
from kais_operator.handlers import watches
from kais_operator.handlers.freshness import Freshness
from tests.fakes.clock import FakeClock

EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
BROKEN = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}}


def cell(name: str, version: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "demo", "uid": name, "resourceVersion": version}
    return {"metadata": metadata}


def listing(version: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "items": list(items)}


class Script:
    """Answers lists and watches in turn, as `adapters.connection` does; then nothing happens."""

    def __init__(self, lists: list[Any], streams: list[list[dict[str, Any]]]) -> None:
        self.lists = lists
        self.streams = streams
        self.watched_from: list[str] = []

    async def call(self, method: str, path: str, *, query: Mapping[str, str]) -> Any:
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[AsyncIterator[list[dict[str, Any]]]]:
        self.watched_from.append(query["resourceVersion"])
        yield self._events()

    async def _events(self) -> AsyncIterator[list[dict[str, Any]]]:
        if self.streams:
            yield self.streams.pop(0)
        else:
            await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kais_operator.adapters.watching._FIRST_PAUSE_S", 0.001)


class Keys:
    def __init__(self) -> None:
        self.cache = Cache(labelled=())
        self.freshness = Freshness(FakeClock(), watches=[("Cell", None)])
        self.told: list[str] = []
        self.ear = watches.Ear(self.cache, self.freshness, self._hear)

    def _hear(self, kind: str, body: dict[str, Any], is_gone: bool) -> None:
        self.told.append(f"{kind} {body['metadata']['name']}{' gone' if is_gone else ''}")

    async def hear(self, script: Script, *, watches: int) -> None:
        """Run one watch until it has been opened so often and its script is at its end."""
        watch = KindWatch(script, Subject("Cell", None), self.ear, lists=asyncio.Semaphore(1))
        running = asyncio.create_task(watch.run())
        async with asyncio.timeout(5):
            while len(script.watched_from) < watches or script.streams:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_went_while_a_watch_fell_behind_is_told_and_forgotten():
    script = Script(
        [listing("5", cell("a", "1"), cell("b", "2")), listing("9", cell("b", "2"))], [[EXPIRED]]
    )
    keys = Keys()
    await keys.hear(script, watches=2)
    assert keys.told == ["Cell a", "Cell b", "Cell a gone"]
    assert [body["metadata"]["name"] for body in keys.cache.find("Cell", "demo", {})] == ["b"]
    assert script.watched_from == ["5", "9"]


async def test_a_watch_goes_on_from_its_last_bookmark():
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "70"}}}
    script = Script([listing("5")], [[bookmark]])
    await Keys().hear(script, watches=2)
    assert script.watched_from == ["5", "70"]


async def test_what_we_wrote_is_told_again_when_its_event_was_missed():
    script = Script([listing("5", cell("a", "1")), listing("9", cell("a", "8"))], [[EXPIRED]])
    keys = Keys()
    keys.cache.listed("Cell", None, seen=set(), version="0")
    keys.cache.put({**cell("a", "8"), "kind": "Cell", "apiVersion": "v"}, is_told=False)
    await keys.hear(script, watches=2)
    assert keys.told == ["Cell a", "Cell a"]


async def test_an_error_in_a_watch_is_logged_and_the_watch_goes_on(caplog):
    script = Script([listing("5")], [[BROKEN]])
    await Keys().hear(script, watches=2)
    assert "Cell in all namespaces: WATCH /apis/kais.io/v1/cells: etcd is away" in caplog.text
    assert script.watched_from == ["5", "5"]


async def test_a_list_that_fails_is_tried_again():
    script = Script([errors.ClusterUnavailable("no answer"), listing("5")], [])
    keys = Keys()
    assert keys.freshness.problem() == "the first list is missing: Cell"
    await keys.hear(script, watches=1)
    assert keys.freshness.problem() == "the watch of our own Lease has not begun"


def test_our_kinds_are_watched_whole_and_children_by_our_label():
    wanted = {
        (s.kind, s.namespace): s.selector for s in watches.subjects((), operator_namespace="o")
    }
    assert wanted["Mission", None] == ""
    assert wanted["Pod", None] == "app.kubernetes.io/managed-by=kais"
    assert wanted["Lease", "o"] == "app.kubernetes.io/managed-by=kais"
    assert len(wanted) == 15


def test_the_outbox_is_watched_where_the_operator_is():
    wanted = [(s.kind, s.namespace) for s in watches.subjects(("a", "b"), operator_namespace="o")]
    assert ("ConfigMap", "o") in wanted
    assert len(wanted) == 2 * 14 + 2
