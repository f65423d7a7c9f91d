from __future__ import annotations

import threading

import pytest

from knowledge_client.models import Retention, ScopeConfig
from knowledge_service.domain.visibility import EVERYTHING
from knowledge_service.errors import StoreUnavailable
from knowledge_service.keeper import Keeper
from knowledge_service.ports import Listing
from tests.builders_knowledge import PERSON, TEAM, new_fact
from tests.fakes.store import MemoryStore


def test_scope_beyond_its_bound_is_brought_back_and_a_full_disk_is_outlived(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.put_scope(TEAM, ScopeConfig(retention=Retention(max_facts=1)), actor=PERSON)
    store.remember([new_fact("one"), new_fact("two")], actor=PERSON)
    rounds, kept = [], threading.Event()
    retain = store.retain

    def counted() -> int:
        rounds.append(1)
        if len(rounds) == 1:
            raise StoreUnavailable("database or disk is full")
        count = retain()
        kept.set()
        return count

    monkeypatch.setattr(store, "retain", counted)
    keeper = Keeper(store, every_s=0.001)
    keeper.start()
    assert kept.wait(5)
    keeper.stop()
    listing = Listing(EVERYTHING, 9, lifecycle="live")
    assert [fact.content for fact in store.list_facts(listing)] == ["two"]
    assert "retention waits for the store" in caplog.text
