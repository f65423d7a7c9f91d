"""The whole service in process, over each store, with callers of different rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_service.asgi_app import create_app
from knowledge_service.ports import Store
from tests.contract.service.callers import CALLERS, Connect
from tests.contract.service.invisible_data import World
from tests.fakes.identity import NamedCallers


@pytest.fixture
def transport(store: Store) -> httpx.ASGITransport:
    app = create_app(store, NamedCallers(CALLERS))
    app.state.services.readiness.fresh_s = 0.0  # each test sees what it has just done
    return httpx.ASGITransport(app, raise_app_exceptions=False)


@pytest.fixture
def scraped(transport: httpx.ASGITransport) -> Callable[[], str]:
    """Read the metrics, which have a port of their own."""
    app: Any = transport.app
    return lambda: str(app.state.services.metrics.render().decode())


@pytest.fixture
def connect(transport: httpx.ASGITransport) -> Connect:
    """Make a client whose token is a caller's name."""
    return lambda name: AsyncKnowledgeClient("http://service", token=name, transport=transport)


@pytest.fixture
def http(transport: httpx.ASGITransport) -> httpx.AsyncClient:
    """Make a plain client for what the typed one cannot send."""
    return httpx.AsyncClient(transport=transport, base_url="http://service")


@pytest.fixture
async def world(connect: Connect, http: httpx.AsyncClient) -> World:
    """Share some facts among all; what is out of sight comes when the test says so."""
    world = World(connect, http)
    await world.share()
    return world
