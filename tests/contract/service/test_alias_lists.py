"""The aliases of a namespace, in pages."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import AliasIn, FactIn, ReasonIn
from knowledge_service.use_cases import pagination
from tests.contract.service.callers import Connect, refused
from tests.knowledge_builders import LEAD, TEAM

CODE = errors.ErrorCode


async def named(
    connect: Connect, caller: str, value: str, scope: str, namespace: str = "file"
) -> str:
    alias = AliasIn(namespace=namespace, value=value)
    fact = FactIn(content=f"{value} in {scope}", scope=scope, aliases=(alias,))
    return (await connect(caller).remember(fact)).fact_id


async def values(connect: Connect, caller: str, **filters: str) -> list[tuple[str, str]]:
    page = await connect(caller).list_aliases("file", **filters)  # type: ignore[arg-type]
    return [(each.value, each.scope) for each in page.aliases]


async def test_aliases_come_in_order_with_fact_and_scope(connect: Connect) -> None:
    for value in ("KO-b", "KO-a", "other", "\U0010ffff", "KO-\0"):
        await named(connect, "ada", value, TEAM)
    fact_id = await named(connect, "lead", "KO-a", LEAD)
    await named(connect, "ada", "KO-c", TEAM, namespace="ko")
    assert await values(connect, "lead") == [
        ("KO-\0", TEAM), ("KO-a", TEAM), ("KO-a", LEAD), ("KO-b", TEAM), ("other", TEAM),
        ("\U0010ffff", TEAM),
    ]  # fmt: skip
    prefixed = [("KO-a", TEAM), ("KO-a", LEAD)]
    assert await values(connect, "lead", prefix="KO-a") == prefixed
    assert await values(connect, "lead", prefix="KO-a", scope=LEAD) == [("KO-a", LEAD)]
    assert await values(connect, "lead", prefix="\U0010ffff") == [("\U0010ffff", TEAM)]
    assert await values(connect, "lead", prefix="missing") == []
    page = await connect("lead").list_aliases("file", scope=LEAD)
    assert [(each.namespace, each.fact_id) for each in page.aliases] == [("file", fact_id)]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_aliases_follow_each_other(connect: Connect, limit: int) -> None:
    for value in ("a", "b", "c"):
        await named(connect, "ada", value, TEAM)
        await named(connect, "lead", value, LEAD)
    pages, cursor = [], None
    while True:
        page = await connect("lead").list_aliases("file", cursor=cursor, limit=limit)
        pages += [(each.value, each.scope) for each in page.aliases]
        assert len(page.aliases) <= limit
        cursor = page.cursor
        if cursor is None:
            break
    assert pages == [(value, scope) for value in "abc" for scope in (TEAM, LEAD)]


async def test_aliases_of_facts_out_of_sight_are_not_listed(connect: Connect) -> None:
    await named(connect, "lead", "KO-1", LEAD)
    assert await values(connect, "peer") == []


async def test_the_alias_of_a_retracted_fact_is_free(connect: Connect) -> None:
    ada = connect("ada")
    fact_id = await named(connect, "ada", "KO-1", TEAM)
    await ada.retract(fact_id, ReasonIn(reason="wrong"))
    assert await values(connect, "ada") == []
    again = FactIn(content="right", scope=TEAM, aliases=(AliasIn(namespace="file", value="KO-1"),))
    await ada.remember(again)
    assert await values(connect, "ada") == [("KO-1", TEAM)]


async def test_a_scope_out_of_reach_and_a_foreign_cursor_are_refused(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    lead = connect("lead")
    await refused(lead.list_aliases("file", scope="realm:other"), CODE.SCOPE_FORBIDDEN)
    crafted = ('["\\ud800","realm:demo"]', '["a","\\ud800"]', "[" * 20_000)
    for cursor in ("x", "MTpbMV0=", "MTpbMSwyXQ==", *map(pagination.encode, crafted)):
        response = await http.get(
            "/v1/aliases",
            params={"namespace": "ko", "cursor": cursor},
            headers={"Authorization": "Bearer lead"},
        )
        assert (response.status_code, response.json()["code"]) == (422, "invalid-body")
