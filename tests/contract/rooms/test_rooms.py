"""One record of each room to come, stored without loss in the schema of today and read back.

Blocks, files, graph and charts, knowledge objects: each is told in the words of the service (facts,
aliases, sequences, links, confirmations, usage, runs and episodes) and put together again from what
the service answers. What comes out must be what went in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from knowledge_client import AsyncKnowledgeClient
from knowledge_service import migrations
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import administrator
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.rooms import test_blocks, test_files, test_graph, test_knowledge_objects
from tests.fakes.identity import NamedCallers


async def test_rooms_need_no_change_of_the_schema(tmp_path: Path) -> None:
    """The tables after every record are those that the migrations made."""
    store = SqliteStore(tmp_path / "knowledge.db")
    with store._readers.snapshot() as db:
        initial_items: list[Any] = db.execute(
            "SELECT name, sql FROM sqlite_schema ORDER BY 1"
        ).fetchall()
    app = create_app(store, NamedCallers({"keeper": administrator("keeper", "human")}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    client = AsyncKnowledgeClient("http://service", token="keeper", transport=transport)
    blocks, files, graph = test_blocks.TestBlocks(), test_files.TestFiles(), test_graph.TestGraph()
    await blocks.store(client, blocks.block("a"))
    await files.store(client, files.item)
    await graph.store_entity(client, graph.entity)
    objects = test_knowledge_objects.TestKnowledgeObjects()
    await objects.test_object_comes_back_with_its_source_and_what_it_prevented(client)
    with store._readers.snapshot() as db:
        final_items: list[Any] = db.execute(
            "SELECT name, sql FROM sqlite_schema ORDER BY 1"
        ).fetchall()
        ((newest,),) = db.execute("SELECT max(number) FROM migration").fetchall()
    store.close()
    assert final_items == initial_items
    assert newest == migrations.SQLITE[-1][0]
