"""The whole service in process, over each store, with callers of different rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import Grant, Quota
from knowledge_service.app import create_app
from knowledge_service.domain.visibility import ALL_VERBS, Principal, administrator
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.builders_knowledge import LEAD, OTHER, TEAM
from tests.fakes.identity import NamedCallers
from tests.fakes.store import MemoryStore

Connect = Callable[[str], AsyncKnowledgeClient]
PEER = LEAD.replace("lead-0", "lead-1")
CALLERS = {
    "operator": administrator("operator", "system"),
    "lead": Principal("demo/lead-0", "agent", LEAD),
    "peer": Principal("demo/lead-1", "agent", PEER),
    "team": Principal("demo/shared", "agent", TEAM, (Grant(scope=TEAM, verbs=("read", "write")),)),
    "limited": Principal(
        "demo/limited", "agent", f"{TEAM}/cell:limited", quota=Quota(writes_per_minute=3)
    ),
    "reading": Principal("demo/reading", "agent", LEAD, quota=Quota(reads_per_minute=3)),
    "asking": Principal("demo/asking", "agent", LEAD, quota=Quota(recalls_per_minute=3)),
    # A person and a cell elsewhere that happen to be called as `lead` is.
    "namesake": Principal("demo/lead-0", "human", LEAD),
    "double": Principal("demo/lead-0", "agent", f"{OTHER}/cell:x"),
    "watcher": Principal("watcher", "human", "realm:other", (Grant(scope=LEAD, verbs=("read",)),)),
    "auditor": Principal("auditor", "human", "realm:other", (Grant(scope=LEAD, verbs=("admin",)),)),
    "eraser": Principal("eraser", "human", "realm:other", (Grant(scope=TEAM, verbs=("admin",)),)),
    "mover": Principal(
        "mover", "human", "realm:other", (Grant(scope=LEAD, verbs=("read", "promote")),)
    ),
    # Administers the realm itself and may read what is below.
    "warden": Principal(
        "warden",
        "human",
        "realm:demo",
        (
            Grant(scope="realm:demo", verbs=("admin",)),
            Grant(scope="realm:demo", subtree=True, verbs=("read",)),
        ),
    ),
    "stranger": Principal("other/x", "agent", f"{OTHER}/cell:x"),
    "ada": Principal(
        "ada",
        "human",
        "realm:demo",
        (Grant(scope="realm:demo", subtree=True, verbs=("read", "write")),),
    ),
    "keeper": Principal(
        "keeper",
        "human",
        "realm:demo",
        (Grant(scope="realm:demo", subtree=True, verbs=ALL_VERBS),),
    ),
}


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "fake" else SqliteStore(tmp_path / "knowledge.db")
    )
    yield made
    made.close()


@pytest.fixture
def transport(store: Store) -> httpx.ASGITransport:
    app = create_app(store, NamedCallers(CALLERS))
    return httpx.ASGITransport(app, raise_app_exceptions=False)


@pytest.fixture
def connect(transport: httpx.ASGITransport) -> Connect:
    """Make a client whose token is a caller's name."""
    return lambda name: AsyncKnowledgeClient("http://service", token=name, transport=transport)


@pytest.fixture
def http(transport: httpx.ASGITransport) -> httpx.AsyncClient:
    """Make a plain client for what the typed one cannot send."""
    return httpx.AsyncClient(transport=transport, base_url="http://service")
