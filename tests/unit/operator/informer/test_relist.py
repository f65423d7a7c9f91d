"""Lists fill the cache, and relists report what no watch reported."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from msgspec import json

from kais_operator import errors
from kais_operator.informer import event_handler, list_client, relist, watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.list_client import ListClient, ObjectVersion, WatchTarget
from kais_operator.informer.relist import Relister
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.planning.plan import ObjectRef
from tests.fakes import deep_json
from tests.fakes.clock import FakeClock
from tests.fakes.simulated_time import SimulatedTimeLoop

CELLS = WatchTarget("Cell", None)
GRACE_S = relist.WATCH_GRACE_S


def cell(name: str, version: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "demo", "uid": name, "resourceVersion": version}
    return {"metadata": metadata}


def full(name: str, version: str) -> dict[str, Any]:
    return {"apiVersion": "kais.io/v1", "kind": "Cell", **cell(name, version)}


class Server:
    """Has cells, and answers as `adapters.connection` does; `refusals` come first."""

    def __init__(self, version: str, *cells: dict[str, Any]) -> None:
        self.version = version
        self.cells = list(cells)
        self.refusals: list[Exception] = []
        self.asked: list[str] = []
        self.deep_names: set[str] = set()

    def has(self, version: str, *cells: dict[str, Any]) -> None:
        self.version, self.cells = version, list(cells)

    async def call(self, method: str, path: str) -> dict[str, Any]:
        self._note(path.rpartition("/")[2])
        if path.rpartition("/")[2] in self.deep_names:
            raise errors.TooDeep(path)
        for first_cell in self.cells:
            if path.endswith(f"/demo/cells/{first_cell['metadata']['name']}"):
                return {"apiVersion": "kais.io/v1", "kind": "Cell", **first_cell}
        raise errors.NotFound(path)

    async def get_bytes(self, path: str, *, query: Mapping[str, str], accept: str) -> bytes:
        if "as=PartialObjectMetadataList" not in accept:
            self._note(path.rpartition("/")[2])
            return self._encode(
                {"metadata": {"resourceVersion": self.version}, "items": self.cells}
            )
        self._note("marks")
        first = int(query.get("continue", 0))
        following = str(first + 1) if first + 1 < len(self.cells) else ""
        metadata = {"resourceVersion": self.version, "continue": following}
        return self._encode({"metadata": metadata, "items": self.cells[first : first + 1]})

    def _encode(self, page: dict[str, Any]) -> bytes:
        """Encode a page; the metadata of deep cells nest, as their managed fields do."""
        content = json.encode(page)
        for name in self.deep_names:
            content = deep_json.nest(content, deep_json.LEVELS, before=f'"name":"{name}"'.encode())
        return content

    def _note(self, request: str) -> None:
        self.asked.append(request)
        if self.refusals:
            raise self.refusals.pop(0)


class Heard:
    def __init__(self, server: Server) -> None:
        self.cache = Cache(labelled=())
        self.freshness = WatchHealth(FakeClock(), watches=[("Cell", None)])
        self.told: list[str] = []
        self.ear = event_handler.EventHandler(self.cache, self.freshness, self._hear)
        self.sweeper = Relister(ListClient(server), self.cache, self.ear, self.freshness)

    def _hear(self, kind: str, body: dict[str, Any], is_deleted: bool) -> None:
        self.told.append(f"{body['metadata']['name']}{' gone' if is_deleted else ''}")

    def names(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.cache.find("Cell", "demo", {})]


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relist, "WATCH_GRACE_S", 0.001)


async def test_what_went_without_a_word_is_forgotten_and_told():
    server = Server("5", cell("a", "1"), cell("b", "2"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    server.has("9", cell("b", "2"))
    await announcement.sweeper.verify(CELLS)
    assert announcement.told == ["a", "b", "a gone"]
    assert announcement.names() == ["b"]


async def test_what_changed_without_a_word_is_read_and_told(caplog):
    server = Server("5", cell("a", "1"), cell("b", "2"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    server.has("9", cell("a", "8"), cell("b", "2"), cell("c", "9"))
    await announcement.sweeper.verify(CELLS)
    assert announcement.told == ["a", "b", "a", "c"]
    assert announcement.cache.version(ObjectRef("Cell", "demo", "a")) == "8"
    assert "Cell/demo/a: no watch reported its change; read it" in caplog.text


async def test_a_sweep_over_what_is_known_reads_nothing():
    server = Server("5", cell("a", "1"), cell("b", "2"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    await announcement.sweeper.verify(CELLS)
    assert server.asked == ["cells", "marks", "marks"]
    assert announcement.told == ["a", "b"]


@pytest.mark.simulated_time
async def test_a_watch_that_is_only_late_is_not_overtaken(monkeypatch):
    monkeypatch.setattr(relist, "WATCH_GRACE_S", 0.05)
    server = Server("5", cell("a", "1"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    server.has("9", cell("a", "8"))
    sweeping_now = asyncio.create_task(announcement.sweeper.verify(CELLS))
    await asyncio.sleep(0.01)
    announcement.ear.on_watch_event("Cell", full("a", "8"), is_deleted=False)
    await sweeping_now
    assert announcement.told == ["a", "a"]
    assert server.asked == ["cells", "marks"]


async def test_a_cell_that_nests_too_deeply_is_skipped_with_one_warning(caplog):
    server = Server("5", cell("a", "1"), cell("deep", "2"), cell("z", "3"))
    server.deep_names.add("deep")
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    await announcement.sweeper.verify(CELLS)
    await announcement.sweeper.load(CELLS)
    assert announcement.names() == announcement.told == ["a", "z"]
    warning = "Cell/demo/deep nests deeper than 500 levels: make it shallower or delete it"
    assert [warning in r.getMessage() for r in caplog.records] == [True]
    assert server.asked.count("deep") == 0, "a relist reads no object that was skipped"


async def test_a_cell_that_became_too_deep_is_kept_as_it_was_and_read_when_it_is_shallow(caplog):
    server = Server("5", cell("a", "1"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    server.deep_names.add("a")
    server.has("9", cell("a", "8"))
    await announcement.sweeper.verify(CELLS)
    await announcement.sweeper.verify(CELLS)
    assert announcement.told == ["a"], "neither changed nor deleted"
    assert announcement.cache.version(ObjectRef("Cell", "demo", "a")) == "1"
    assert caplog.text.count("Cell/demo/a nests deeper than") == 1
    server.deep_names.clear()
    server.has("12", cell("a", "11"))
    await announcement.sweeper.verify(CELLS)
    assert announcement.told == ["a", "a"]


async def test_a_cell_that_became_too_deep_is_reported_when_it_is_deleted():
    server = Server("5", cell("a", "1"), cell("deleted", "2"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    server.deep_names = {"a", "deleted"}
    deleted = cell("deleted", "9")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    server.has("9", deleted)
    await announcement.sweeper.load(CELLS)
    assert announcement.told == ["a", "deleted", "deleted", "a gone"]


async def test_our_own_write_is_told_when_its_event_was_missed():
    server = Server("5", cell("a", "1"))
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    announcement.cache.put(full("a", "8"), is_confirmed=False)
    server.has("9", cell("a", "8"))
    await announcement.sweeper.verify(CELLS)
    assert announcement.told == ["a", "a"]


async def test_what_came_after_the_list_is_kept():
    server = Server("5")
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    announcement.cache.put(full("new", "12"), is_confirmed=False)
    server.has("11")
    await announcement.sweeper.verify(CELLS)
    assert announcement.names() == ["new"]
    assert announcement.told == []


async def test_a_long_gap_is_listed_anew_instead_of_read_one_by_one(monkeypatch, caplog):
    monkeypatch.setattr(relist, "_FULL_LIST_THRESHOLD", 2)
    server = Server("5")
    announcement = Heard(server)
    await announcement.sweeper.load(CELLS)
    server.has("9", cell("a", "6"), cell("b", "7"), cell("c", "8"))
    await announcement.sweeper.verify(CELLS)
    assert server.asked == ["cells", "marks", "marks", "marks", "cells"]
    assert announcement.told == ["a", "b", "c"]
    assert "Cell in all namespaces: the watches missed 3 changes; relisted" in caplog.text


async def test_an_event_of_what_a_list_told_is_not_told_again():
    announcement = Heard(Server("5", cell("a", "1")))
    await announcement.sweeper.load(CELLS)
    announcement.ear.on_watch_event("Cell", full("a", "1"), is_deleted=False)
    announcement.ear.on_watch_event("Cell", full("a", "6"), is_deleted=False)
    assert announcement.told == ["a", "a"]


async def test_only_news_of_a_watch_is_worth_handing_over():
    announcement = Heard(Server("5", cell("a", "1"), cell("b", "2")))
    await announcement.sweeper.load(CELLS)
    announcement.cache.put(full("b", "7"), is_confirmed=False)
    assert announcement.ear.is_up_to_date("Cell", full("a", "1"))
    assert not announcement.ear.is_up_to_date("Cell", full("a", "6"))
    assert not announcement.ear.is_up_to_date("Cell", full("b", "7")), (
        "our own write, which no watch told"
    )
    assert not announcement.ear.is_up_to_date("Cell", full("c", "1"))
    assert not announcement.ear.is_up_to_date("Lease", full("a", "1")), (
        "the probe is told for its own sake"
    )


async def test_a_list_that_fails_is_logged_once_and_tried_again(monkeypatch, caplog):
    monkeypatch.setattr(relist, "_RETRY_RANGE_S", (0.001, 0.001))
    monkeypatch.setattr(relist, "FIRST_RELIST_S", 0.001)
    server = Server("5", cell("a", "1"))
    server.refusals = [errors.ClusterUnavailable("no answer") for _ in range(3)]
    announcement = Heard(server)
    assert announcement.freshness.problem() == "the first list is missing: Cell"
    running = asyncio.create_task(announcement.sweeper.run((CELLS,)))
    async with asyncio.timeout(60):
        while "marks" not in server.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert announcement.freshness.problem() == "the watch of our own Lease has not begun"
    assert caplog.text.count("Cell in all namespaces: no answer") == 1


def test_a_silent_watch_heals_within_90_seconds(monkeypatch):
    """The watch says nothing at all: only sweeps can find the change, at the worst moment."""
    monkeypatch.setattr(relist, "WATCH_GRACE_S", GRACE_S)

    async def healing_s() -> float:
        server = Server("5", cell("a", "1"))
        announcement = Heard(server)
        running = asyncio.create_task(announcement.sweeper.run((CELLS,)))
        clock = asyncio.get_running_loop().time
        while server.asked.count("marks") < 2:  # noqa: ASYNC110 - no time passes
            await asyncio.sleep(0.01)
        server.has("9", cell("a", "8"))
        since_s = clock()
        while announcement.told != ["a", "a"] and clock() - since_s < 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return clock() - since_s

    with asyncio.Runner(loop_factory=SimulatedTimeLoop) as runner:
        took_s = runner.run(healing_s())
    assert relist.RELIST_PERIOD_S / 2 < took_s < 90, "by a sweep, and soon enough"


def test_what_nobody_of_ours_controls_is_not_asked_for_by_each_sweep():
    cache = Cache(labelled=["ConfigMap"], owned=["ConfigMap"], operator_namespace="kais-system")
    server = Server("5")
    fresh = WatchHealth(FakeClock(), watches=[])
    ear = event_handler.EventHandler(cache, fresh, lambda *_: None)
    sweeper = Relister(ListClient(server), cache, ear, fresh)
    stranger = ObjectVersion(ObjectRef("ConfigMap", "demo", "large"), "u1", "4")
    own_object_version = ObjectVersion(
        ObjectRef("ConfigMap", "demo", "ours"), "u2", "4", is_controlled=True
    )
    record = ObjectVersion(ObjectRef("ConfigMap", "kais-system", "outbox"), "u3", "4")
    assert sweeper._missed_changes((stranger, own_object_version, record)) == (
        own_object_version,
        record,
    )


async def test_the_objects_of_a_page_are_decoded_one_at_a_time():
    fields = {f"f:{number}": {".": {}} for number in range(100)}
    page = [{**cell(f"c{number}", "1"), "spec": fields} for number in range(list_client.PAGE_SIZE)]
    server = Server("5", *page)
    server_bytes = len(json.encode(page))
    tracemalloc.start()
    try:
        async for bodies, _ in ListClient(server).pages(CELLS):
            assert sum(len(body["spec"]) for body in bodies) == 100 * len(page)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * server_bytes, "beside the page and its bytes, one object"


async def test_a_page_that_is_no_list_is_an_error_of_the_cluster():
    for items in ([1], ["{"], [[]]):
        server = Server("5")
        server.cells = items
        with pytest.raises(errors.ClusterUnavailable, match="the answer is no list"):
            await Heard(server).sweeper.load(CELLS)


async def test_a_mark_says_whether_an_object_of_ours_controls_it():
    owner = {"apiVersion": "kais.io/v1", "controller": True}
    for owners, expected in (
        ([owner], True),
        ([{**owner, "controller": False}], False),
        ([{**owner, "apiVersion": "apps/v1"}], False),
        ([{**owner, "apiVersion": "kais.io.evil/v1"}], False),
        ([], False),
    ):
        of = cell("a", "1")
        of["metadata"]["ownerReferences"] = owners
        marks = await ListClient(Server("5", of)).versions(CELLS)
        assert [mark.is_controlled for mark in marks.objects] == [expected], owners


def test_our_kinds_are_held_whole_and_children_by_our_label():
    expected = {
        (s.kind, s.namespace): s.selector
        for s in watch_targets.list_targets((), operator_namespace="o")
    }
    assert expected["Mission", None] == ""
    assert expected["Pod", None] == "app.kubernetes.io/managed-by=kais"
    assert len(expected) == 14


def test_the_outbox_is_held_where_the_operator_is():
    expected = [
        (s.kind, s.namespace)
        for s in watch_targets.list_targets(("a", "b"), operator_namespace="o")
    ]
    assert ("ConfigMap", "o") in expected
    assert len(expected) == 2 * 14 + 1


def test_the_memory_of_skipped_objects_is_bounded(monkeypatch):
    monkeypatch.setattr(event_handler, "_MAX_UNREADABLE", 2)
    ear = Heard(Server("1")).ear
    skipped = [ObjectVersion(ObjectRef("Cell", "demo", name), name, "1") for name in "abc"]
    for change in skipped:
        ear.on_unreadable(change)
    assert [ear.is_unreadable(change) for change in skipped] == [False, True, True]


class Namespaces:
    """Answers the lists of namespaces, and refuses those in `forbidden`."""

    def __init__(self, *forbidden: str) -> None:
        self.forbidden = set(forbidden)
        self.asked: list[tuple[float, str]] = []

    async def get_bytes(self, path: str, *, query: Mapping[str, str], accept: str) -> bytes:
        namespace, kind = path.split("/")[-2:]
        self.asked.append((asyncio.get_running_loop().time(), f"{kind} in {namespace}"))
        if namespace in self.forbidden:
            raise errors.Forbidden(f"{kind} is forbidden in {namespace}")
        return json.encode({"metadata": {"resourceVersion": "1"}, "items": []})

    def times_s(self, subject: str) -> list[float]:
        return [at_s for at_s, asked in self.asked if asked == subject]


@pytest.fixture
def two_namespaces() -> tuple[WatchHealth, tuple[WatchTarget, ...]]:
    targets = tuple(WatchTarget(kind, ns) for ns in ("a", "b") for kind in ("Cell", "Mission"))
    watches = [(target.kind, target.namespace) for target in targets]
    return WatchHealth(FakeClock(), watches=watches, namespaces=("a", "b")), targets


def relister_of(server: Namespaces, health: WatchHealth) -> Relister:
    cache = Cache(labelled=())
    handler = event_handler.EventHandler(cache, health, lambda *_: None)
    return Relister(ListClient(server), cache, handler, health)


@contextlib.asynccontextmanager
async def relisting(
    server: Namespaces, health: WatchHealth, targets: tuple[WatchTarget, ...]
) -> AsyncIterator[None]:
    running = asyncio.create_task(relister_of(server, health).run(targets))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.simulated_time
async def test_an_absent_namespace_is_listed_every_30_seconds_and_logged_once(
    two_namespaces, caplog
):
    health, targets = two_namespaces
    server = Namespaces("b")
    async with relisting(server, health, targets):
        await asyncio.sleep(300)
    assert health.absent == {"b"}
    times_s = server.times_s("cells in b")[1:]  # the first failed before the other kind did
    assert all(
        0.8 * relist.ABSENT_PERIOD_S <= later - earlier <= relist.ABSENT_PERIOD_S
        for earlier, later in itertools.pairwise(times_s)
    )
    assert len(times_s) > 9
    assert len([r for r in caplog.records if "b" in r.getMessage()]) == 1


@pytest.mark.simulated_time
async def test_the_first_list_that_works_again_calls_the_others_of_its_namespace(two_namespaces):
    health, targets = two_namespaces
    server = Namespaces("b")
    async with relisting(server, health, targets):
        await asyncio.sleep(100)
        server.forbidden.clear()
        await health.wait_present("b")
        await asyncio.sleep(1)
    assert health.problem() == "the watch of our own Lease has not begun"
    last_s = [server.times_s(f"{kind} in b")[-1] for kind in ("cells", "missions")]
    assert abs(last_s[0] - last_s[1]) < 1


@pytest.mark.simulated_time
async def test_a_namespace_that_is_deleted_during_a_session_is_absent_within_a_minute(
    two_namespaces, caplog
):
    health, targets = two_namespaces
    server = Namespaces()
    async with relisting(server, health, targets):
        await asyncio.sleep(1000)  # the relists of the kinds are far apart by now
        server.forbidden.add("b")
        await asyncio.sleep(60)
        assert health.absent == {"b"}
        await asyncio.sleep(200)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("namespace b: every list is forbidden")


@pytest.mark.simulated_time
async def test_a_right_that_is_lost_during_a_session_is_logged_once(two_namespaces, caplog):
    health, targets = two_namespaces
    server = Namespaces()
    async with relisting(server, health, targets[:3]):
        await asyncio.sleep(100)
        server.forbidden.add("b")
        await asyncio.sleep(300)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("Cell in b: ")
    assert health.absent == frozenset()


@pytest.mark.simulated_time
async def test_a_namespace_that_is_back_in_part_is_watched_and_says_what_it_lacks(
    two_namespaces, caplog, monkeypatch
):
    """The Role may come in parts, and an older one may lack a kind."""
    health, targets = two_namespaces
    server = Namespaces("b")
    refuse = server.get_bytes

    async def refuse_missions(path: str, *, query: Mapping[str, str], accept: str) -> bytes:
        if path.endswith("/b/missions"):
            raise errors.Forbidden("missions is forbidden in b")
        return await refuse(path, query=query, accept=accept)

    monkeypatch.setattr(server, "get_bytes", refuse_missions)
    async with relisting(server, health, targets):
        await asyncio.sleep(100)
        server.forbidden.clear()
        await asyncio.sleep(100)
    assert health.absent == frozenset()
    assert health.problem() == "the first list is missing: Mission"
    assert caplog.text.count("Mission in b: missions is forbidden in b") == 1


@pytest.mark.simulated_time
async def test_lists_that_are_forbidden_everywhere_are_repeated_soon_and_each_is_logged_once(
    two_namespaces, caplog
):
    health, targets = two_namespaces
    server = Namespaces("a", "b")
    async with relisting(server, health, targets):
        await asyncio.sleep(100)
    assert health.absent == frozenset()
    assert len(server.times_s("cells in b")) > 10
    assert len(caplog.records) == len(targets)
