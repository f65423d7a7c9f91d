"""Every implementation of the `Store` port, fresh for each test, with a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.fakes.store import MemoryStore


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **duration: float) -> datetime:
        self.now += timedelta(**duration)
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, time: Time) -> Iterator[Store]:
    memory_store: Store = (
        MemoryStore(time)
        if request.param == "fake"
        else SqliteStore(tmp_path / "knowledge.db", time)
    )
    yield memory_store
    memory_store.close()
