"""A leader is ready when its first lists are done and its watches are not silent."""

from __future__ import annotations

import asyncio

import pytest

from kais_operator import errors
from kais_operator.handlers import freshness
from kais_operator.handlers.freshness import Freshness
from tests.fakes.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def run_a_moment(fresh: Freshness, has_any, touch) -> None:
    running = asyncio.create_task(fresh.run(has_any, touch))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Probe:
    def __init__(self, *full: str, error: Exception | None = None) -> None:
        self.full = full
        self.error = error
        self.touched = 0

    async def has_any(self, kind: str) -> bool:
        if self.error:
            raise self.error
        return kind in self.full

    async def touch(self) -> None:
        self.touched += 1
        if self.error:
            raise self.error


async def test_every_kind_with_objects_has_to_be_heard_of(clock):
    fresh = Freshness(clock, kinds=("Cell", "Job", "Pod"), has_probe=False)
    assert fresh.problem() == "the first list is missing: Cell, Job, Pod"
    fresh.note("Job")
    await run_a_moment(fresh, Probe("Cell").has_any, None)
    assert fresh.problem() == "the first list is missing: Cell"
    fresh.note("Cell")
    assert fresh.problem() is None


async def test_a_kind_that_cannot_be_listed_is_missing(clock, caplog):
    fresh = Freshness(clock, kinds=("Cell",), has_probe=True)
    probe = Probe(error=errors.Forbidden("no right"))
    await run_a_moment(fresh, probe.has_any, probe.touch)
    assert fresh.problem() == "the first list is missing: Cell"
    assert "Cell cannot be listed: no right" in caplog.text
    assert "was not touched: no right" in caplog.text


async def test_a_silent_watch_is_found_out(clock):
    fresh = Freshness(clock, kinds=(), has_probe=True)
    probe = Probe()
    await run_a_moment(fresh, probe.has_any, probe.touch)
    assert probe.touched == 1
    assert fresh.problem() == "the watch of our own Lease has not begun"
    fresh.note_echo()
    assert fresh.problem() is None
    clock.advance(freshness.STALE_S + 1)
    assert fresh.problem() == "no watch event for 181 s, though our own Lease was touched"
    fresh.note_echo()
    assert fresh.problem() is None


def test_the_age_of_a_kind_is_that_of_its_last_event(clock):
    fresh = Freshness(clock, kinds=("Cell",), has_probe=True)
    assert fresh.age_s("Cell") == -1
    fresh.note("Cell")
    clock.advance(4)
    assert fresh.age_s("Cell") == 4
