"""The whole service in process, over each store, and a person who may do everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_service.app import create_app
from knowledge_service.domain.visibility import administrator
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.fakes.identity import NamedCallers
from tests.fakes.store import MemoryStore


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "fake" else SqliteStore(tmp_path / "knowledge.db")
    )
    yield made
    made.close()


@pytest.fixture
def client(store: Store) -> AsyncKnowledgeClient:
    app = create_app(store, NamedCallers({"keeper": administrator("keeper", "human")}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return AsyncKnowledgeClient("http://service", token="keeper", transport=transport)
