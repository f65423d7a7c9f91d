"""Recalls wait for each other, and for nobody else."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from knowledge_service.domain.access_control import View
from knowledge_service.errors import StoreUnavailable
from knowledge_service.ports import Search
from knowledge_service.store.sqlite.db.read_pool import ReadPool
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import LEAD, PERSON, new_fact


def test_third_search_waits_while_other_reading_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    SqliteStore(path).close()
    readers = ReadPool(path, timedelta(milliseconds=50))
    with readers.search_connection(), readers.search_connection():
        with readers.snapshot() as other_connection:
            assert other_connection.execute("SELECT count(*) FROM fact").fetchall() == [(0,)]
        with pytest.raises(StoreUnavailable, match="every reader has been busy for"):
            readers.search_connection().__enter__()
    with readers.search_connection() as next_one:
        assert next_one.execute("SELECT count(*) FROM fact").fetchall() == [(0,)]
    readers.close()


def test_second_search_waits_for_the_first_if_that_is_short(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    SqliteStore(path).close()
    readers = ReadPool(path, search_wait=timedelta(minutes=1))
    events: list[str] = []

    def search() -> None:
        with readers.search_connection():
            events.append("second")

    with ThreadPoolExecutor() as threads:
        with readers.search_connection():
            second = threads.submit(search)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.1)
            events.append("first")
        second.result(timeout=60)
    assert events == ["first", "second"]
    readers.close()


def test_second_search_begins_beside_one_that_takes_long(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    SqliteStore(path).close()
    readers = ReadPool(path, search_wait=timedelta(milliseconds=1))
    with readers.search_connection() as first, readers.search_connection() as second:
        assert first is not second
    readers.close()


def test_search_that_fails_gives_its_turn_back(tmp_path: Path) -> None:
    with contextlib.closing(SqliteStore(tmp_path / "knowledge.db")) as store:
        store.remember([new_fact("rain")], actor=PERSON)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), store._readers.search_connection():
                _ = 1 / 0
        assert store.search(Search(View(LEAD), "rain", 5)).hits
