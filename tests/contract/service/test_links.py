"""Links between facts: made, taken back, read from both ends, and walked along."""

from __future__ import annotations

import itertools

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    CorrectIn,
    LinkIn,
    ScopeConfig,
)
from tests.contract.service.callers import PEER, Connect, refused, told
from tests.knowledge_builders import LEAD, TEAM

CODE = errors.ErrorCode


async def chain(client: AsyncKnowledgeClient, length: int, scope: str = TEAM) -> list[str]:
    """Make facts linked one after the other."""
    facts = [await told(client, f"fact {n} of {scope}", scope) for n in range(length)]
    for entry, next_ in itertools.pairwise(facts):
        await client.link(LinkIn(from_=entry, to=next_))
    return facts


class TestLinking:
    async def test_link_is_read_from_both_ends(self, connect: Connect) -> None:
        ada = connect("ada")
        first, second = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        body = LinkIn(from_=first, to=second, type="mentions", weight=0.5, data={"line": 7})
        link_result = await ada.link(body)
        assert link_result.status == "created"
        assert link_result.link is not None
        assert (link_result.link.from_, link_result.link.to, link_result.link.type) == (
            first,
            second,
            "mentions",
        )
        assert (link_result.link.weight, link_result.link.data, link_result.link.actor) == (
            0.5,
            {"line": 7},
            "ada",
        )
        for end in (first, second):
            assert (await ada.list_links(end)).links == (link_result.link,)

    async def test_same_link_again_is_the_first_one(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        ada = connect("ada")
        first_id, second_id = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        first = await ada.link(LinkIn(from_=first_id, to=second_id))
        link_result = await ada.link(LinkIn(from_=first_id, to=second_id, weight=9))
        assert (link_result.status, link_result.link) == ("exists", first.link)
        back = await ada.link(LinkIn(from_=second_id, to=first_id))
        typed = await ada.link(LinkIn(from_=first_id, to=second_id, type="contains"))
        assert back.status == typed.status == "created"
        raw = {"from": first_id, "to": second_id, "type": "related"}
        answer = await http.post("/v1/links", json=raw, headers={"Authorization": "Bearer ada"})
        assert answer.status_code == 200

    async def test_link_of_a_fact_to_itself_is_ignored_and_said(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id = await told(ada, "one", TEAM)
        answer = await ada.link(LinkIn(from_=fact_id, to=fact_id))
        assert (answer.status, answer.link) == ("ignored", None)
        assert answer.reason == f"fact {fact_id} is not linked to itself"
        assert (await ada.list_links(fact_id)).links == ()

    async def test_missing_and_invisible_ends_are_refused_alike_to_the_byte(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        own_fact_id = await told(connect("lead"), "mine")
        hidden = await told(connect("stranger"), "secret")
        missing = "0" * 8 + hidden[8:]
        as_lead = {"Authorization": "Bearer lead"}
        for own_end, other_end in (("from", "to"), ("to", "from")):
            bodies = [
                {own_end: own_fact_id, other_end: end, "type": "related"}
                for end in (hidden, missing)
            ]
            answers = [await http.post("/v1/links", json=b, headers=as_lead) for b in bodies]
            deleted_responses = [
                await http.delete("/v1/links", params=b, headers=as_lead) for b in bodies
            ]
            for response, nowhere in (answers, deleted_responses):
                assert (response.status_code, nowhere.status_code) == (404, 404)
                assert (
                    response.content.replace(hidden.encode(), missing.encode()) == nowhere.content
                )

    async def test_link_starts_where_its_maker_may_write(self, connect: Connect) -> None:
        team = await told(connect("ada"), "of the team", TEAM)
        lead = connect("lead")
        own_fact = await told(lead, "mine")
        assert (await lead.link(LinkIn(from_=own_fact, to=team))).status == "created"
        detail = await refused(lead.link(LinkIn(from_=team, to=own_fact)), CODE.FORBIDDEN)
        assert detail == f"demo/lead-0 may read fact {team} but not link it to others"
        await refused(lead.unlink(team, own_fact, "related"), CODE.FORBIDDEN)
        await connect("operator").put_scope(LEAD, ScopeConfig(read_only=True))
        await refused(lead.link(LinkIn(from_=own_fact, to=team, type="x")), CODE.SCOPE_READ_ONLY)

    async def test_link_is_taken_back_once_and_its_history_stays(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        await ada.link(LinkIn(from_=one, to=other))
        for _ in range(2):
            await ada.unlink(one, other, "related")
        (closed,) = (await ada.list_links(one)).links
        assert closed.closed_at is not None
        assert (await ada.neighbors(one)).facts == ()
        assert (await ada.link(LinkIn(from_=one, to=other))).status == "created"
        assert len((await ada.list_links(one)).links) == 2

    async def test_types_of_the_service_are_its_own(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        for kind in ("supersedes", "promoted_from"):
            body = LinkIn(from_=one, to=other, type=kind)
            reported_detail = await refused(ada.link(body), CODE.INVALID_BODY)
            assert reported_detail == "the link's type is the service's own"
            await refused(ada.unlink(one, other, kind), CODE.INVALID_BODY)

    async def test_what_a_link_carries_is_bounded_and_masked(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        large = LinkIn(from_=one, to=other, data={"x": "y" * 9000})
        assert (
            await refused(ada.link(large), CODE.TOO_LARGE) == "data of a link may have 8192 bytes"
        )
        link_result = await ada.link(LinkIn(from_=one, to=other, data={"password": "hunter22"}))
        assert link_result.link is not None
        assert link_result.link.data == {"password": "[masked]"}

    async def test_key_with_another_link_is_409(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        first = await ada.link(LinkIn(from_=one, to=other), idempotency_key="k")
        result = await ada.link(LinkIn(from_=one, to=other), idempotency_key="k")
        assert first == result
        with pytest.raises(errors.Conflict):
            await ada.link(LinkIn(from_=other, to=one), idempotency_key="k")


class TestReading:
    async def test_links_with_an_invisible_end_are_left_out_uncounted(
        self, connect: Connect
    ) -> None:
        team = await told(connect("ada"), "of the team", TEAM)
        visible = await told(connect("ada"), "also of the team", TEAM)
        await connect("ada").link(LinkIn(from_=visible, to=team))
        for name in ("lead", "peer"):
            own_fact_id = await told(connect(name), f"of {name}")
            await connect(name).link(LinkIn(from_=own_fact_id, to=team))
        lead = await connect("lead").list_links(team, limit=2)
        assert len(lead.links) == 2
        assert lead.cursor is None
        near_neighborhood = await connect("lead").neighbors(team, limit=2)
        assert {neighbor.fact.scope for neighbor in near_neighborhood.facts} == {TEAM, LEAD}
        assert near_neighborhood.truncated is False
        assert len(near_neighborhood.links) == 2

    async def test_nothing_is_reached_through_what_is_invisible(self, connect: Connect) -> None:
        ada, operator = connect("ada"), connect("operator")
        start, end = await told(ada, "start", TEAM), await told(ada, "end", TEAM)
        between = await told(connect("peer"), "between")
        await operator.link(LinkIn(from_=start, to=between))
        await operator.link(LinkIn(from_=between, to=end))
        assert (await connect("lead").neighbors(start, depth=5)).facts == ()
        assert len((await ada.neighbors(start, depth=5)).facts) == 2
        assert PEER in {n.fact.scope for n in (await ada.neighbors(start, depth=5)).facts}

    async def test_pages_of_links_follow_their_cursor(self, connect: Connect) -> None:
        ada = connect("ada")
        hub = await told(ada, "hub", TEAM)
        for n in range(5):
            await ada.link(LinkIn(from_=hub, to=await told(ada, f"spoke {n}", TEAM)))
        observed: list[str] = []
        cursor = None
        while True:
            page = await ada.list_links(hub, cursor=cursor, limit=2)
            observed += [link.id for link in page.links]
            cursor = page.cursor
            if cursor is None:
                break
        assert observed == sorted(observed, reverse=True)
        assert len(observed) == 5

    async def test_neighbors_come_by_distance_and_within_the_depth(self, connect: Connect) -> None:
        ada = connect("ada")
        facts = await chain(ada, 5)
        near_neighbors = await ada.neighbors(facts[1], depth=2)
        results = [(fact.depth, fact.fact.id) for fact in near_neighbors.facts]
        assert results == [(1, facts[0]), (1, facts[2]), (2, facts[3])]
        assert [(link.from_, link.to) for link in near_neighbors.links] == list(
            itertools.pairwise(facts[:4])
        )

    async def test_neighbors_over_some_types_only(self, connect: Connect) -> None:
        ada = connect("ada")
        first, two, three = await chain(ada, 3)
        await ada.link(LinkIn(from_=first, to=three, type="depends_on"))
        neighbors = await ada.neighbors(first, types=["depends_on"])
        assert [item.fact.id for item in neighbors.facts] == [three]
        assert [link.type for link in neighbors.links] == ["depends_on"]
        links = await ada.list_links(first, types=["depends_on", "nothing"])
        assert [link.to for link in links.links] == [three]
        assert [item.fact.id for item in (await ada.neighbors(two)).facts] == [first, three]

    async def test_more_neighbors_than_asked_for_are_said(self, connect: Connect) -> None:
        ada = connect("ada")
        facts = await chain(ada, 4)
        near = await ada.neighbors(facts[0], depth=3, limit=2)
        assert [neighbour.fact.id for neighbour in near.facts] == facts[1:3]
        assert near.truncated

    async def test_circles_end_and_retracted_facts_are_not_walked_through(
        self, connect: Connect
    ) -> None:
        ada = connect("ada")
        one, two, three = await chain(ada, 3)
        await ada.link(LinkIn(from_=three, to=one))
        assert len((await ada.neighbors(one, depth=5)).facts) == 2
        await ada.unlink(three, one, "related")
        await ada.correct(two, CorrectIn(reason="wrong"))
        assert (await ada.neighbors(one, depth=5)).facts == ()

    async def test_depth_and_limit_are_bounded(self, http: httpx.AsyncClient) -> None:
        headers = {"Authorization": "Bearer ada"}
        for query in ("depth=6", "depth=0", "limit=501", "limit=0"):
            answer = await http.get(f"/v1/facts/x/neighbors?{query}", headers=headers)
            assert answer.status_code == 422, query
