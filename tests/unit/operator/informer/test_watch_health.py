"""A leader is ready when its first lists are done and its watches are not silent."""

from __future__ import annotations

import asyncio

import pytest

from kais_operator import errors
from kais_operator.informer import watch_health
from kais_operator.informer.watch_health import WatchHealth
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.simulated_time


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


class Probe:
    def __init__(self, *, error: Exception | None = None) -> None:
        self.error = error
        self.touched = 0

    async def touch(self) -> None:
        self.touched += 1
        if self.error:
            raise self.error


async def run_a_moment(fresh: WatchHealth, probe: Probe) -> None:
    running = asyncio.create_task(fresh.run(probe.touch))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_every_watch_has_to_list_once_even_if_there_is_nothing(clock):
    fresh = WatchHealth(clock, watches=[("Cell", "a"), ("Cell", "b"), ("Job", None)])
    assert fresh.problem() == "the first list is missing: Cell, Job"
    fresh.record_list("Cell", "a")
    fresh.record_list("Job", None)
    assert fresh.problem() == "the first list is missing: Cell"
    fresh.record_list("Cell", "b")
    fresh.record_heartbeat()
    assert fresh.problem() is None


async def test_work_begins_when_all_is_listed(clock):
    fresh = WatchHealth(clock, watches=[("Cell", None)])
    waiting = asyncio.create_task(fresh.wait_listed(timeout_s=30))
    await asyncio.sleep(0)
    assert not waiting.done()
    fresh.record_list("Cell", None)
    await asyncio.wait_for(waiting, 1)


async def test_work_does_not_wait_for_a_list_that_cannot_be_had(clock, caplog):
    fresh = WatchHealth(clock, watches=[("Pod", None)])
    await fresh.wait_listed(timeout_s=0.01)
    assert "the first list is missing: Pod; working without it" in caplog.text


async def test_a_silent_cluster_is_found_out(clock):
    fresh = WatchHealth(clock, watches=())
    probe = Probe()
    await run_a_moment(fresh, probe)
    assert probe.touched == 1
    assert fresh.problem() == "the watch of our own Lease has not begun"
    fresh.record_heartbeat()
    assert fresh.problem() is None
    clock.advance(watch_health.STALE_S + 1)
    assert fresh.problem() == "no watch event for 181 s, though our own Lease was touched"
    fresh.record_heartbeat()
    assert fresh.problem() is None


async def test_a_kind_that_cannot_be_listed_any_more_is_found_out_by_its_name(clock):
    fresh = WatchHealth(clock, watches=())
    fresh.record_list("Pod", None)
    clock.advance(watch_health.STALE_S + 1)
    fresh.record_list("Cell", None)
    fresh.record_heartbeat()
    assert fresh.problem() == "Pod could not be listed for 181 s"
    fresh.record_list("Pod", None)
    assert fresh.problem() is None


async def test_a_lease_that_cannot_be_touched_is_logged(clock, caplog):
    await run_a_moment(WatchHealth(clock, watches=()), Probe(error=errors.Forbidden("no right")))
    assert "was not touched: no right" in caplog.text


def test_the_age_of_a_kind_is_that_of_its_last_event(clock):
    fresh = WatchHealth(clock, watches=[("Cell", None)])
    assert fresh.event_age_s("Cell") == -1
    fresh.record_event("Cell")
    clock.advance(4)
    assert fresh.event_age_s("Cell") == 4


def named(clock: FakeClock, *namespaces: str) -> WatchHealth:
    return WatchHealth(
        clock,
        watches=[(kind, namespace) for namespace in namespaces for kind in ("Cell", "Pod")]
        + [("ConfigMap", "home")],
        namespaces=namespaces,
        operator_namespace="home",
    )


def list_all(fresh: WatchHealth, namespace: str) -> None:
    fresh.record_list("Cell", namespace)
    fresh.record_list("Pod", namespace)


def forbid_all(fresh: WatchHealth, namespace: str) -> None:
    fresh.record_forbidden("Cell", namespace)
    fresh.record_forbidden("Pod", namespace)


