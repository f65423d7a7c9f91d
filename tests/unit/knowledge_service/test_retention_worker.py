from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from knowledge_client.models import Retention, ScopeConfig
from knowledge_service.domain.access_control import EVERYTHING
from knowledge_service.errors import StoreUnavailable
from knowledge_service.metrics import Metrics
from knowledge_service.ports import Listing
from knowledge_service.workers.retention import RetentionWorker
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import PERSON, TEAM, new_fact


def test_scope_beyond_its_bound_is_brought_back_and_a_full_disk_is_outlived(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.put_scope(TEAM, ScopeConfig(retention=Retention(max_facts=1)), actor=PERSON)
    store.remember([new_fact("one"), new_fact("two")], actor=PERSON)
    rounds, event = [], threading.Event()
    retain = store.retain

    def counted() -> int:
        rounds.append(1)
        if len(rounds) == 1:
            raise StoreUnavailable("database or disk is full")
        count = retain()
        event.set()
        return count

    monkeypatch.setattr(store, "retain", counted)
    worker = RetentionWorker(store, every_s=0.001, on_run=Metrics().record_task_run)
    worker.start()
    assert event.wait(5)
    worker.stop()
    listing = Listing(EVERYTHING, 9, lifecycle="live")
    assert [fact.content for fact in store.list_facts(listing)] == ["two"]
    assert "retention waits for the store" in caplog.text


def test_task_that_fails_is_logged_and_counted_and_neither_ends_the_thread_nor_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, metrics = MemoryStore(), Metrics()
    store.put_scope(TEAM, ScopeConfig(retention=Retention(max_facts=1)), actor=PERSON)
    store.remember([new_fact("one"), new_fact("two")], actor=PERSON)
    rounds, ran_again = [], threading.Event()
    delete_old_receipts = store.delete_old_receipts

    def broken(deadline: datetime) -> int:
        rounds.append(deadline)
        if len(rounds) < 3:
            raise ValueError("unexpected error")
        count = delete_old_receipts(deadline)
        ran_again.set()
        return count

    monkeypatch.setattr(store, "delete_old_receipts", broken)
    worker = RetentionWorker(
        store, every_s=0.001, receipts_for=timedelta(days=1), on_run=metrics.record_task_run
    )
    worker.start()
    assert ran_again.wait(5)
    worker.stop()
    assert "receipts failed; retrying in 0.001 s" in caplog.text
    assert "unexpected error" in caplog.text
    text = metrics.render().decode()
    assert 'kais_knowledge_upkeep_failures_total{task="receipts"} 2.0' in text
    assert 'kais_knowledge_upkeep_failures_total{task="retention"}' not in text
    for task in ("retention", "erasure", "receipts"):
        assert f'kais_knowledge_upkeep_last_success_timestamp_seconds{{task="{task}"}}' in text
