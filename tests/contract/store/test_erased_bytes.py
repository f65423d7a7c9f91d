"""The bytes of erased facts leave the disk while the store serves, and one can see when."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from knowledge_service.metrics import Metrics
from knowledge_service.ports import ActionContext
from knowledge_service.store.sqlite.db import wal_checkpoint, wal_truncation
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.test_erasure import bytes_of
from tests.knowledge_builders import PERSON, TEAM, new_fact

ACTION_CONTEXT = ActionContext(PERSON, "because")
TERM = b"xylophon"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@contextlib.contextmanager
def read_by_another_process(path: Path) -> Iterator[None]:
    """Hold a snapshot of the file, as a replication or a backup does."""
    other_connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    other_connection.execute("BEGIN; SELECT count(*) FROM fact").fetchall()
    try:
        yield
    finally:
        other_connection.close()


def told(store: SqliteStore) -> str:
    facts = [new_fact(f"{text} is the word", scope=TEAM) for text in ("xylophone", "other")]
    return store.remember(facts, actor=PERSON)[0].fact_id


def wait_until_gone(path: Path) -> None:
    deadline = time.monotonic() + 20
    while TERM in bytes_of(path):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_bytes_are_gone_when_the_erasure_is_answered(path: Path) -> None:
    store = SqliteStore(path)
    fact_id = told(store)
    assert TERM in bytes_of(path)
    erased = store.erase(fact_id, ACTION_CONTEXT)
    assert TERM not in bytes_of(path)
    assert b"other is the word" in bytes_of(path)
    assert erased.on_disk is False
    store.close()


def test_bytes_go_with_a_later_write_when_another_process_was_reading(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_truncation, "_RETRY_S", 0.0)
    store = SqliteStore(path)
    fact_id = told(store)
    with read_by_another_process(path):
        assert store.erase(fact_id, ACTION_CONTEXT).on_disk is True
        assert TERM in bytes_of(path), "a reader still has what was"
    store.check()
    assert TERM not in bytes_of(path)
    store.close()


def test_bytes_go_also_when_nobody_writes_and_the_metric_says_until_when_they_are_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_truncation, "IDLE_RETRY_S", 0.1)
    monkeypatch.setattr(wal_truncation, "_RETRY_S", 0.1)
    store, metrics = SqliteStore(path), Metrics()
    metrics.erased_pending_s.set_function(store.erased_pending_s)
    fact_id = told(store)
    with read_by_another_process(path):
        store.erase(fact_id, ACTION_CONTEXT)
        assert b"kais_knowledge_erased_bytes_pending_seconds 0.0\n" not in metrics.render()
    wait_until_gone(path)
    while store.erased_pending_s():  # the bytes go some instructions before it is noted
        time.sleep(0.01)
    assert b"kais_knowledge_erased_bytes_pending_seconds 0.0\n" in metrics.render()
    store.close()


def test_writer_empties_a_long_log_only_after_the_thread_has_folded_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoint, "_SHORT_WAL_PAGES", 5)
    store = SqliteStore(path)
    fact_id = told(store)
    store.remember([new_fact(f"rain {n}") for n in range(300)], actor=PERSON)
    emptied, emptying_of = threading.Event(), store._writer._wal_truncation
    empty = emptying_of._truncate

    def noted() -> None:
        assert store._writer._checkpointer.is_short, "no write waits while a long log is copied"
        empty()
        emptied.set()

    monkeypatch.setattr(emptying_of, "_truncate", noted)
    with store._writer._checkpointer.at_work:  # the thread cannot begin yet
        assert store.erase(fact_id, ACTION_CONTEXT).on_disk is True
        assert not emptied.is_set()
    assert emptied.wait(10)
    wait_until_gone(path)
    store.close()
