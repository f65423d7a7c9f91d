"""One record of each room to come, stored without loss in the schema of today and read back.

Blocks, files, graph and charts, knowledge objects: each is told in the words of the service (facts,
aliases, sequences, links, confirmations, usage, runs and episodes) and put together again from what
the service answers. What comes out must be what went in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    AliasIn,
    CorrectIn,
    EpisodeIn,
    EpisodesIn,
    Fact,
    FactIn,
    FactUse,
    LinkIn,
    Ref,
    Source,
    UsageIn,
)
from knowledge_service import migrations
from knowledge_service.app import create_app
from knowledge_service.domain.visibility import administrator
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.builders_knowledge import TEAM, run_in
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


async def tell(client: AsyncKnowledgeClient, **given: Any) -> Fact:
    """Remember a fact of the team and read it back by its id."""
    done = await client.remember(FactIn.model_validate({"scope": TEAM, **given}))
    return await client.get_fact(done.fact_id)


def reference(namespace: str, value: str) -> str:
    return f"alias:{namespace}:" + value.replace("~", "~0").replace("/", "~1")


class TestBlocks:
    def block(self, text: str, **given: Any) -> dict[str, Any]:
        content = {"title": text, "steps": [1, 2.5, None, True], "nested": {"ü": "ß\n\t"}}
        plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return {
            "block_id": hashlib.sha256(plain.encode()).hexdigest(),
            "block_type": "experience",
            "content": content,
            "tags": ["CI", "flaky tests"],
            "embedding": [round(n / 127, 6) for n in range(128)],
            "metadata": {"task_type": "build", "outcome": "success", "score": 0.1},
            "created_at": 1_772_366_400.25,
            "updated_at": 1_772_366_401.5,
            **given,
        }

    async def store(self, client: AsyncKnowledgeClient, block: dict[str, Any]) -> Fact:
        kept = ("content", "block_type", "embedding", "metadata", "created_at", "updated_at")
        return await tell(
            client,
            kind="insight",
            content=block["content"]["title"],
            data={name: block[name] for name in kept},
            schema="block/1",
            tags=block["tags"],
            aliases=[AliasIn(namespace="sha256", value=block["block_id"])],
        )

    async def read(self, client: AsyncKnowledgeClient, block_id: str) -> dict[str, Any]:
        fact = await client.get_fact(reference("sha256", block_id))
        links = (await client.list_links(fact.id)).links
        ids = {}
        for each in {end for link in links for end in (link.from_, link.to)}:
            names = (await client.why(each)).aliases
            ids[each] = next(name.value for name in names if name.namespace == "sha256")
        return {
            **fact.data,
            "block_id": block_id,
            "tags": list(fact.tags),
            "mentions": [ids[link.to] for link in links if link.from_ == fact.id],
            "backlinks": [ids[link.from_] for link in links if link.to == fact.id],
        }

    async def test_come_back_with_mentions_and_backlinks(
        self, client: AsyncKnowledgeClient
    ) -> None:
        one, other = self.block("pin the base image"), self.block("images drift")
        first, second = await self.store(client, one), await self.store(client, other)
        for _ in range(2):  # idempotent
            await client.link(LinkIn(from_=first.id, to=second.id, type="mentions"))
        assert (await client.link(LinkIn(from_=first.id, to=first.id))).status == "ignored"
        lost: dict[str, Any] = {"mentions": [], "backlinks": []}
        assert await self.read(client, one["block_id"]) == {
            **one, **lost, "mentions": [other["block_id"]],
        }  # fmt: skip
        assert await self.read(client, other["block_id"]) == {
            **other, **lost, "backlinks": [one["block_id"]],
        }  # fmt: skip

    async def test_equal_content_is_the_existing_block(self, client: AsyncKnowledgeClient) -> None:
        block = self.block("pin the base image")
        first = await self.store(client, block)
        assert (await self.store(client, block)).id == first.id

    async def test_update_keeps_identity_and_history(self, client: AsyncKnowledgeClient) -> None:
        block = self.block("pin the base image")
        first = await self.store(client, block)
        change = CorrectIn(reason="updated", replacement="pin every image")
        done = await client.correct(first.id, change)
        now = await client.get_fact(reference("sha256", block["block_id"]))
        assert now.id == done.replacement_id
        assert (await client.get_fact(first.id)).lifecycle == "superseded"


class TestFiles:
    item: ClassVar[dict[str, Any]] = {
        "id": "global:pitfall:001",
        "fact": "A volume without a class waits for ever.",
        "category": "pitfall",
        "domain": "global",
        "confidence": 0.85,
        "tags": ["volumes", "pod-start"],
        "source_count": 3,
        "first_seen": "2026-01-02",
        "last_confirmed": "2026-02-03",
        "expires": "2027-01-01T00:00:00Z",
        "related": ["global:pitfall:002"],
    }

    async def store(self, client: AsyncKnowledgeClient, item: dict[str, Any]) -> Fact:
        name = AliasIn(namespace="file", prefix=f"{item['domain']}:{item['category']}:", digits=3)
        kept = ("source_count", "first_seen", "last_confirmed", "domain")
        return await tell(
            client,
            kind=item["category"],
            content=item["fact"],
            confidence=item["confidence"],
            tags=item["tags"],
            expires_at=item["expires"],
            data={each: item[each] for each in kept},
            schema="file/1",
            aliases=[name],
        )

    async def test_item_comes_back_with_its_number_and_what_is_related(
        self, client: AsyncKnowledgeClient
    ) -> None:
        fact = await self.store(client, self.item)
        other = await self.store(client, {**self.item, "fact": "Another one.", "related": []})
        await client.link(LinkIn(from_=fact.id, to=other.id, type="related"))
        found = await client.get_fact(reference("file", "global:pitfall:001"))
        (link,) = (await client.list_links(found.id)).links
        (related,) = (await client.why(link.to)).aliases
        (own,) = (await client.why(found.id)).aliases
        assert found.expires_at is not None
        read = {
            **found.data,
            "id": own.value,
            "fact": found.content,
            "category": found.kind,
            "confidence": found.confidence,
            "tags": list(found.tags),
            "expires": found.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "related": [related.value],
        }
        assert read == self.item

    async def test_each_session_that_confirms_is_kept(self, client: AsyncKnowledgeClient) -> None:
        fact = await self.store(client, self.item)
        for session in ("s-1", "s-2"):
            await client.put_run(
                session,
                run_in(kind="session", counters={"messages": 12, "tools": 4}, outcome="Succeeded"),
            )
            await client.add_episodes(
                EpisodesIn(
                    run_id=session,
                    episodes=(EpisodeIn(type="error", content="x", error_signature="E1"),),
                )
            )
            await client.remember(
                FactIn(
                    scope=TEAM,
                    kind="pitfall",
                    content=self.item["fact"],
                    data=fact.data,
                    run=session,
                )
            )
        confirmed = (await client.why(fact.id)).confirmations
        assert len(confirmed) == 2
        runs = (await client.list_runs()).runs
        assert {run.kind for run in runs} == {"session"}
        assert runs[0].counters == {"messages": 12, "tools": 4}


class TestGraph:
    entity: ClassVar[dict[str, Any]] = {
        "type": "entity",
        "name": "Ship / the release",
        "entityType": "desired_outcome",
        "observations": ["The release is out.", "Everybody knows.", "The release is out!"],
        "metadata": {"dueDate": "2026-04-01", "chartId": "chart_1", "level": 0, "phase": None},
    }
    other: ClassVar[dict[str, Any]] = {
        "type": "entity",
        "name": "now",
        "entityType": "current_reality",
        "observations": ["The release is out."],
        "metadata": {"chartId": "chart_1"},
    }
    relation: ClassVar[dict[str, Any]] = {
        "type": "relation",
        "from": "now",
        "to": "Ship / the release",
        "relationType": "creates_tension_with",
        "metadata": {"createdAt": "2026-03-01T12:00:00Z", "strength": 0.75},
    }

    async def store_entity(self, client: AsyncKnowledgeClient, entity: dict[str, Any]) -> Fact:
        fact = await tell(
            client,
            kind="entity",
            content=entity["name"],
            subject=entity["entityType"],
            data=entity["metadata"],
            schema="graph/1",
            aliases=[AliasIn(namespace="entity", value=entity["name"])],
        )
        for position, text in enumerate(entity["observations"]):
            await tell(
                client, kind="fact", content=text, position=position,
                about=reference("entity", entity["name"]),
            )  # fmt: skip
        return fact

    async def read(self, client: AsyncKnowledgeClient, name: str) -> dict[str, Any]:
        fact = await client.get_fact(reference("entity", name))
        every = (await client.list_facts(scope=TEAM, limit=500)).facts
        about = [each for each in every if each.about == fact.id]
        about.sort(key=lambda each: each.position or 0)
        return {
            "type": "entity",
            "name": fact.content,
            "entityType": fact.subject,
            "observations": [each.content for each in about],
            "metadata": fact.data,
        }

    async def test_entities_observations_and_relations_come_back(
        self, client: AsyncKnowledgeClient
    ) -> None:
        for entity in (self.entity, self.other):
            await self.store_entity(client, entity)
        strength = self.relation["metadata"]["strength"]
        await client.link(
            LinkIn(
                from_=reference("entity", "now"),
                to=reference("entity", "Ship / the release"),
                type="creates_tension_with",
                weight=strength,
                data=self.relation["metadata"],
            )
        )
        for entity in (self.entity, self.other):
            assert await self.read(client, str(entity["name"])) == entity
        near = await client.neighbors(reference("entity", "now"))
        names = {near.facts[0].fact.id: near.facts[0].fact.content}
        (link,) = near.links
        names[link.from_] = (await client.get_fact(link.from_)).content
        assert {
            "type": "relation",
            "from": names[link.from_],
            "to": names[link.to],
            "relationType": link.type,
            "metadata": {**link.data, "strength": link.weight},
        } == self.relation

    async def test_same_text_may_be_observed_of_two_entities(
        self, client: AsyncKnowledgeClient
    ) -> None:
        for entity in (self.entity, self.other):
            await self.store_entity(client, entity)
        same = [
            fact
            for fact in (await client.list_facts(scope=TEAM, limit=500)).facts
            if fact.content == "The release is out."
        ]
        assert len({fact.about for fact in same}) == 2


class TestKnowledgeObjects:
    record: ClassVar[dict[str, Any]] = {
        "id": "KO-shop-001",
        "title": "Carts need a lock",
        "derived_from": {
            "issue_id": "SHOP-7",
            "session_id": "s-9",
            "resolution_status": "RESOLVED_FULL",
        },
        "insight": {
            "what_was_learned": "Two tabs may pay one cart.",
            "why_it_matters": "Money is taken twice.",
            "root_cause_category": "race_condition",
        },
        "prevention": {
            "rule": "Take the cart's lock before paying.",
            "detection_pattern": r"pay\(cart",
            "suggested_guardrail": None,
        },
        "applicability": {
            "projects": ["*"],
            "file_patterns": ["src/**/cart*.py"],
            "tech_stack": ["python"],
            "tags": ["payments"],
        },
        "status": "draft",
        "created_by": "keeper",
        "usage": {"times_consulted": 3, "times_prevented": 1},
    }

    async def test_object_comes_back_with_its_source_and_what_it_prevented(
        self, client: AsyncKnowledgeClient
    ) -> None:
        record = self.record
        kept = ("insight", "prevention", "applicability", "derived_from")
        source = Source(
            type="explicit_remember",
            refs=(Ref(type="issue", id="SHOP-7"), Ref(type="session", id="s-9")),
        )
        await tell(
            client,
            kind="insight",
            title=record["title"],
            content=record["insight"]["what_was_learned"],
            data={each: record[each] for each in kept},
            schema="ko/1",
            review=record["status"],
            tags=record["applicability"]["tags"],
            source=source,
            aliases=[AliasIn(namespace="ko", prefix="KO-shop-", digits=3)],
        )
        name = reference("ko", "KO-shop-001")
        uses = (FactUse(fact=name, kind="consulted", count=3), FactUse(fact=name, kind="prevented"))
        await client.count_usage(UsageIn(uses=uses))
        fact, impact = await client.get_fact(name), await client.impact(name)
        assert [(ref.type, ref.id) for ref in fact.source.refs] == [
            ("issue", "SHOP-7"),
            ("session", "s-9"),
        ]
        read = {
            **fact.data,
            "id": (await client.why(name)).aliases[0].value,
            "title": fact.title,
            "status": fact.review,
            "created_by": fact.source.actor,
            "usage": {
                "times_consulted": impact.usage["consulted"].count,
                "times_prevented": impact.usage["prevented"].count,
            },
        }
        assert read == record
        assert impact.usage["consulted"].last_at is not None


async def test_rooms_need_no_change_of_the_schema(tmp_path: Path) -> None:
    """The tables after every record are those that the migrations made."""
    store = SqliteStore(tmp_path / "knowledge.db")
    with store._readers.snapshot() as db:
        before: list[Any] = db.execute("SELECT name, sql FROM sqlite_schema ORDER BY 1").fetchall()
    app = create_app(store, NamedCallers({"keeper": administrator("keeper", "human")}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    client = AsyncKnowledgeClient("http://service", token="keeper", transport=transport)
    blocks = TestBlocks()
    await blocks.store(client, blocks.block("a"))
    await TestFiles().store(client, TestFiles.item)
    await TestGraph().store_entity(client, TestGraph.entity)
    await TestKnowledgeObjects().test_object_comes_back_with_its_source_and_what_it_prevented(
        client
    )
    with store._readers.snapshot() as db:
        after: list[Any] = db.execute("SELECT name, sql FROM sqlite_schema ORDER BY 1").fetchall()
        ((newest,),) = db.execute("SELECT max(number) FROM migration").fetchall()
    store.close()
    assert after == before
    assert newest == migrations.SQLITE[-1][0]
