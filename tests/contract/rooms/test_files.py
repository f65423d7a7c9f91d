"""Files: numbered items that people edit and sessions confirm."""

from __future__ import annotations

from typing import Any, ClassVar

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    AliasIn,
    EpisodeIn,
    EpisodesIn,
    Fact,
    FactIn,
    LinkIn,
)
from tests.contract.rooms.words import reference, tell
from tests.knowledge_builders import TEAM, run_in


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
        stored_items = ("source_count", "first_seen", "last_confirmed", "domain")
        return await tell(
            client,
            kind=item["category"],
            content=item["fact"],
            confidence=item["confidence"],
            tags=item["tags"],
            expires_at=item["expires"],
            data={item_key: item[item_key] for item_key in stored_items},
            schema="file/1",
            aliases=[name],
        )

    async def test_item_comes_back_with_its_number_and_what_is_related(
        self, client: AsyncKnowledgeClient
    ) -> None:
        fact = await self.store(client, self.item)
        other_fact = await self.store(client, {**self.item, "fact": "Another one.", "related": []})
        await client.link(LinkIn(from_=fact.id, to=other_fact.id, type="related"))
        matching_fact = await client.get_fact(reference("file", "global:pitfall:001"))
        (link,) = (await client.list_links(matching_fact.id)).links
        (related,) = (await client.why(link.to)).aliases
        (own_alias,) = (await client.why(matching_fact.id)).aliases
        assert matching_fact.expires_at is not None
        read = {
            **matching_fact.data,
            "id": own_alias.value,
            "fact": matching_fact.content,
            "category": matching_fact.kind,
            "confidence": matching_fact.confidence,
            "tags": list(matching_fact.tags),
            "expires": matching_fact.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
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
                    schema="file/1",
                    run=session,
                )
            )
        confirmed = (await client.why(fact.id)).confirmations
        assert len(confirmed) == 2
        runs = (await client.list_runs()).runs
        assert {run.kind for run in runs} == {"session"}
        assert runs[0].counters == {"messages": 12, "tools": 4}
