"""Memory over a real API server: what watches tell, and what sweeps find that they did not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kais import labels
from kais_operator.clock import SystemClock
from kais_operator.informer import event_handler, list_client, relist, watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.child_watches import ChildWatches
from kais_operator.informer.list_client import ListClient, WatchTarget
from kais_operator.informer.relist import Relister
from kais_operator.informer.watch_client import WatchClient
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.kubernetes import api_client
from kais_operator.kubernetes.cluster import ApiCluster
from kais_operator.planning.plan import Body, ObjectRef
from tests.cluster.conftest import ControlPlane
from tests.cluster.proxy import Proxy
from tests.contract import cluster_port

pytestmark = pytest.mark.cluster


async def close(opened_client: api_client.ApiClient) -> None:
    """Close a client, and wait until its loop has closed the TLS connections; see aiohttp's docs.

    A watch that was cancelled says goodbye to its peer after `close` has returned.
    """
    await opened_client.close()
    await asyncio.sleep(0.5)


@pytest.fixture
async def link(control_plane: ControlPlane) -> AsyncIterator[api_client.ApiClient]:
    opened_client = await api_client.connect(str(control_plane.kubeconfig))
    yield opened_client
    await close(opened_client)


@pytest.fixture
def cluster(link: api_client.ApiClient) -> ApiCluster:
    return ApiCluster(link, is_leader=lambda: True, clock=SystemClock())


@pytest.fixture
async def proxied(
    control_plane: ControlPlane, proxy: Proxy, tmp_path: Path
) -> AsyncIterator[api_client.ApiClient]:
    """A connection through the proxy, for watches; sweeps go past it."""
    text = control_plane.kubeconfig.read_text()
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(text.replace(control_plane.server, f"https://127.0.0.1:{proxy.port}"))
    opened_client = await api_client.connect(str(elsewhere))
    yield opened_client
    # A connection through a silent proxy would wait for the peer's goodbye, beyond this event loop.
    proxy.cut()
    await close(opened_client)


class Memory:
    """Memory of the ConfigMaps of one namespace, and who fills it."""

    def __init__(self, link: api_client.ApiClient, namespace: str) -> None:
        self.namespace = namespace
        self.subject = WatchTarget("ConfigMap", namespace, watch_targets.CHILD_SELECTOR)
        self.told: list[str] = []
        self.cache = Cache(labelled=watch_targets.CHILD_KINDS)
        self.fresh = WatchHealth(SystemClock(), watches=[("ConfigMap", namespace)])
        self.ear = event_handler.EventHandler(self.cache, self.fresh, self._hear)
        self.sweeper = Relister(ListClient(link), self.cache, self.ear, self.fresh)

    def _hear(self, kind: str, body: Body, is_deleted: bool) -> None:
        if kind == "ConfigMap":
            self.told.append(f"{body['metadata']['name']}{' gone' if is_deleted else ''}")

    def names(self) -> list[str]:
        return [b["metadata"]["name"] for b in self.cache.find("ConfigMap", self.namespace, {})]

    @contextlib.asynccontextmanager
    async def watched(self, watching: api_client.ApiClient) -> AsyncIterator[None]:
        """Watch from the present version on, and list, as a session does."""

        def happened(kind: str, body: Body, is_deleted: bool) -> None:
            self.ear.on_watch_event(kind, body, is_deleted=is_deleted)

        client = StartedWatches(watching)
        task = asyncio.create_task(
            ChildWatches(client, happened, self.ear.on_unreadable, self.fresh).run((self.subject,))
        )
        await client.has_begun.wait()
        await self.sweeper.load(self.subject)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class StartedWatches(WatchClient):
    """Tells when the version is known from which a watch begins."""

    def __init__(self, link: api_client.ApiClient) -> None:
        super().__init__(link)
        self.has_begun = asyncio.Event()

    async def current_version(self, target: WatchTarget) -> str:
        version = await super().current_version(target)
        self.has_begun.set()
        return version


async def until(read: Callable[[], bool], *, subject: str, within_s: float = 20) -> None:
    for _ in range(int(within_s * 10)):
        if read():
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"not within {within_s:.0f} s: {subject}")


def config_map(namespace: str, name: str) -> Body:
    return cluster_port.config_map(namespace, name, labels={labels.MANAGED_BY: labels.MANAGER})


async def remove(cluster: ApiCluster, manifest: Body) -> None:
    metadata = manifest["metadata"]
    ref = ObjectRef("ConfigMap", metadata["namespace"], metadata["name"])
    await cluster.delete(ref, uid=metadata["uid"])


async def test_a_watch_tells_what_happens_after_a_list_and_nothing_twice(link, cluster, namespace):
    await cluster.create(config_map(namespace, "a"))
    await cluster.create(
        cluster_port.config_map(namespace, "other", labels={labels.MANAGED_BY: "another"})
    )
    memory = Memory(link, namespace)
    async with memory.watched(link):
        created = await cluster.create(config_map(namespace, "b"))
        await until(lambda: memory.told == ["a", "b"], subject="the event")
        await remove(cluster, created)
        await until(lambda: memory.told == ["a", "b", "b gone"], subject="the end")
    assert memory.names() == ["a"]


async def test_an_object_that_leaves_the_selection_is_told_to_be_gone(link, cluster, namespace):
    created = await cluster.create(config_map(namespace, "a"))
    memory = Memory(link, namespace)
    async with memory.watched(link):
        await until(lambda: memory.told == ["a"], subject="the object")
        await cluster.patch_metadata(
            ObjectRef("ConfigMap", namespace, "a"),
            {"labels": {labels.MANAGED_BY: None}},
            resource_version=created["metadata"]["resourceVersion"],
        )
        await until(lambda: memory.told == ["a", "a gone"], subject="the end")


async def test_a_sweep_in_pages_finds_what_went_and_came_while_nobody_watched(
    link, cluster, namespace, monkeypatch
):
    monkeypatch.setattr(relist, "WATCH_GRACE_S", 0.01)
    monkeypatch.setattr(list_client, "_METADATA_PAGE_SIZE", 2)
    monkeypatch.setattr(list_client, "PAGE_SIZE", 2)
    manifest = {name: await cluster.create(config_map(namespace, name)) for name in ("a", "b", "c")}
    memory = Memory(link, namespace)
    await memory.sweeper.load(memory.subject)
    await remove(cluster, manifest["b"])
    await cluster.create(config_map(namespace, "d"))
    await memory.sweeper.verify(memory.subject)
    assert memory.told == ["a", "b", "c", "b gone", "d"]
    assert memory.names() == ["a", "c", "d"]


async def test_what_went_while_the_watch_was_cut_is_forgotten(
    link, cluster, namespace, proxy, proxied
):
    created = await cluster.create(config_map(namespace, "a"))
    memory = Memory(link, namespace)
    async with memory.watched(proxied):
        await until(lambda: memory.told == ["a"], subject="the object")
        proxy.cut()
        await remove(cluster, created)
        await cluster.create(config_map(namespace, "b"))
        proxy.mend()
        await until(lambda: memory.names() == ["b"], subject="memory is right", within_s=40)
    assert memory.told == ["a", "a gone", "b"]


async def test_a_watch_that_falls_silent_is_made_up_for_by_sweeps(
    link, cluster, namespace, proxy, proxied, monkeypatch
):
    monkeypatch.setattr(relist, "FIRST_RELIST_S", 1)
    monkeypatch.setattr(relist, "RELIST_PERIOD_S", 1)
    monkeypatch.setattr(relist, "WATCH_GRACE_S", 1)
    created = await cluster.create(config_map(namespace, "a"))
    memory = Memory(link, namespace)
    async with memory.watched(proxied):
        await until(lambda: memory.told == ["a"], subject="the object")
        proxy.fall_silent()
        await remove(cluster, created)
        await cluster.create(config_map(namespace, "b"))
        await asyncio.sleep(2)
        assert memory.told == ["a"], "the watch is not silent"
        sweeps = asyncio.create_task(memory.sweeper.run((memory.subject,)))
        await until(lambda: memory.names() == ["b"], subject="memory is right")
        sweeps.cancel()
        await asyncio.gather(sweeps, return_exceptions=True)
        proxy.cut()
    assert sorted(memory.told) == ["a", "a gone", "b"]
