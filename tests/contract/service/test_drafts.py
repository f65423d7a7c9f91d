"""Agents see what a reviewer approved: drafts keep their review, and rejected words stay away."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from knowledge_client.models import (
    AliasIn,
    ApproveIn,
    ConfirmIn,
    CorrectIn,
    Fact,
    FactIn,
    FactUse,
    LinkIn,
    ReasonIn,
    RecallIn,
    UsageIn,
)
from knowledge_service.ports import Store
from tests.contract.service.callers import CALLERS, Connect, refused
from tests.knowledge_builders import LEAD, run_in

REASON = ReasonIn(reason="x")
SNOW = "snow falls up"
ALIAS = AliasIn(namespace="ko", value="KO-1")


async def draft(connect: Connect, name: str = "keeper", content: str = "rain falls up") -> str:
    """Have a draft told; return its id."""
    names = () if content == SNOW else (ALIAS,)
    fact = FactIn(content=content, scope=LEAD, review="draft", aliases=names)
    return (await connect(name).remember(fact)).fact_id


async def rejected(connect: Connect) -> str:
    fact_id = await draft(connect)
    await connect("keeper").reject(fact_id, REASON)
    return fact_id


async def listed(connect: Connect, name: str, **filters: str) -> list[str]:
    return [fact.id for fact in (await connect(name).list_facts(**filters)).facts]


@pytest.mark.parametrize("make", [draft, rejected])
async def test_agents_neither_list_nor_read_what_is_not_approved(
    connect: Connect, http: httpx.AsyncClient, make: object
) -> None:
    fact_id: str = await make(connect)  # type: ignore[operator]
    plain = (await connect("keeper").remember(FactIn(content="rain", scope=LEAD))).fact_id
    await connect("keeper").link(LinkIn.model_validate({"from": plain, "to": fact_id}))
    lead = connect("lead")
    assert await listed(connect, "lead") == [plain]
    for review in ("draft", "rejected"):
        assert await listed(connect, "lead", review=review) == []
    for name in (fact_id, "alias:ko:KO-1"):
        detail = await refused(lead.get_fact(name), "not-found")
        assert detail == f"fact {name} does not exist or is not visible to you"
    for path in ("history", "links", "neighbors", "why", "impact"):
        answer = await http.get(
            f"/v1/facts/{fact_id}/{path}", headers={"Authorization": "Bearer lead"}
        )
        assert answer.status_code == 404, path
    for path in ("links", "neighbors", "why", "impact", "history"):
        answer = await http.get(
            f"/v1/facts/{plain}/{path}", headers={"Authorization": "Bearer lead"}
        )
        assert fact_id not in answer.text, path
    question = RecallIn(query="rain falls", include_closed=True, why_not=(fact_id,))
    recalled = await lead.recall(question)
    assert [fact.id for fact in recalled.facts] == [plain]
    assert recalled.why_not[0].stage == "invisible"
    used_usage_request = UsageIn(uses=(FactUse(fact=fact_id, kind="applied"),))
    await refused(lead.count_usage(used_usage_request), "not-found")
    assert set(await listed(connect, "keeper")) == {plain, fact_id}


async def test_agents_read_no_earlier_version_of_what_was_rejected(connect: Connect) -> None:
    keeper = connect("keeper")
    fact_id = (await keeper.remember(FactIn(content="rain falls up", scope=LEAD))).fact_id
    later_time = (await keeper.get_fact(fact_id)).recorded_at + timedelta(microseconds=1)
    await keeper.reject(fact_id, REASON)
    await refused(connect("lead").get_fact(fact_id, known_at=later_time), "not-found")
    assert await listed(connect, "lead", known_at=later_time.isoformat()) == []
    question = RecallIn(query="rain falls", known_at=later_time)
    assert (await connect("lead").recall(question)).facts == ()
    assert [fact.id for fact in (await keeper.recall(question)).facts] == [fact_id]
    assert (await keeper.get_fact(fact_id, known_at=later_time)).review == "none"


async def test_agent_reads_what_was_approved(connect: Connect) -> None:
    fact_id = await draft(connect)
    await connect("keeper").approve(fact_id, ApproveIn(reason="read it"))
    assert (await connect("lead").get_fact(fact_id)).review == "approved"
    assert await listed(connect, "lead") == [fact_id]


@pytest.mark.parametrize("name", ["lead", "ada", "operator"])
async def test_correction_of_a_draft_is_a_draft_and_is_not_served(
    connect: Connect, name: str
) -> None:
    fact_id = await draft(connect, name)
    correction = await connect(name).correct(
        fact_id, CorrectIn(reason="said better", replacement="rain falls down")
    )
    assert correction.replacement_id
    successor = await connect("keeper").get_fact(correction.replacement_id)
    assert (successor.review, successor.lifecycle) == ("draft", "live")
    await connect("operator").put_run("r", run_in())
    for question in (RecallIn(query="rain falls"), RecallIn(query="rain falls", run="r")):
        assert (await connect("lead").recall(question)).facts == ()
    queue: tuple[Fact, ...] = (await connect("keeper").list_reviews()).facts
    assert [fact.id for fact in queue] == [correction.replacement_id]


async def test_agent_may_take_back_its_own_draft_and_no_other(connect: Connect) -> None:
    own_fact, second = await draft(connect, "lead"), await draft(connect, "keeper", SNOW)
    lead = connect("lead")
    for call in (
        lead.correct(second, CorrectIn(reason="x", replacement="snow falls down")),
        lead.confirm(second, ConfirmIn()),
        lead.retract(second, REASON),
    ):
        await refused(call, "not-found")
    await lead.retract(own_fact, REASON)
    assert (await connect("keeper").get_fact(own_fact)).lifecycle == "retracted"


async def test_stream_names_no_draft_to_an_agent(connect: Connect, store: Store) -> None:
    fact_id = await draft(connect)
    plain = (await connect("keeper").remember(FactIn(content="rain", scope=LEAD))).fact_id

    def named(name: str) -> set[str]:
        change_records = store.changes(0, CALLERS[name].view, limit=100).changes
        return {fact for change in change_records for fact in change.facts}

    assert named("lead") == {plain}
    assert named("keeper") == {plain, fact_id}


@pytest.mark.parametrize("review", ["draft", "none"])
@pytest.mark.parametrize("verb", ["undo", "restore"])
async def test_agent_does_not_bring_back_what_a_reviewer_replaced(
    connect: Connect, verb: str, review: str
) -> None:
    lead, keeper = connect("lead"), connect("keeper")
    body = FactIn.model_validate({"content": "rain falls up", "review": review})
    fact_id = (await lead.remember(body)).fact_id
    edits = ApproveIn(reason="it does not", content="rain falls down")
    approved = (await keeper.approve(fact_id, edits)).fact.id
    detail = await refused(getattr(lead, verb)(fact_id, REASON), "forbidden")
    assert "a reviewer" in detail
    assert (await keeper.get_fact(approved)).lifecycle == "live"
    assert (await keeper.get_fact(fact_id)).lifecycle == "superseded"
    await getattr(keeper, verb)(fact_id, REASON)
    assert (await keeper.get_fact(fact_id)).lifecycle == "live"


async def test_agent_is_served_the_older_fact_until_the_draft_of_its_key_is_approved(
    connect: Connect,
) -> None:
    keeper, lead = connect("keeper"), connect("lead")
    key = {"scope": LEAD, "subject": "build", "predicate": "needs"}
    old = (await keeper.remember(FactIn(content="rain falls", **key))).fact_id
    held = await lead.remember(FactIn(content="rain falls up", review="draft", **key))
    assert held.superseded == ()
    question = RecallIn(query="rain falls")
    assert [fact.id for fact in (await lead.recall(question)).facts] == [old]
    newer = await lead.remember(FactIn(content="rain falls down", **key))
    assert (newer.superseded, newer.contradicts) == ((old,), ())
    await keeper.retract(newer.fact_id, REASON)
    await keeper.approve(held.fact_id, ApproveIn(reason="read it"))
    assert [fact.id for fact in (await lead.recall(question)).facts] == [held.fact_id]
