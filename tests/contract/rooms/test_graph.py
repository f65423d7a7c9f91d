"""Graph and charts: entities, observations in order, and relations."""

from __future__ import annotations

from typing import Any, ClassVar

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    AliasIn,
    Fact,
    LinkIn,
)
from tests.contract.rooms.words import reference, tell
from tests.knowledge_builders import TEAM


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
        facts = (await client.list_facts(scope=TEAM, limit=500)).facts
        subjects = [item for item in facts if item.about == fact.id]
        subjects.sort(key=lambda item: item.position or 0)
        return {
            "type": "entity",
            "name": fact.content,
            "entityType": fact.subject,
            "observations": [item.content for item in subjects],
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
        near_neighborhood = await client.neighbors(reference("entity", "now"))
        names = {near_neighborhood.facts[0].fact.id: near_neighborhood.facts[0].fact.content}
        (link,) = near_neighborhood.links
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
        same_facts = [
            fact
            for fact in (await client.list_facts(scope=TEAM, limit=500)).facts
            if fact.content == "The release is out."
        ]
        assert len({fact.about for fact in same_facts}) == 2
