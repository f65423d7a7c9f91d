"""A run with its record, in a scope that chose a model, and the scripted server of that model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_service.ports import Store
from tests.contract.service.callers import Connect
from tests.contract.service.model_extraction.extraction_world import World
from tests.model_server import serving
from tests.model_server.serving import Running


@pytest.fixture
def model_server() -> Iterator[Running]:
    with serving.running("rules: []") as running:
        yield running


@pytest.fixture
def world(store: Store, model_server: Running, connect: Connect) -> Iterator[World]:
    created_world = World(store, model_server, connect)
    yield created_world
    created_world.client.close()
