"""Facets: lists and recalls of facts by the values in their data, over each store."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import CorrectIn, FactIn, RecallIn
from tests.contract.service.callers import Connect, refused

CODE = errors.ErrorCode


async def remember_object(client: AsyncKnowledgeClient, content: str, **data: Any) -> str:
    fact = FactIn(content=content, data=data, schema="ko/1")
    return (await client.remember(fact)).fact_id


@pytest.fixture
async def objects(connect: Connect) -> dict[str, str]:
    """Store facts about locks; the first is the oldest."""
    lead = connect("lead")
    shop = {"applicability": {"projects": ["shop", "till"], "tech_stack": ["Python"]}}
    other = {"applicability": {"projects": ["harbour"], "tech_stack": ["python"]}}
    plain = FactIn(content="a lock of another schema", data=shop, schema="other/1")
    return {
        "shop": await remember_object(lead, "take the lock of the cart", **shop),
        "harbour": await remember_object(lead, "take the lock of the crane", **other),
        "large": await remember_object(
            lead, "take the lock of the till", **shop, notes=["x" * 100 for _ in range(50)]
        ),
        "bare": (await lead.remember(FactIn(content="a lock", schema="ko/1"))).fact_id,
        "other": (await lead.remember(plain)).fact_id,
    }


@pytest.mark.parametrize(
    ("facets", "names"),
    [
        (["applicability.projects=shop"], ["large", "shop"]),
        (["applicability.projects=SHOP "], ["large", "shop"]),
        (["applicability.tech_stack=python"], ["large", "harbour", "shop"]),
        (["applicability.tech_stack=python", "applicability.projects=harbour"], ["harbour"]),
        (["applicability.projects=sho"], []),
        (["applicability=shop"], []),
        ([], ["bare", "large", "harbour", "shop"]),
    ],
)
async def test_list_has_the_facts_of_a_schema_with_all_facets(
    connect: Connect, objects: dict[str, str], facets: list[str], names: list[str]
) -> None:
    page = await connect("lead").list_facts(schema="ko/1", facets=facets)
    assert [fact.id for fact in page.facts] == [objects[name] for name in names]


async def test_pages_of_a_facet_miss_nothing(connect: Connect) -> None:
    lead = connect("lead")
    colours = ("red", "blue", "blue", "red", "blue", "blue", "blue")
    stored = [
        (await remember_object(lead, f"fact {number}", colour=colour), colour)
        for number, colour in enumerate(colours)
    ]
    listed: list[str] = []
    cursor = None
    while True:
        page = await lead.list_facts(schema="ko/1", facets=["colour=blue"], limit=2, cursor=cursor)
        listed += [fact.id for fact in page.facts]
        cursor = page.cursor
        if cursor is None:
            break
    assert listed == [fact_id for fact_id, colour in reversed(stored) if colour == "blue"]


async def test_facets_narrow_a_search_by_substring_of_the_graph(connect: Connect) -> None:
    lead = connect("lead")
    for name, phase in (("north pier", "germination"), ("south pier", "completion")):
        data = {"phase": phase}
        fact = FactIn(content=name, kind="entity", data=data, schema="entity/1")
        await lead.remember(fact)
    page = await lead.list_facts(
        kind="entity", contains="pier", schema="entity/1", facets=["phase=completion"]
    )
    assert [fact.content for fact in page.facts] == ["south pier"]


async def test_facets_hold_for_what_was_known_then(
    connect: Connect, objects: dict[str, str]
) -> None:
    lead = connect("lead")
    known_at = (await lead.get_fact(objects["other"])).recorded_at
    await lead.correct(objects["shop"], CorrectIn(reason="obsolete"))
    query = {"schema": "ko/1", "facets": ["applicability.projects=shop"], "lifecycle": "live"}
    now, then = await lead.list_facts(**query), await lead.list_facts(**query, known_at=known_at)
    assert [fact.id for fact in now.facts] == [objects["large"]]
    assert [fact.id for fact in then.facts] == [objects["large"], objects["shop"]]


async def test_recall_has_only_facts_with_the_facets(
    connect: Connect, objects: dict[str, str]
) -> None:
    lead = connect("lead")
    facets = ("applicability.projects=shop",)
    recalled = await lead.recall(RecallIn(query="lock", schema="ko/1", facets=facets))
    assert {fact.id for fact in recalled.facts} == {objects["shop"], objects["large"]}
    of_schema = await lead.recall(RecallIn(query="lock", schema="other/1"))
    assert [fact.id for fact in of_schema.facts] == [objects["other"]]


async def test_a_rare_facet_is_recalled_from_behind_many_better_matches(
    connect: Connect,
) -> None:
    lead = connect("lead")
    for number in range(300):
        await remember_object(lead, f"lock lock lock {number}", colour="red")
    rare = await remember_object(lead, "a long sentence with one lock in it", colour="blue")
    recalled = await lead.recall(RecallIn(query="lock", schema="ko/1", facets=("colour=blue",)))
    assert [fact.id for fact in recalled.facts] == [rare]


async def test_recall_says_which_facet_a_fact_lacks(
    connect: Connect, objects: dict[str, str]
) -> None:
    answer = await connect("lead").recall(
        RecallIn(
            query="lock",
            schema="ko/1",
            facets=("applicability.projects=harbour",),
            why_not=(objects["shop"], objects["other"]),
        )
    )
    assert [(each.stage, each.why) for each in answer.why_not] == [
        ("filters", "its data does not have applicability.projects=harbour"),
        ("filters", "its schema is other/1, not ko/1"),
    ]


async def test_replay_repeats_a_recall_with_its_facets(
    connect: Connect, objects: dict[str, str]
) -> None:
    lead = connect("lead")
    facets = ("applicability.projects=harbour",)
    recalled = await lead.recall(
        RecallIn(query="lock", schema="ko/1", facets=facets), idempotency_key="k"
    )
    assert recalled.receipt is not None
    replayed = await lead.replay(recalled.receipt)
    assert (replayed.equal, replayed.facts) == (True, (objects["harbour"],))


async def test_facets_without_a_schema_or_a_value_are_refused(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    lead = connect("lead")
    missing = "a facet names a member of the data of one schema; add schema"
    assert await refused(lead.list_facts(facets=["a=b"]), CODE.INVALID_BODY) == missing
    recall = lead.recall(RecallIn(query="x", facets=("a=b",)))
    assert await refused(recall, CODE.INVALID_BODY) == missing
    detail = await refused(lead.list_facts(schema="ko/1", facets=["a"]), CODE.INVALID_BODY)
    assert detail == "invalid facet: 'a' is not NAME=VALUE, such as applicability.projects=shop"
    headers = {"Authorization": "Bearer lead"}
    query = "&".join(["schema=ko/1", *["facet=a=b"] * 9])
    response = await http.get(f"/v1/facts?{query}", headers=headers)
    assert response.status_code == 422
    assert "facet" in response.text
