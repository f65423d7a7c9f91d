"""What cells remember belongs to their Blueprint, and each changes only what it wrote there."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.base_model import SPEAK_AS_AGENT, SPEAK_AS_HEADER
from knowledge_client.models import (
    ApproveIn,
    ConfirmIn,
    CorrectIn,
    FactIn,
    LinkIn,
    ReasonIn,
    RecallIn,
    RunIn,
    Source,
)
from tests.contract.service.callers import PEER, Connect, refused, told
from tests.knowledge_builders import LEAD, TEAM

CODE = errors.ErrorCode
WRONG = CorrectIn(reason="wrong")


async def test_cell_remembers_for_its_blueprint_unless_it_says_mine(connect: Connect) -> None:
    cell = connect("first use")
    shared = await cell.get_fact(await told(cell, "the build needs Java 21"))
    own_fact = await cell.get_fact(await told(cell, "I reviewed the parser", "mine"))
    assert (shared.scope, own_fact.scope) == (TEAM, LEAD)
    assert shared.source.author == own_fact.source.author == LEAD
    who = await cell.whoami()
    assert (who.home, who.default_scope) == (LEAD, TEAM)


async def test_other_cells_of_the_blueprint_recall_it_and_not_what_is_mine(
    connect: Connect,
) -> None:
    shared = await told(connect("first use"), "the build needs Java 21")
    await told(connect("first use"), "the build of the parser is mine", "mine")
    for caller in ("teammate", "next use", "sharing"):
        facts = (await connect(caller).recall(RecallIn(query="build"))).facts
        expected = 2 if caller == "next use" else 1  # the same cell in the next use
        assert len(facts) == expected
        assert shared in {fact.id for fact in facts}
    assert (await connect("stranger").recall(RecallIn(query="build"))).facts == ()


async def test_renamed_cell_finds_what_it_remembered_under_its_old_name(connect: Connect) -> None:
    fact = await told(connect("first use"), "the build needs Java 21")
    assert (await connect("teammate").get_fact(fact)).content == "the build needs Java 21"
    listed = await connect("teammate").list_facts(scope=TEAM)
    assert [listed_fact.id for listed_fact in listed.facts] == [fact]


async def test_author_may_change_its_fact_in_the_next_use_too(connect: Connect) -> None:
    first, following = connect("first use"), connect("next use")
    fact = await told(first, "the build needs Java 17")
    corrected = await following.correct(
        fact, CorrectIn(reason="old", replacement="the build needs Java 21")
    )
    assert corrected.replacement_id
    successor = await first.get_fact(corrected.replacement_id)
    assert successor.source.author == LEAD
    assert (await first.retract(successor.id, ReasonIn(reason="wrong"))).lifecycle == "retracted"
    assert (
        await following.restore(successor.id, ReasonIn(reason="right after all"))
    ).lifecycle == "live"


@pytest.mark.parametrize("caller", ["teammate", "sharing"])
async def test_cell_changes_nothing_that_another_wrote(connect: Connect, caller: str) -> None:
    fact = await told(connect("first use"), "the build needs Java 21")
    other_client = connect(caller)
    name = (await other_client.whoami()).name
    calls = {
        "correct": other_client.correct(fact, WRONG),
        "retract": other_client.retract(fact, ReasonIn(reason="wrong")),
        "undo changes of": other_client.undo(fact, ReasonIn(reason="wrong")),
        "link": other_client.link(
            LinkIn(from_=fact, to=await told(other_client, "Java 21 is out"), type="x")
        ),
    }
    for activity, call in calls.items():
        assert await refused(call, CODE.FORBIDDEN) == (
            f"{name} may not {activity} fact {fact}: {LEAD} wrote it;"
            " remember what you know instead, or have a person change it"
        )
    await connect("first use").retract(fact, ReasonIn(reason="wrong"))
    await refused(other_client.restore(fact, ReasonIn(reason="right")), CODE.FORBIDDEN)


async def test_facts_of_people_and_of_runs_are_not_the_cells(connect: Connect) -> None:
    fact = await told(connect("ada"), "the build needs Java 21", TEAM)
    refusal = await refused(
        connect("first use").retract(fact, ReasonIn(reason="wrong")), CODE.FORBIDDEN
    )
    assert "ada wrote it" in refusal
    approved = await told(connect("first use"), "deploys run at noon")
    await connect("keeper").approve(approved, ApproveIn(reason="checked"))
    refusal = await refused(
        connect("first use").retract(approved, ReasonIn(reason="wrong")), CODE.FORBIDDEN
    )
    assert "its review is approved" in refusal


async def test_cell_confirms_what_another_wrote(connect: Connect) -> None:
    fact = await told(connect("first use"), "the build needs Java 21")
    repeated = await connect("teammate").remember(FactIn(content="the build needs Java 21"))
    assert (repeated.fact_id, repeated.status) == (fact, "confirmed")
    confirmed = await connect("teammate").confirm(fact, ConfirmIn(session="s"))
    assert confirmed.source.author == LEAD


async def test_author_cannot_be_claimed(connect: Connect) -> None:
    claim = FactIn(content="x", source=Source(author=LEAD, actor="demo/team-a1-lead-0"))
    fact = (await connect("teammate").remember(claim)).fact_id
    assert (await connect("teammate").get_fact(fact)).source.author == PEER
    await refused(connect("first use").retract(fact, ReasonIn(reason="wrong")), CODE.FORBIDDEN)


async def test_agents_of_two_people_change_nothing_of_each_other(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    def as_agent_of(person: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {person}", SPEAK_AS_HEADER: SPEAK_AS_AGENT}

    stored = await http.post(
        "/v1/facts", json={"content": "x", "scope": TEAM}, headers=as_agent_of("bea")
    )
    fact = stored.json()["fact_id"]
    assert (await connect("first use").get_fact(fact)).source.author == "bea"
    retract = f"/v1/facts/{fact}:retract"
    denied = await http.post(retract, json={"reason": "no"}, headers=as_agent_of("cem"))
    assert denied.status_code == 403
    assert "bea wrote it" in denied.json()["detail"]
    own = await http.post(retract, json={"reason": "no"}, headers=as_agent_of("bea"))
    assert own.json()["lifecycle"] == "retracted"


async def test_undo_never_takes_back_what_another_did(connect: Connect) -> None:
    """A later statement of another closed the fact; undoing that would retract its statement."""
    key = {"subject": "build", "predicate": "needs"}
    first, mate = connect("first use"), connect("teammate")
    fact = (await first.remember(FactIn(content="Java 17", **key))).fact_id
    newer = await mate.remember(FactIn(content="Java 21", **key))
    assert newer.superseded == (fact,)
    refusal = await refused(first.undo(fact, ReasonIn(reason="mine is right")), CODE.FORBIDDEN)
    assert "demo/team-a1-lead-1 made it" in refusal
    undone = await mate.undo(newer.fact_id, ReasonIn(reason="mistaken"))
    assert set(undone.changed) == {fact, newer.fact_id}
    assert (await first.get_fact(fact)).lifecycle == "live"


async def test_cells_that_share_an_account_still_open_sessions_at_their_home(
    connect: Connect,
) -> None:
    run = RunIn(namespace="demo", scope=TEAM, kind="session")
    assert (await connect("sharing").put_run("s-1", run)).scope == TEAM
    await refused(connect("first use").put_run("s-2", run), CODE.FORBIDDEN)
