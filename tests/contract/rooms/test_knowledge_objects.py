"""Knowledge objects: drawn from a resolved issue, approved by a person, counted when they help."""

from __future__ import annotations

from typing import Any, ClassVar

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    AliasIn,
    FactUse,
    Ref,
    Source,
    UsageIn,
)
from tests.contract.rooms.words import reference, tell


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
        stored_items = ("insight", "prevention", "applicability", "derived_from")
        source = Source(
            type="explicit_remember",
            refs=(Ref(type="issue", id="SHOP-7"), Ref(type="session", id="s-9")),
        )
        await tell(
            client,
            kind="insight",
            title=record["title"],
            content=record["insight"]["what_was_learned"],
            data={item: record[item] for item in stored_items},
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
