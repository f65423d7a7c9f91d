"""Which reads go to the API server, and that decisions on late memory are found out."""

from __future__ import annotations

from typing import Any

import pytest

from kais import labels
from kais_operator import errors
from kais_operator.controllers.cell.decide import service_account
from kais_operator.informer.cache import Cache
from kais_operator.informer.event_handler import EventHandler
from kais_operator.informer.read_through_cluster import CachedCluster
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes.cluster import FakeCluster

MANAGED_LABELS = {labels.MANAGED_BY: labels.MANAGER}
MISSION = ObjectRef("Mission", "demo", "m")
LEVEL = "pod-security.kubernetes.io/enforce"


class Counting(FakeCluster):
    """Counts the reads that reach the API server."""

    def __init__(self, *bodies: Body) -> None:
        super().__init__(*bodies)
        self.reads: list[ObjectRef] = []

    async def get(self, ref: ObjectRef, *, fresh: bool = True) -> Body | None:
        self.reads.append(ref)
        return await super().get(ref)


def body(kind: str, name: str, **metadata: Any) -> Body:
    version = "v1" if kind in ("ConfigMap", "ServiceAccount") else "kais.io/v1"
    fields = {"name": name, "namespace": "demo", **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": fields, "spec": {}}


def cached(live: FakeCluster, *kinds: str) -> tuple[CachedCluster, Cache]:
    """Put memory before a cluster; it has listed these kinds as they are."""
    cache = Cache(labelled=["ConfigMap", "Job", "ServiceAccount"])
    cluster = CachedCluster(live, cache, clock=live.clock)
    for kind in kinds:
        cache.complete_list(kind, None, uids=set(), version="0")
        for ref in live.refs(kind):
            if cache.is_watched(live.read(ref)):
                cache.put(live.read(ref), is_confirmed=True)
    return cluster, cache


async def test_what_the_watches_told_is_read_from_memory():
    live = Counting(body("Mission", "m"), body("ConfigMap", "c", labels=MANAGED_LABELS))
    cluster, _ = cached(live, "Mission", "ConfigMap")
    assert await cluster.get(MISSION) == live.read(MISSION)
    assert await cluster.get_child(ObjectRef("ConfigMap", "demo", "c")) is not None
    assert len(await cluster.list("ConfigMap", "demo")) == 1
    assert live.reads == []


async def test_a_config_map_that_only_bears_our_label_is_not_kept_but_adopted_when_met():
    mission = {"apiVersion": "kais.io/v1", "kind": "Mission", "controller": True, "uid": "u"}
    large = body("ConfigMap", "c", labels=MANAGED_LABELS) | {"data": {"key": "x" * 1_000_000}}
    live = Counting(
        large, body("ConfigMap", "ours", labels=MANAGED_LABELS, ownerReferences=[mission])
    )
    cache = Cache(labelled=["ConfigMap"], owned=["ConfigMap"], operator_namespace="kais-system")
    cluster = CachedCluster(live, cache, clock=live.clock)
    received: list[str] = []
    ear = EventHandler(
        cache, WatchHealth(live.clock, watches=[]), lambda _, b, __: received.append(name_of(b))
    )
    cache.complete_list("ConfigMap", None, uids=set(), version="0")
    for ref in live.refs("ConfigMap"):
        ear.on_watch_event("ConfigMap", live.read(ref), is_deleted=False)
    assert [name_of(b) for b in cache.find("ConfigMap", None, {})] == ["ours"]
    assert received == ["ours"]
    stranger = ObjectRef("ConfigMap", "demo", "c")
    assert await cluster.get_child(stranger) is None, "a create tells who has the name"
    with pytest.raises(errors.AlreadyExists):
        await cluster.create(body("ConfigMap", "c", labels=MANAGED_LABELS))
    assert await cluster.get_child(stranger) == live.read(stranger)
    version = live.read(stranger)["metadata"]["resourceVersion"]
    patch = {"ownerReferences": [mission]}
    await cluster.patch_metadata(stranger, patch, resource_version=version)
    assert [name_of(b) for b in cache.find("ConfigMap", None, {})] == ["c", "ours"]


def test_an_owner_of_a_group_that_begins_like_ours_keeps_no_config_map():
    cache = Cache(labelled=["ConfigMap"], owned=["ConfigMap"])
    for version, is_retained in (("kais.io/v1", True), ("kais.io.evil/v1", False)):
        owner = {"apiVersion": version, "kind": "Mission", "controller": True, "uid": "u"}
        candidate = body("ConfigMap", "c", labels=MANAGED_LABELS, ownerReferences=[owner])
        assert cache.is_cacheable(candidate) is is_retained, version


async def test_a_config_map_that_loses_its_owner_is_let_go_and_its_parents_look():
    mission = {"apiVersion": "kais.io/v1", "kind": "Mission", "controller": True, "uid": "u"}
    live = Counting(body("ConfigMap", "c", labels=MANAGED_LABELS, ownerReferences=[mission]))
    cache = Cache(labelled=["ConfigMap"], owned=["ConfigMap"])
    received: list[str] = []
    ear = EventHandler(
        cache, WatchHealth(live.clock, watches=[]), lambda _, b, __: received.append(name_of(b))
    )
    ref = ObjectRef("ConfigMap", "demo", "c")
    ear.on_watch_event("ConfigMap", live.read(ref), is_deleted=False)
    live.edit(ref, {"metadata": {"ownerReferences": None}})
    for _ in range(2):
        ear.on_watch_event("ConfigMap", live.read(ref), is_deleted=False)
    assert cache.get(ref) is None
    assert received == ["c", "c"]


async def test_an_account_of_somebody_is_told_of_and_not_kept():
    live = Counting(body("ServiceAccount", "shared"))
    cache = Cache(labelled=["ServiceAccount"])
    received: list[str] = []
    ear = EventHandler(
        cache, WatchHealth(live.clock, watches=[]), lambda _, b, __: received.append(name_of(b))
    )
    account = live.read(ObjectRef("ServiceAccount", "demo", "shared"))
    ear.on_watch_event("ServiceAccount", account, is_deleted=False)
    ear.on_watch_event("ServiceAccount", account, is_deleted=True)
    assert received == ["shared", "shared"]
    assert cache.find("ServiceAccount", None, {}) == []


async def test_in_the_operators_namespace_records_without_an_owner_are_kept():
    cache = Cache(labelled=["ConfigMap"], owned=["ConfigMap"], operator_namespace="demo")
    assert cache.is_cacheable(body("ConfigMap", "outbox", labels=MANAGED_LABELS))


def name_of(of: Body) -> str:
    return str(of["metadata"]["name"])


async def test_absence_is_never_said_from_memory_alone():
    live = Counting()
    cluster, _ = cached(live, "Mission", "ServiceAccount")
    live.put(body("Mission", "m"))
    live.put(body("ServiceAccount", "somebodys"))
    assert await cluster.get(MISSION) is not None
    assert await cluster.get(ObjectRef("ServiceAccount", "demo", "somebodys")) is not None


async def test_what_was_told_to_be_gone_is_not_asked_for():
    live = Counting(body("Mission", "m"))
    cluster, cache = cached(live, "Mission")
    cache.record_deletion(live.read(MISSION))
    assert await cluster.get(MISSION) is None
    assert live.reads == []


async def test_a_fresh_read_goes_to_the_api_server_and_is_remembered():
    live = Counting(body("Mission", "m"))
    cluster, cache = cached(live, "Mission")
    live.edit(MISSION, {"spec": {"objective": "new"}})
    assert (await cluster.get(MISSION))["spec"] == {}
    assert (await cluster.get(MISSION, fresh=True))["spec"] == {"objective": "new"}
    assert (await cluster.get(MISSION))["spec"] == {"objective": "new"}
    live.vanish(MISSION)
    assert await cluster.get(MISSION, fresh=True) is None
    assert cache.get(MISSION) is None


async def test_a_write_on_late_memory_is_refused_and_memory_mended():
    live = Counting(body("Mission", "m"))
    cluster, _ = cached(live, "Mission")
    initial_resource_version = (await cluster.get(MISSION))["metadata"]["resourceVersion"]
    live.edit(MISSION, {"metadata": {"annotations": {labels.ABORT: "yes"}}})
    with pytest.raises(errors.Conflict):
        await cluster.patch_metadata(
            MISSION, {"labels": {"x": "y"}}, resource_version=initial_resource_version
        )
    assert (await cluster.get(MISSION))["metadata"]["annotations"] == {labels.ABORT: "yes"}


async def test_a_child_whose_event_is_late_is_found_by_the_create_that_meets_it():
    live = Counting()
    cluster, _ = cached(live, "ConfigMap")
    manifest = live.put(body("ConfigMap", "c", labels=MANAGED_LABELS))
    ref = ObjectRef("ConfigMap", "demo", "c")
    assert await cluster.get_child(ref) is None
    with pytest.raises(errors.AlreadyExists):
        await cluster.create(body("ConfigMap", "c", labels=MANAGED_LABELS))
    assert (await cluster.get_child(ref))["metadata"]["uid"] == manifest["metadata"]["uid"]


def job() -> Body:
    owner = {"kind": "Mission", "name": "m", "uid": "any", "controller": True}
    return {
        **body("Job", "m-a1", labels=MANAGED_LABELS, ownerReferences=[owner]),
        "apiVersion": "batch/v1",
    }


@pytest.mark.parametrize("change", ["aborted", "deleted"])
async def test_no_job_is_made_for_a_mission_that_is_not_as_it_was_read(change):
    live = Counting(body("Mission", "m"))
    cluster, _ = cached(live, "Mission", "Job")
    if change == "aborted":
        live.edit(MISSION, {"metadata": {"annotations": {labels.ABORT: "yes"}}})
    else:
        live.vanish(MISSION)
    with pytest.raises(errors.NotReady, match="Job/demo/m-a1 waits: Mission/demo/m has changed"):
        await cluster.create(job())
    assert live.refs("Job") == []


async def test_a_job_is_made_when_its_mission_is_as_it_was_read():
    live = Counting(body("Mission", "m"))
    cluster, _ = cached(live, "Mission", "Job")
    await cluster.create(job())
    assert live.reads == [MISSION]
    assert live.refs("Job") == [ObjectRef("Job", "demo", "m-a1")]


async def test_a_namespace_is_read_again_only_when_it_may_be_another():
    live = Counting(body("Cell", "a"))
    cluster, cache = cached(live, "Cell")
    realm = ObjectRef("Namespace", "", "demo")
    first = await cluster.get(realm)
    assert await cluster.get(realm) == first
    assert live.reads == [realm]
    live.vanish(realm)
    manifest = live.put(body("Cell", "b"))
    cache.put(manifest, is_confirmed=True)
    second = await cluster.get(realm)
    assert second is not None
    assert first is not None
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_changed_label_of_a_namespace_is_seen_before_a_refused_cell_is_tried_again():
    live = Counting(body("Cell", "a"))
    cluster, _ = cached(live, "Cell")
    realm = ObjectRef("Namespace", "", "demo")
    await cluster.get(realm)
    live.edit(realm, {"metadata": {"labels": {LEVEL: "privileged"}}})
    live.clock.advance(service_account.NOT_ALLOWED_RETRY_INTERVAL.total_seconds())
    labelled = await cluster.get(realm)
    assert labelled is not None
    assert labelled["metadata"]["labels"] == {LEVEL: "privileged"}


async def test_a_burst_of_a_thousand_cells_reads_their_namespace_a_few_times():
    live = Counting(body("Cell", "a"))
    cluster, _ = cached(live, "Cell")
    for _ in range(1000):
        await cluster.get(ObjectRef("Namespace", "", "demo"))
        live.clock.advance(0.03)
    assert len(live.reads) <= 4


async def test_namespaces_that_nobody_reads_any_more_are_forgotten():
    names = [f"review-{number}" for number in range(50)]
    live = Counting(*(body("Cell", "a", namespace=name) for name in names))
    cluster, _ = cached(live, "Cell")
    for name in names:
        await cluster.get(ObjectRef("Namespace", "", name))
        live.clock.advance(60)
    assert len(cluster._namespaces) == 1


async def test_before_the_first_list_everything_is_asked_for():
    live = Counting(body("Mission", "m"))
    cluster, _ = cached(live)
    assert await cluster.get(MISSION) is not None
    assert await cluster.get_child(ObjectRef("Mission", "demo", "n")) is None
    assert len(live.reads) == 2
