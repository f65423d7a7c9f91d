"""The store that a contract is asked of: in memory, and in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.fakes.store import MemoryStore


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    memory_store: Store = (
        MemoryStore() if request.param == "fake" else SqliteStore(tmp_path / "knowledge.db")
    )
    yield memory_store
    memory_store.close()