def test_a_namespace_without_any_list_is_left_out_while_another_one_works(clock, caplog):
    fresh = named(clock, "a", "b")
    fresh.record_list("ConfigMap", "home")
    fresh.record_heartbeat()
    forbid_all(fresh, "b")
    assert fresh.problem() == "the first list is missing: Cell, Pod"
    list_all(fresh, "a")
    assert fresh.problem() is None
    assert fresh.is_listed
    assert fresh.absent == {"b"}
    forbid_all(fresh, "b")
    assert caplog.text.count("namespace b: every list is forbidden") == 1


def test_a_namespace_that_is_back_has_to_be_listed_again(clock, caplog):
    caplog.set_level("INFO")
    fresh = named(clock, "a", "b")
    for namespace in ("a", "b"):
        list_all(fresh, namespace)
    fresh.record_list("ConfigMap", "home")
    forbid_all(fresh, "b")
    assert fresh.absent == {"b"}
    clock.advance(watch_health.STALE_S + 1)
    list_all(fresh, "a")
    fresh.record_list("ConfigMap", "home")
    fresh.record_heartbeat()
    assert fresh.problem() is None
    fresh.record_list("Cell", "b")
    assert fresh.absent == frozenset()
    assert fresh.problem() == "the first list is missing: Pod"
    fresh.record_list("Pod", "b")
    assert fresh.problem() is None
    assert caplog.text.count("namespace b can be listed again and is watched") == 1


def test_a_namespace_with_some_lists_is_not_absent(clock):
    fresh = named(clock, "a", "b")
    list_all(fresh, "a")
    fresh.record_list("ConfigMap", "home")
    fresh.record_list("Pod", "b")
    fresh.record_forbidden("Cell", "b")
    assert fresh.absent == frozenset()
    assert fresh.problem() == "the first list is missing: Cell"


@pytest.mark.parametrize("namespaces", [("a",), ("a", "b")])
def test_without_rights_anywhere_no_namespace_is_left_out(clock, namespaces):
    fresh = named(clock, *namespaces)
    fresh.record_list("ConfigMap", "home")
    for namespace in namespaces:
        forbid_all(fresh, namespace)
    assert fresh.absent == frozenset()
    assert fresh.problem() == "the first list is missing: Cell, Pod"


def test_an_absent_namespace_counts_again_when_no_other_one_works_any_more(clock, caplog):
    caplog.set_level("INFO")
    fresh = named(clock, "a", "b")
    list_all(fresh, "a")
    fresh.record_list("ConfigMap", "home")
    forbid_all(fresh, "b")
    forbid_all(fresh, "a")
    assert fresh.absent == frozenset()
    assert fresh.problem() == "the first list is missing: Cell, Pod"
    assert "can be listed again" not in caplog.text


def test_the_namespace_of_the_operator_is_never_left_out(clock):
    fresh = named(clock, "a", "home")
    list_all(fresh, "a")
    forbid_all(fresh, "home")
    fresh.record_forbidden("ConfigMap", "home")
    assert fresh.absent == frozenset()


async def test_who_waits_for_an_absent_namespace_is_called_when_it_is_back(clock):
    fresh = named(clock, "a", "b")
    list_all(fresh, "a")
    await fresh.wait_present("b")
    forbid_all(fresh, "b")
    await fresh.wait_present("b", timeout_s=30)
    waiting = asyncio.create_task(fresh.wait_present("b"))
    await asyncio.sleep(30)
    assert not waiting.done()
    fresh.record_list("Pod", "b")
    await waiting


def test_a_change_of_the_absent_namespaces_is_told_once(clock):
    told: list[frozenset[str]] = []
    fresh = WatchHealth(
        clock,
        watches=[("Cell", "a"), ("Cell", "b")],
        namespaces=("a", "b"),
        on_absent_change=lambda: told.append(fresh.absent),
    )
    fresh.record_list("Cell", "a")
    fresh.record_forbidden("Cell", "b")
    fresh.record_forbidden("Cell", "b")
    fresh.record_list("Cell", "b")
    fresh.record_list("Cell", "b")
    assert told == [frozenset({"b"}), frozenset()]
