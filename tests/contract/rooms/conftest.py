"""The whole service in process, over each store, and a person who may do everything."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import administrator
from knowledge_service.ports import Store
from tests.fakes.identity import NamedCallers


@pytest.fixture
def client(store: Store) -> AsyncKnowledgeClient:
    app = create_app(store, NamedCallers({"keeper": administrator("keeper", "human")}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return AsyncKnowledgeClient("http://service", token="keeper", transport=transport)
