"""Operations of several acts: all of them or none, with one undo."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    GraphEntitiesIn,
    GraphEntityIn,
    OperationIn,
    ReasonIn,
    ScopeConfig,
)
from tests.contract.service.callers import PEER, Connect, refused, told
from tests.knowledge_builders import LEAD, OTHER, TEAM

CODE = errors.ErrorCode


def operation(*acts: dict[str, Any], reason: str = "belongs together") -> OperationIn:
    return OperationIn.model_validate({"reason": reason, "acts": acts})


def remember(content: str, **fields: Any) -> dict[str, Any]:
    return {"act": "remember", "fact": {"content": content, "scope": LEAD, **fields}}


def link(start: str, end: str, kind: str = "contains") -> dict[str, Any]:
    return {"act": "link", "link": {"from": start, "to": end, "type": kind}}


def retract(fact: str) -> dict[str, Any]:
    return {"act": "retract", "fact": fact}


CHART = (
    remember("a chart", aliases=[{"namespace": "chart", "value": "c1"}]),
    remember("an action", about="act:0", position=0),
    link("act:0", "act:1"),
)


async def live(client: AsyncKnowledgeClient) -> set[str]:
    return {fact.content for fact in (await client.list_facts(lifecycle="live")).facts}


async def test_acts_refer_to_the_facts_of_earlier_acts(connect: Connect) -> None:
    lead = connect("lead")
    results = (await lead.perform(operation(*CHART))).results
    assert [result.status for result in results] == ["created", "created", "linked"]
    chart = await lead.get_fact("alias:chart:c1")
    (action,) = (await lead.list_facts(about=chart.id)).facts
    assert [results[0].fact_id, results[1].fact_id] == [chart.id, action.id]
    (made,) = (await lead.list_links(chart.id)).links
    assert (made.id, made.from_, made.to) == (results[2].link_id, chart.id, action.id)


async def test_nothing_is_done_when_one_act_fails(connect: Connect) -> None:
    lead = connect("lead")
    first = await told(lead, "first", LEAD)
    await lead.retract(first, ReasonIn(reason="wrong"))
    with pytest.raises(errors.Conflict, match=f"fact {first} is retracted already: wrong"):
        await lead.perform(operation(*CHART, retract(first)))
    assert await live(lead) == set()
    with pytest.raises(errors.NotFound):
        await lead.get_fact("alias:chart:c1")


@pytest.mark.parametrize("which", [0, 1])
async def test_one_undo_reverts_every_act(connect: Connect, which: int) -> None:
    lead = connect("lead")
    old = await told(lead, "old", LEAD)
    results = (await lead.perform(operation(*CHART, retract(old)))).results
    undone = await lead.undo(results[which].fact_id, ReasonIn(reason="too early"))
    assert set(undone.changed) == {results[0].fact_id, results[1].fact_id, old}
    assert await live(lead) == {"old"}
    assert (await lead.list_links(results[0].fact_id)).links[0].closed_at is not None
    with pytest.raises(errors.NotFound):
        await lead.get_fact("alias:chart:c1")
    again = await lead.perform(operation(remember("b", aliases=CHART[0]["fact"]["aliases"])))
    assert again.results[0].aliases[0].value == "c1"


async def test_undo_waits_for_the_undo_of_a_later_change(connect: Connect) -> None:
    lead = connect("lead")
    results = (await lead.perform(operation(*CHART))).results
    await lead.retract(results[1].fact_id, ReasonIn(reason="not needed"))
    with pytest.raises(errors.Conflict, match="undo that change first"):
        await lead.undo(results[0].fact_id, ReasonIn(reason="x"))


async def test_repeat_with_the_key_returns_the_first_results(connect: Connect) -> None:
    lead = connect("lead")
    first = await lead.perform(operation(*CHART), idempotency_key="k1")
    assert await lead.perform(operation(*CHART), idempotency_key="k1") == first
    assert len((await lead.list_facts()).facts) == 2
    with pytest.raises(errors.Conflict):
        await lead.perform(operation(remember("other")), idempotency_key="k1")


@pytest.mark.parametrize(
    ("acts", "message"),
    [
        ((link("act:0", "act:1"),), "an act refers to a later one"),
        ((remember("x", about="act:0"),), "an act refers to a later one"),
        ((remember("x"), link("act:0", "act:7")), "an act refers to a later one"),
        ((remember("x"), link("act:0", "act:0", "supersedes")), "act 1: the link's type"),
    ],
)
async def test_reference_to_no_earlier_act_is_refused(
    connect: Connect, acts: tuple[dict[str, Any], ...], message: str
) -> None:
    with pytest.raises(errors.InvalidRequest, match=message):
        await connect("lead").perform(operation(*acts))
    assert await live(connect("lead")) == set()


async def test_each_act_needs_its_own_rights(connect: Connect) -> None:
    ada, lead = connect("ada"), connect("lead")
    shared = await told(ada, "shared", TEAM)
    acts = (remember("mine"), link("act:0", shared), retract(shared))
    error = await refused(lead.perform(operation(*acts)), CODE.FORBIDDEN)
    assert "act 2: " in error
    assert await live(lead) == {"shared"}
    linked = await lead.perform(operation(*acts[:2]))
    assert linked.results[1].status == "linked"
    # The fact at the other end is only referenced: its last operation is still its own.
    await ada.undo(shared, ReasonIn(reason="mine alone"))
    assert await live(lead) == {"mine"}


async def test_equal_fact_of_another_is_confirmed_but_not_changed(connect: Connect) -> None:
    teammate = connect("teammate")
    shared = await told(connect("ada"), "shared", TEAM)
    mine = await told(teammate, "mine", PEER)
    act = {"act": "remember", "fact": {"content": "shared", "scope": TEAM}}
    error = await refused(teammate.perform(operation(act, link("act:0", mine))), CODE.FORBIDDEN)
    assert "which is equal to the fact of act 0 and which another wrote" in error
    assert (await teammate.perform(operation(act))).results[0].fact_id == shared


async def test_acts_count_towards_the_quota_of_facts(connect: Connect) -> None:
    lead = connect("lead")
    await lead.create_entities(
        GraphEntitiesIn(entities=(GraphEntityIn(name="a", entity_type="x"),))
    )
    unchanged = await lead.perform(
        operation(remember("x"), link("act:0", "alias:entity:a"), link("act:0", "alias:entity:a"))
    )
    assert [result.status for result in unchanged.results] == ["created", "linked", "unchanged"]
    undone = {"act": "unlink", "from": "alias:entity:a", "to": "alias:entity:a", "type": "none"}
    assert (await lead.perform(operation(undone))).results[0].status == "unchanged"


async def test_ids_of_other_tenants_do_not_exist(connect: Connect) -> None:
    stranger = connect("stranger")
    foreign = await told(stranger, "secret plan", f"{OTHER}/cell:x")
    lead = connect("lead")
    own = await told(lead, "own", LEAD)
    for acts in ((retract(foreign),), (link(own, foreign),), (link(foreign, own),)):
        error = await refused(lead.perform(operation(*acts)), CODE.NOT_FOUND)
        missing = await refused(
            lead.perform(
                OperationIn.model_validate_json(
                    operation(*acts).model_dump_json(by_alias=True).replace(foreign, "0" * 36)
                )
            ),
            CODE.NOT_FOUND,
        )
        assert error.replace(foreign, "ID") == missing.replace("0" * 36, "ID")


async def test_author_undoes_an_operation_that_confirmed_the_fact_of_another(
    connect: Connect,
) -> None:
    teammate = connect("teammate")
    shared = await told(connect("ada"), "shared", TEAM)
    acts = (remember("mine", scope=TEAM), remember("shared", scope=TEAM))
    results = (await teammate.perform(operation(*acts))).results
    assert [result.status for result in results] == ["created", "confirmed"]
    undone = await teammate.undo(results[0].fact_id, ReasonIn(reason="too early"))
    assert set(undone.changed) == {results[0].fact_id, shared}
    assert await live(teammate) == {"shared"}


async def test_author_undoes_an_operation_that_withdrew_a_promoted_copy(connect: Connect) -> None:
    teammate = connect("teammate")
    mine = await told(teammate, "mine", TEAM)
    copy = (await connect("keeper").promote(mine, ReasonIn(reason="for all"))).copy_id
    revise = {"act": "revise", "fact": mine, "changes": {"content": "ours"}}
    (revised,) = (await teammate.perform(operation(revise))).results
    assert (await connect("keeper").get_fact(copy)).lifecycle == "superseded"
    await teammate.undo(revised.fact_id, ReasonIn(reason="too early"))
    assert (await connect("keeper").get_fact(copy)).lifecycle == "live"


async def test_nobody_undoes_what_another_confirmed_out_of_their_rights(connect: Connect) -> None:
    own = await told(connect("lead"), "shared", LEAD)
    acts = (remember("mine", scope=TEAM), remember("shared"))
    results = (await connect("keeper").perform(operation(*acts))).results
    assert results[1].fact_id == own
    undo = connect("corrector").undo(results[0].fact_id, ReasonIn(reason="x"))
    assert "changed other facts, which it may not change" in await refused(undo, CODE.FORBIDDEN)


async def test_read_only_scope_refuses_undo_through_a_fact_elsewhere(connect: Connect) -> None:
    keeper = connect("keeper")
    results = (await keeper.perform(operation(remember("a", scope=TEAM), remember("b")))).results
    await connect("operator").put_scope(LEAD, ScopeConfig(read_only=True))
    undo = keeper.undo(results[0].fact_id, ReasonIn(reason="x"))
    assert await refused(undo, CODE.SCOPE_READ_ONLY) == (
        f"scope {LEAD} is read-only; its KnowledgeScope says so"
    )
    assert await live(keeper) == {"a", "b"}
