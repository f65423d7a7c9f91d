"""Blocks: content-addressed, typed, with mentions and backlinks."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    AliasIn,
    CorrectIn,
    Fact,
    LinkIn,
)
from tests.contract.rooms.words import reference, tell


class TestBlocks:
    def block(self, text: str, **fields: Any) -> dict[str, Any]:
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
            **fields,
        }

    async def store(self, client: AsyncKnowledgeClient, block: dict[str, Any]) -> Fact:
        stored_items = (
            "content",
            "block_type",
            "embedding",
            "metadata",
            "created_at",
            "updated_at",
        )
        return await tell(
            client,
            kind="insight",
            content=block["content"]["title"],
            data={name: block[name] for name in stored_items},
            schema="block/1",
            tags=block["tags"],
            aliases=[AliasIn(namespace="sha256", value=block["block_id"])],
        )

    async def read(self, client: AsyncKnowledgeClient, block_id: str) -> dict[str, Any]:
        fact = await client.get_fact(reference("sha256", block_id))
        links = (await client.list_links(fact.id)).links
        ids = {}
        for item in {end for link in links for end in (link.from_, link.to)}:
            names = (await client.why(item)).aliases
            ids[item] = next(name.value for name in names if name.namespace == "sha256")
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
        first_part, second_part = self.block("pin the base image"), self.block("images drift")
        first, second = await self.store(client, first_part), await self.store(client, second_part)
        for _ in range(2):  # idempotent
            await client.link(LinkIn(from_=first.id, to=second.id, type="mentions"))
        assert (await client.link(LinkIn(from_=first.id, to=first.id))).status == "ignored"
        lost: dict[str, Any] = {"mentions": [], "backlinks": []}
        assert await self.read(client, first_part["block_id"]) == {
            **first_part, **lost, "mentions": [second_part["block_id"]],
        }  # fmt: skip
        assert await self.read(client, second_part["block_id"]) == {
            **second_part, **lost, "backlinks": [first_part["block_id"]],
        }  # fmt: skip

    async def test_equal_content_is_the_existing_block(self, client: AsyncKnowledgeClient) -> None:
        block = self.block("pin the base image")
        first = await self.store(client, block)
        assert (await self.store(client, block)).id == first.id

    async def test_update_keeps_identity_and_history(self, client: AsyncKnowledgeClient) -> None:
        block = self.block("pin the base image")
        first = await self.store(client, block)
        change = CorrectIn(reason="updated", replacement="pin every image")
        correction = await client.correct(first.id, change)
        now = await client.get_fact(reference("sha256", block["block_id"]))
        assert now.id == correction.replacement_id
        assert (await client.get_fact(first.id)).lifecycle == "superseded"
