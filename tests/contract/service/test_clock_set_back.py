"""A clock that jumps back: order stays, and what was asked can be asked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import CorrectIn, Fact, FactIn, RecallIn
from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.ports import Listing, Store
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.conftest import Time
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import ALL, PERSON, TEAM, new_fact


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, time: Time) -> Iterator[Store]:
    path = tmp_path / "knowledge.db"
    memory_store: Store = MemoryStore(time) if request.param == "fake" else SqliteStore(path, time)
    yield memory_store
    memory_store.close()
    if request.param == "sqlite":
        assert offline_rebuild.verify(path).problems == ()
        assert offline_rebuild.rebuild(path).changed == ()


@pytest.fixture
def client(store: Store, time: Time) -> AsyncKnowledgeClient:
    app = create_app(store, NoAuthentication(), clock=time)
    return AsyncKnowledgeClient("http://service", transport=httpx.ASGITransport(app))


async def told(client: AsyncKnowledgeClient, content: str) -> str:
    return (await client.remember(FactIn(content=content, scope=TEAM))).fact_id


async def test_order_of_what_was_recorded_stays(client: AsyncKnowledgeClient, time: Time) -> None:
    ids = [await told(client, "rain one")]
    time.pass_(days=-30)
    ids += [await told(client, "rain two"), await told(client, "rain three")]
    facts = (await client.list_facts(scope=TEAM)).facts
    assert [fact.id for fact in facts] == ids[::-1]
    moments = [fact.recorded_at for fact in facts]
    assert moments == sorted(moments, reverse=True)


async def test_recall_finds_all_and_its_replay_is_equal(
    client: AsyncKnowledgeClient, time: Time
) -> None:
    ids = {await told(client, "rain one")}
    time.pass_(days=-30)
    ids.add(await told(client, "rain two"))
    recalled = await client.recall(RecallIn(query="rain"), idempotency_key="k")
    assert {fact.id for fact in recalled.facts} == ids
    assert recalled.known_at == max(fact.recorded_at for fact in recalled.facts)
    assert recalled.receipt is not None
    replay_result = await client.replay(recalled.receipt)
    assert (replay_result.equal, replay_result.reasons) == (True, ())


async def test_what_is_corrected_then_was_known_before(
    client: AsyncKnowledgeClient, time: Time
) -> None:
    fact_id = await told(client, "rain one")
    time.pass_(days=-30)
    await client.correct(fact_id, CorrectIn(reason="it was snow", replacement="snow one"))
    matching_fact = await client.get_fact(fact_id)
    assert matching_fact.lifecycle == "superseded"
    assert matching_fact.closed_at is not None
    assert matching_fact.closed_at >= matching_fact.recorded_at
    assert [fact.content for fact in (await client.recall(RecallIn(query="one"))).facts] == [
        "snow one"
    ]


async def test_key_of_a_repeat_is_known_still(client: AsyncKnowledgeClient, time: Time) -> None:
    fact = FactIn(content="rain one", scope=TEAM)
    first = await client.remember(fact, idempotency_key="k")
    time.pass_(days=-30)
    assert await client.remember(fact, idempotency_key="k") == first


def test_facts_of_many_restarts_are_listed_in_order_and_found_page_by_page(
    tmp_path: Path, time: Time
) -> None:
    contents = [f"rain {n}" for n in range(9)]
    for content in contents:
        store = SqliteStore(tmp_path / "knowledge.db", time)
        store.remember([new_fact(content, kind="entity")], actor=PERSON)
        if content == contents[0]:
            time.pass_(days=-30)
        time.pass_(hours=1)
        store.close()
    store = SqliteStore(tmp_path / "knowledge.db", time)
    listed = [fact.content for fact in store.list_facts(Listing(ALL, 100))]
    found: list[Fact] = []
    while page := store.list_facts(
        Listing(ALL, 2, kind="entity", contains="rain", before_id=found[-1].id if found else None)
    ):
        found += page
    store.close()
    assert listed == contents[::-1]
    assert [fact.content for fact in found] == contents[::-1]
