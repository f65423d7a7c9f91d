"""What is known of the store: who it is, whether it is there, and whose numbers moved."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kais_operator.knowledge import sync_loop
from kais_operator.knowledge.sync_loop import KnowledgeSync
from kais_operator.knowledge.sync_state import POLL_PERIOD_S, REFRESH_PERIOD_S
from knowledge_client import models
from tests.fakes import world as worlds

pytestmark = pytest.mark.simulated_time


class Heard:
    """What the watch told."""

    def __init__(self) -> None:
        self.changed: list[tuple[list[tuple[str, str]], list[str]]] = []
        self.again = 0
        self.away = 0

    async def stats_changed(self, blueprints: list[tuple[str, str]], scopes: list[str]) -> None:
        self.changed.append((blueprints, scopes))

    async def tell_again(self) -> None:
        self.again += 1

    async def went_away(self) -> None:
        self.away += 1


@pytest.fixture
def fakes() -> worlds.FakeWorld:
    return worlds.fake_world()


@pytest.fixture
def notifications() -> Heard:
    return Heard()


@pytest.fixture
def watch(fakes: worlds.FakeWorld, notifications: Heard) -> KnowledgeSync:
    return KnowledgeSync(
        fakes.world.knowledge,
        fakes.sync_state,
        fakes.clock,
        on_stats_change=notifications.stats_changed,
        repeat_registrations=notifications.tell_again,
        on_unavailable=notifications.went_away,
    )


CONFIG = models.ScopeConfig()


async def open_run(fakes: worlds.FakeWorld, run_id: str = "r") -> None:
    run = models.RunIn(namespace="demo", scope="realm:demo", blueprint="bp")
    await fakes.knowledge.put_run(run_id, run)


async def test_wanted_statistics_come_in_one_batch_and_changes_are_told(
    fakes, watch, notifications
):
    assert fakes.sync_state.blueprint_stats("demo", "bp") is None
    assert fakes.sync_state.blueprint_stats("demo", "other") is None
    assert fakes.sync_state.scope_stats("realm:demo") is None
    await open_run(fakes)
    fakes.knowledge.calls.clear()
    await watch.sync_once()
    assert fakes.knowledge.calls == ["whoami", "list_scopes", "stats_batch"]
    assert notifications.changed == [([("demo", "bp"), ("demo", "other")], ["realm:demo"])]
    stats = fakes.sync_state.blueprint_stats("demo", "bp")
    assert stats is not None
    assert (stats.uses, stats.running) == (1, 1)


async def test_equal_numbers_are_not_told_again(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    fakes.clock.advance(POLL_PERIOD_S)
    await watch.sync_once()
    assert len(notifications.changed) == 1


async def test_the_first_run_that_ends_is_told_at_once(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    fakes.sync_state.scope_stats("realm:demo/formation:bp")
    await watch.sync_once()
    await open_run(fakes)
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=True)
    fakes.clock.advance(sync_loop.COALESCE_S)
    await watch.sync_once()
    assert [report for report, _ in notifications.changed] == [[("demo", "bp")], [("demo", "bp")]]


async def test_a_change_is_told_at_most_every_half_minute(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    for number in range(2):
        await open_run(fakes, f"r{number}")
        fakes.sync_state.request_refresh("demo", "bp", is_urgent=True)
        await watch.sync_once()
    assert len(notifications.changed) == 2
    fakes.clock.advance(REFRESH_PERIOD_S - 1)
    await watch.sync_once()
    assert len(notifications.changed) == 2
    fakes.clock.advance(1)
    await watch.sync_once()
    assert notifications.changed[2] == ([("demo", "bp")], [])


async def test_a_run_that_begins_does_not_delay_the_telling_of_its_end(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    await open_run(fakes)
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=False)
    fakes.clock.advance(REFRESH_PERIOD_S - 1)
    await watch.sync_once()
    assert len(notifications.changed) == 1
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=True)
    await watch.sync_once()
    assert len(notifications.changed) == 2


async def test_a_run_that_goes_on_is_told_after_half_a_minute(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    await open_run(fakes)
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=False)
    fakes.clock.advance(REFRESH_PERIOD_S)
    await watch.sync_once()
    assert notifications.changed[1] == ([("demo", "bp")], [])


async def test_the_end_of_a_run_has_the_scopes_of_its_realm_read(fakes, watch):
    for path in ("realm:demo", "realm:demo/formation:bp", "realm:demo2"):
        fakes.sync_state.scope_stats(path)
    await watch.sync_once()
    fakes.sync_state.request_refresh("demo", None, is_urgent=True)
    assert fakes.sync_state.due_stats().scopes == ("realm:demo", "realm:demo/formation:bp")


async def test_what_is_wanted_is_read_without_waiting_for_the_next_tick(fakes, watch, monkeypatch):
    monkeypatch.setattr(sync_loop, "PERIOD_S", 60)
    monkeypatch.setattr(sync_loop, "COALESCE_S", 0)
    running = asyncio.create_task(watch.run())
    await asyncio.sleep(0.01)
    fakes.sync_state.blueprint_stats("demo", "bp")
    await asyncio.sleep(0.05)
    assert fakes.sync_state.blueprint_stats("demo", "bp") is not None
    running.cancel()


async def test_a_blueprint_that_changes_during_the_batch_is_read_again(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=True)
    request = fakes.sync_state.due_stats()
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=True)
    fakes.sync_state.record_stats(await fakes.knowledge.stats_batch(request))
    assert [blueprint.name for blueprint in fakes.sync_state.due_stats().blueprints] == ["bp"]


async def test_a_store_that_goes_away_is_told_once(fakes, watch, notifications):
    await watch.sync_once()
    fakes.knowledge.away = True
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    await watch.sync_once()
    assert notifications.away == 1
    fakes.knowledge.away = False
    await watch.sync_once()
    fakes.knowledge.away = True
    fakes.sync_state.record_availability("gone")
    await watch.sync_once()
    assert notifications.away == 2


async def test_a_store_that_serves_again_is_logged_once(fakes, watch, caplog):
    caplog.set_level(logging.INFO)
    fakes.knowledge.away = True
    await watch.sync_once()
    assert "serves again" not in caplog.text
    fakes.knowledge.away = False
    await watch.sync_once()
    await watch.sync_once()
    assert caplog.text.count("the knowledge service serves again") == 1


async def test_a_batch_without_an_answer_is_asked_again(fakes, watch, notifications, caplog):
    fakes.sync_state.blueprint_stats("demo", "bp")
    await watch.sync_once()
    fakes.sync_state.request_refresh("demo", "bp", is_urgent=True)
    fakes.knowledge.away = True
    await watch.sync_once()
    assert "the knowledge service does not serve: stats_batch" in caplog.text
    fakes.knowledge.away = False
    await open_run(fakes)
    await watch.sync_once()
    assert notifications.changed[-1] == ([("demo", "bp")], [])


async def test_another_store_has_all_told_again(fakes, watch, notifications):
    await watch.sync_once()
    fakes.sync_state.mark_configured("realm:demo", CONFIG)
    fakes.sync_state.mark_run_closed("demo", "r")
    fakes.knowledge.away = True
    fakes.sync_state.record_availability("gone")
    await watch.sync_once()
    fakes.knowledge.away = False
    fakes.knowledge.store = models.StoreIdentity(id="store-1", epoch=2)
    await watch.sync_once()
    assert notifications.again == 1
    assert not fakes.sync_state.is_configured("realm:demo", CONFIG)
    assert not fakes.sync_state.is_run_closed("demo", "r")


async def test_the_numbers_of_another_store_are_asked_for(fakes, watch, notifications):
    fakes.sync_state.blueprint_stats("demo", "bp")
    fakes.sync_state.scope_stats("realm:demo")
    await watch.sync_once()
    fakes.knowledge.store = models.StoreIdentity(id="store-1", epoch=2)
    fakes.sync_state.record_availability("gone")
    await watch.sync_once()
    assert notifications.changed[1] == ([("demo", "bp")], ["realm:demo"])


async def test_the_same_store_that_comes_back_needs_nothing_again(fakes, watch, notifications):
    await watch.sync_once()
    fakes.sync_state.mark_configured("realm:demo", CONFIG)
    fakes.sync_state.record_availability("gone")
    await watch.sync_once()
    assert notifications.again == 0
    assert fakes.sync_state.is_configured("realm:demo", CONFIG)
    assert fakes.sync_state.unavailable_reason() is None


async def test_registrations_are_repeated_every_ten_minutes(fakes, watch, notifications):
    await watch.sync_once()
    fakes.sync_state.mark_configured("realm:demo", CONFIG)
    fakes.sync_state.mark_run_open("demo", "r")
    fakes.clock.advance(sync_loop.REGISTRATION_PERIOD_S)
    await watch.sync_once()
    assert notifications.again == 1
    assert not fakes.sync_state.is_configured("realm:demo", CONFIG)
    assert fakes.sync_state.is_run_open("demo", "r")
    await watch.sync_once()
    assert notifications.again == 1


async def test_a_silence_is_known_until_an_answer(fakes):
    fakes.knowledge.away = True
    with pytest.raises(Exception, match="does not answer"):
        await fakes.world.knowledge.get_run("r")
    assert "does not answer" in (fakes.sync_state.unavailable_reason() or "")
    fakes.knowledge.away = False
    with pytest.raises(Exception, match="not found"):
        await fakes.world.knowledge.get_run("r")
    assert fakes.sync_state.unavailable_reason() is None
