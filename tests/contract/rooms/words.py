"""The words that records of every room are told in."""

from __future__ import annotations

from typing import Any

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    Fact,
    FactIn,
)
from tests.knowledge_builders import TEAM


async def tell(client: AsyncKnowledgeClient, **fields: Any) -> Fact:
    """Remember a fact of the team and read it back by its id."""
    remembered = await client.remember(FactIn.model_validate({"scope": TEAM, **fields}))
    return await client.get_fact(remembered.fact_id)


def reference(namespace: str, value: str) -> str:
    return f"alias:{namespace}:" + value.replace("~", "~0").replace("/", "~1")
