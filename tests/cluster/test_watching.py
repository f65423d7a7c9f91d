"""What a watch tells of a real API server, over gaps and silences."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from kais_operator.adapters import connection, watching
from kais_operator.adapters.clock import SystemClock
from kais_operator.adapters.cluster import ApiCluster
from kais_operator.adapters.watching import KindWatch, Subject
from kais_operator.decide.plan import Body, ObjectRef
from tests.contract import cluster_port

pytestmark = pytest.mark.cluster


class Heard:
    """Notes everything that it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.kinds: set[tuple[str, str]] = set()
        self.lists: list[set[str]] = []

    def listed(self, kind: str, body: Body) -> None:
        self._note("listed", body)

    def list_ended(self, kind: str, namespace: str | None, *, seen: set[str], version: str) -> None:
        self.lists.append(seen)

    def happened(self, kind: str, body: Body, *, is_gone: bool) -> None:
        self._note("gone" if is_gone else "changed", body)

    def heard(self, kind: str, namespace: str | None) -> None:
        pass

    def _note(self, how: str, body: Body) -> None:
        self.told.append(f"{how} {body['metadata']['name']}")
        self.kinds.add((body["apiVersion"], body["kind"]))


@pytest.fixture
async def link(control_plane) -> AsyncIterator[connection.Connection]:
    made = await connection.connect(str(control_plane.kubeconfig))
    yield made
    await made.close()


@pytest.fixture
def cluster(link: connection.Connection) -> ApiCluster:
    return ApiCluster(link, leads=lambda: True, clock=SystemClock())


def watch_of(link: connection.Connection, namespace: str, heard: Heard) -> KindWatch:
    subject = Subject("ConfigMap", namespace, "set=watched")
    return KindWatch(link, subject, heard, lists=asyncio.Semaphore(1))


@contextlib.asynccontextmanager
async def running(watch: KindWatch) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(look: Callable[[], bool], *, what: str) -> None:
    for _ in range(200):
        if look():
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"not within 20 s: {what}")


def config_map(namespace: str, name: str) -> Body:
    return cluster_port.config_map(namespace, name, labels={"set": "watched"})


async def test_it_lists_in_pages_and_then_tells_what_happens(link, cluster, namespace, monkeypatch):
    monkeypatch.setattr(watching, "_PAGE", "2")
    for name in ("a", "b", "c"):
        await cluster.create(config_map(namespace, name))
    await cluster.create(cluster_port.config_map(namespace, "other"))
    heard = Heard()
    async with running(watch_of(link, namespace, heard)):
        await until(lambda: len(heard.lists) == 1, what="the list")
        assert heard.told == ["listed a", "listed b", "listed c"]
        made = await cluster.create(config_map(namespace, "d"))
        await cluster.delete(ObjectRef("ConfigMap", namespace, "d"), uid=made["metadata"]["uid"])
        await until(lambda: len(heard.told) == 5, what="two events")
    assert heard.told[3:] == ["changed d", "gone d"]
    assert heard.kinds == {("v1", "ConfigMap")}


async def test_an_object_that_leaves_the_selection_is_told_to_be_gone(link, cluster, namespace):
    made = await cluster.create(config_map(namespace, "a"))
    heard = Heard()
    async with running(watch_of(link, namespace, heard)):
        await until(lambda: len(heard.lists) == 1, what="the list")
        await cluster.patch_metadata(
            ObjectRef("ConfigMap", namespace, "a"),
            {"labels": {"set": None}},
            resource_version=made["metadata"]["resourceVersion"],
        )
        await until(lambda: len(heard.told) == 2, what="an event")
    assert heard.told == ["listed a", "gone a"]


async def test_a_silent_watch_goes_on_where_it_was_without_a_list(
    link, cluster, namespace, monkeypatch
):
    monkeypatch.setattr(watching, "SILENCE_S", 0.5)
    heard = Heard()
    async with running(watch_of(link, namespace, heard)):
        await until(lambda: link.requests["watch"] > 2, what="the watch is opened again")
        await cluster.create(config_map(namespace, "a"))
        await until(lambda: heard.told == ["changed a"], what="the event")
    assert len(heard.lists) == 1


async def test_a_kind_that_cannot_be_had_is_logged_once_and_tried_again(link, namespace, caplog):
    subject = Subject("ConfigMap", namespace, "no valid (selector")
    async with running(KindWatch(link, subject, Heard(), lists=asyncio.Semaphore(1))):
        await until(lambda: link.requests["list"] > 2, what="tried again")
    assert caplog.text.count(f"ConfigMap in {namespace}: GET") == 1
