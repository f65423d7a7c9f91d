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
