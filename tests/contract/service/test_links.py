from __future__ import annotations

import itertools

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    AliasIn,
    CorrectIn,
    FactIn,
    FactUse,
    LinkIn,
    RecallIn,
    ScopeConfig,
    UsageIn,
)
from tests.builders_knowledge import LEAD, TEAM, run_in
from tests.contract.service.callers import PEER, Connect, refused

CODE = errors.Code


async def told(client: AsyncKnowledgeClient, content: str, scope: str | None = None) -> str:
    return (await client.remember(FactIn(content=content, scope=scope))).fact_id


async def chain(client: AsyncKnowledgeClient, length: int, scope: str = TEAM) -> list[str]:
    """Make facts linked one after the other."""
    facts = [await told(client, f"fact {n} of {scope}", scope) for n in range(length)]
    for one, next_ in itertools.pairwise(facts):
        await client.link(LinkIn(from_=one, to=next_))
    return facts


class TestLinking:
    async def test_link_is_read_from_both_ends(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        body = LinkIn(from_=one, to=other, type="mentions", weight=0.5, data={"line": 7})
        made = await ada.link(body)
        assert made.status == "created"
        assert made.link is not None
        assert (made.link.from_, made.link.to, made.link.type) == (one, other, "mentions")
        assert (made.link.weight, made.link.data, made.link.actor) == (0.5, {"line": 7}, "ada")
        for end in (one, other):
            assert (await ada.list_links(end)).links == (made.link,)

    async def test_same_link_again_is_the_first_one(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        first = await ada.link(LinkIn(from_=one, to=other))
        again = await ada.link(LinkIn(from_=one, to=other, weight=9))
        assert (again.status, again.link) == ("exists", first.link)
        back = await ada.link(LinkIn(from_=other, to=one))
        typed = await ada.link(LinkIn(from_=one, to=other, type="contains"))
        assert back.status == typed.status == "created"
        raw = {"from": one, "to": other, "type": "related"}
        answer = await http.post("/v1/links", json=raw, headers={"Authorization": "Bearer ada"})
        assert answer.status_code == 200

    async def test_link_of_a_fact_to_itself_is_ignored_and_said(self, connect: Connect) -> None:
        ada = connect("ada")
        one = await told(ada, "one", TEAM)
        answer = await ada.link(LinkIn(from_=one, to=one))
        assert (answer.status, answer.link) == ("ignored", None)
        assert answer.reason == f"fact {one} is not linked to itself"
        assert (await ada.list_links(one)).links == ()

    async def test_missing_and_invisible_ends_are_refused_alike_to_the_byte(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        own = await told(connect("lead"), "mine")
        hidden = await told(connect("stranger"), "secret")
        missing = "0" * 8 + hidden[8:]
        as_lead = {"Authorization": "Bearer lead"}
        for own_end, other_end in (("from", "to"), ("to", "from")):
            bodies = [
                {own_end: own, other_end: end, "type": "related"} for end in (hidden, missing)
            ]
            answers = [await http.post("/v1/links", json=b, headers=as_lead) for b in bodies]
            gone = [await http.delete("/v1/links", params=b, headers=as_lead) for b in bodies]
            for there, nowhere in (answers, gone):
                assert (there.status_code, nowhere.status_code) == (404, 404)
                assert there.content.replace(hidden.encode(), missing.encode()) == nowhere.content

    async def test_link_starts_where_its_maker_may_write(self, connect: Connect) -> None:
        team = await told(connect("ada"), "of the team", TEAM)
        lead = connect("lead")
        own = await told(lead, "mine")
        assert (await lead.link(LinkIn(from_=own, to=team))).status == "created"
        said = await refused(lead.link(LinkIn(from_=team, to=own)), CODE.FORBIDDEN)
        assert said == f"demo/lead-0 may read fact {team} but not link it to others"
        await refused(lead.unlink(team, own, "related"), CODE.FORBIDDEN)
        await connect("operator").put_scope(LEAD, ScopeConfig(read_only=True))
        await refused(lead.link(LinkIn(from_=own, to=team, type="x")), CODE.SCOPE_READ_ONLY)

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
            said = await refused(ada.link(body), CODE.INVALID_BODY)
            assert said == "the link's type is the service's own"
            await refused(ada.unlink(one, other, kind), CODE.INVALID_BODY)

    async def test_what_a_link_carries_is_bounded_and_masked(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        large = LinkIn(from_=one, to=other, data={"x": "y" * 9000})
        assert (
            await refused(ada.link(large), CODE.TOO_LARGE) == "data of a link may have 8192 bytes"
        )
        made = await ada.link(LinkIn(from_=one, to=other, data={"password": "hunter22"}))
        assert made.link is not None
        assert made.link.data == {"password": "[masked]"}

    async def test_key_with_another_link_is_409(self, connect: Connect) -> None:
        ada = connect("ada")
        one, other = await told(ada, "one", TEAM), await told(ada, "other", TEAM)
        first = await ada.link(LinkIn(from_=one, to=other), idempotency_key="k")
        again = await ada.link(LinkIn(from_=one, to=other), idempotency_key="k")
        assert first == again
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
            own = await told(connect(name), f"of {name}")
            await connect(name).link(LinkIn(from_=own, to=team))
        lead = await connect("lead").list_links(team, limit=2)
        assert len(lead.links) == 2
        assert lead.cursor is None
        near = await connect("lead").neighbors(team, limit=2)
        assert {each.fact.scope for each in near.facts} == {TEAM, LEAD}
        assert near.truncated is False
        assert len(near.links) == 2

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
        seen: list[str] = []
        cursor = None
        while True:
            page = await ada.list_links(hub, cursor=cursor, limit=2)
            seen += [link.id for link in page.links]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == sorted(seen, reverse=True)
        assert len(seen) == 5

    async def test_neighbors_come_by_distance_and_within_the_depth(self, connect: Connect) -> None:
        ada = connect("ada")
        facts = await chain(ada, 5)
        near = await ada.neighbors(facts[1], depth=2)
        found = [(each.depth, each.fact.id) for each in near.facts]
        assert found == [(1, facts[0]), (1, facts[2]), (2, facts[3])]
        assert [(link.from_, link.to) for link in near.links] == list(itertools.pairwise(facts[:4]))

    async def test_neighbors_over_some_types_only(self, connect: Connect) -> None:
        ada = connect("ada")
        one, two, three = await chain(ada, 3)
        await ada.link(LinkIn(from_=one, to=three, type="depends_on"))
        near = await ada.neighbors(one, types=["depends_on"])
        assert [each.fact.id for each in near.facts] == [three]
        assert [link.type for link in near.links] == ["depends_on"]
        links = await ada.list_links(one, types=["depends_on", "nothing"])
        assert [link.to for link in links.links] == [three]
        assert [each.fact.id for each in (await ada.neighbors(two)).facts] == [one, three]

    async def test_more_neighbors_than_asked_for_are_said(self, connect: Connect) -> None:
        ada = connect("ada")
        facts = await chain(ada, 4)
        near = await ada.neighbors(facts[0], depth=3, limit=2)
        assert [each.fact.id for each in near.facts] == facts[1:3]
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


class TestNames:
    async def test_alias_is_taken_wherever_an_id_is(self, connect: Connect) -> None:
        ada = connect("ada")
        value, reference = "CI/CD: ~all~", "alias:entity:CI~1CD: ~0all~0"
        names = (AliasIn(namespace="entity", value=value),)
        told_ = await ada.remember(FactIn(content="builds", scope=TEAM, aliases=names))
        assert [(a.namespace, a.value) for a in told_.aliases] == [("entity", value)]
        assert (await ada.get_fact(reference)).id == told_.fact_id
        other = await told(ada, "other", TEAM)
        made = await ada.link(LinkIn(from_=reference, to=other))
        assert made.link is not None
        assert made.link.from_ == told_.fact_id
        assert (await ada.list_links(reference)).links == (made.link,)
        assert [n.fact.id for n in (await ada.neighbors(reference)).facts] == [other]
        assert (await ada.why(reference)).aliases == told_.aliases
        assert (await ada.impact(reference)).fact == told_.fact_id
        uses = UsageIn(uses=(FactUse(fact=reference, kind="consulted"),))
        assert (await ada.count_usage(uses)).counted == 1
        seen = await ada.remember(FactIn(content="seen", scope=TEAM, about=reference))
        assert (await ada.get_fact(seen.fact_id)).about == told_.fact_id
        assert (await ada.correct(reference, CorrectIn(reason="old"))).fact_id == told_.fact_id

    async def test_name_goes_on_to_the_successor(self, connect: Connect) -> None:
        ada = connect("ada")
        names = (AliasIn(namespace="file", value="global:pitfall:001"),)
        await ada.remember(FactIn(content="Java 21", scope=TEAM, aliases=names))
        reference = "alias:file:global:pitfall:001"
        done = await ada.correct(reference, CorrectIn(reason="old", replacement="Java 25"))
        assert (await ada.get_fact(reference)).id == done.replacement_id

    async def test_name_of_another_fact_is_refused(self, connect: Connect) -> None:
        ada = connect("ada")
        names = (AliasIn(namespace="entity", value="x"),)
        first = await ada.remember(FactIn(content="a", scope=TEAM, aliases=names))
        again = await ada.remember(FactIn(content="a", scope=TEAM, aliases=names))
        assert (again.status, again.aliases) == ("confirmed", first.aliases)
        body = FactIn(content="b", scope=TEAM, aliases=names)
        said = await refused(ada.remember(body), CODE.CONFLICT)
        assert said == f"alias:entity:x is a name of fact {first.fact_id}; take another"
        assert all(fact.content != "b" for fact in (await ada.list_facts()).facts)

    async def test_nearest_scope_decides_which_fact_a_name_means(self, connect: Connect) -> None:
        names = (AliasIn(namespace="entity", value="x"),)
        own = await connect("lead").remember(FactIn(content="mine", aliases=names))
        team = await connect("ada").remember(FactIn(content="ours", scope=TEAM, aliases=names))
        assert (await connect("lead").get_fact("alias:entity:x")).id == own.fact_id
        assert (await connect("peer").get_fact("alias:entity:x")).id == team.fact_id
        said = await refused(connect("ada").get_fact("alias:entity:x"), CODE.CONFLICT)
        assert said == (
            f"alias:entity:x is the name of a fact in each of {TEAM}, {LEAD};"
            " give the id of the one you mean"
        )

    async def test_invisible_missing_and_malformed_names_are_the_same_404(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        names = (AliasIn(namespace="entity", value="x"),)
        await connect("stranger").remember(FactIn(content="secret", aliases=names))
        answers = set()
        for reference in ("alias:entity:x", "alias:entity:y", "alias:Entity", "alias:"):
            headers = {"Authorization": "Bearer lead"}
            answer = await http.get(f"/v1/facts/{reference}", headers=headers)
            assert answer.status_code == 404
            answers.add(answer.text.replace(reference, "it"))
        assert len(answers) == 1

    async def test_numbers_are_taken_in_order_and_never_again(self, connect: Connect) -> None:
        ada = connect("ada")
        names = (AliasIn(namespace="ko", prefix="KO-shop-", digits=3),)
        values = []
        for n in range(3):
            fact = FactIn(content=f"lesson {n}", scope=TEAM, aliases=names)
            done = await ada.remember(fact)
            values += [alias.value for alias in done.aliases]
            again = await ada.remember(fact)
            assert again.aliases == done.aliases, "a confirmed fact keeps its number"
        assert values == ["KO-shop-001", "KO-shop-002", "KO-shop-003"]
        await ada.correct("alias:ko:KO-shop-003", CorrectIn(reason="wrong"))
        fourth = await ada.remember(FactIn(content="lesson 4", scope=TEAM, aliases=names))
        assert fourth.aliases[0].value == "KO-shop-004"
        elsewhere = await connect("lead").remember(FactIn(content="own", aliases=names))
        assert elsewhere.aliases[0].value == "KO-shop-001"

    async def test_number_given_by_hand_is_passed_over(self, connect: Connect) -> None:
        ada = connect("ada")
        by_hand = (AliasIn(namespace="ko", value="KO-1"),)
        await ada.remember(FactIn(content="a", scope=TEAM, aliases=by_hand))
        numbered = (AliasIn(namespace="ko", prefix="KO-"),)
        done = await ada.remember(FactIn(content="b", scope=TEAM, aliases=numbered))
        assert done.aliases[0].value == "KO-2"

    async def test_refused_write_takes_no_number(self, connect: Connect) -> None:
        ada = connect("ada")
        numbered = AliasIn(namespace="ko", prefix="KO-")
        taken = AliasIn(namespace="entity", value="x")
        await ada.remember(FactIn(content="a", scope=TEAM, aliases=(taken,)))
        body = FactIn(content="b", scope=TEAM, aliases=(numbered, taken))
        await refused(ada.remember(body), CODE.CONFLICT)
        done = await ada.remember(FactIn(content="c", scope=TEAM, aliases=(numbered,)))
        assert done.aliases[0].value == "KO-1"

    async def test_alias_has_one_of_value_and_prefix(self, http: httpx.AsyncClient) -> None:
        for alias in ({"namespace": "ko"}, {"namespace": "ko", "value": "a", "prefix": "b"}):
            body = {"content": "x", "aliases": [alias]}
            headers = {"Authorization": "Bearer lead"}
            answer = await http.post("/v1/facts", json=body, headers=headers)
            assert answer.status_code == 422
            assert "an alias has one of value and prefix" in answer.text


class TestProvenance:
    async def test_why_tells_source_run_receipts_chain_and_corrections(
        self, connect: Connect
    ) -> None:
        operator, ada, lead = connect("operator"), connect("ada"), connect("lead")
        await operator.put_run("r", run_in(mission="m-1"))
        served = await told(ada, "volumes need a class", TEAM)
        recalled = await lead.recall(RecallIn(query="volumes", run="r"))
        learnt = await lead.remember(FactIn(content="the class is fast", run="r"))
        await lead.link(LinkIn(from_=learnt.fact_id, to=served, type="derived_from"))
        why = await lead.why(learnt.fact_id)
        assert why.fact.source.actor == "demo/lead-0"
        assert why.run is not None
        assert why.run.run_id == "r"
        assert [receipt.id for receipt in why.receipts] == [recalled.receipt]
        assert [(link.type, link.to) for link in why.derivation] == [("derived_from", served)]
        assert [fact.id for fact in why.origins] == [served]
        done = await lead.correct(learnt.fact_id, CorrectIn(reason="measured", replacement="slow"))
        (correction,) = (await lead.why(learnt.fact_id)).corrections
        assert (correction.lifecycle, correction.reason) == ("superseded", "measured")
        assert correction.replaced_by == (done.replacement_id,)
        assert done.replacement_id is not None
        chain_ = (await lead.why(done.replacement_id)).derivation
        assert [link.type for link in chain_] == ["supersedes", "derived_from"]

    async def test_impact_lists_recalls_runs_derived_facts_and_uses(self, connect: Connect) -> None:
        operator, ada, lead = connect("operator"), connect("ada"), connect("lead")
        await operator.put_run("r", run_in())
        fact = await told(ada, "volumes need a class", TEAM)
        plain = await lead.recall(RecallIn(query="volumes"), idempotency_key="plain")
        bound = await lead.recall(RecallIn(query="volumes", run="r"))
        derived = await told(lead, "classes are made by people")
        await lead.link(LinkIn(from_=derived, to=fact, type="derived_from"))
        await lead.count_usage(UsageIn(uses=(FactUse(fact=fact, kind="applied", count=3),)))
        await operator.put_run("r", run_in(outcome="Succeeded"))
        impact = await ada.impact(fact)
        assert {each.receipt for each in impact.recalls} == {plain.receipt, bound.receipt}
        assert {each.principal for each in impact.recalls} == {"demo/lead-0"}
        assert impact.runs == ("r",)
        assert impact.derived == (derived,)
        counts = {kind: use.count for kind, use in impact.usage.items()}
        assert counts == {"recalled": 1, "injected": 1, "applied": 3, "succeeded": 1}
        assert (await ada.impact(fact, limit=1)).truncated

    async def test_what_others_did_is_left_out_of_why_and_impact(self, connect: Connect) -> None:
        ada, peer, lead = connect("ada"), connect("peer"), connect("lead")
        fact = await told(ada, "volumes need a class", TEAM)
        before = await lead.impact(fact)
        await peer.recall(RecallIn(query="volumes"), idempotency_key="k")
        derived = await told(peer, "from it")
        await peer.link(LinkIn(from_=derived, to=fact, type="derived_from"))
        await peer.count_usage(UsageIn(uses=(FactUse(fact=fact, kind="prevented"),)))
        assert await lead.impact(fact) == before
        assert before.usage == {}
        assert (await peer.impact(fact)).usage["prevented"].count == 1
        assert len((await ada.impact(fact)).recalls) == 1
        hidden = await told(peer, "a secret reason")
        await connect("operator").link(LinkIn(from_=fact, to=hidden, type="derived_from"))
        assert (await lead.why(fact)).derivation == ()
        assert len((await ada.why(fact)).origins) == 1

    async def test_why_and_impact_of_what_is_invisible_are_the_404_of_what_is_missing(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        hidden = await told(connect("stranger"), "secret")
        missing = "0" * 8 + hidden[8:]
        for view in ("why", "impact", "links", "neighbors"):
            answers = [
                await http.get(f"/v1/facts/{each}/{view}", headers={"Authorization": "Bearer lead"})
                for each in (hidden, missing)
            ]
            assert [each.status_code for each in answers] == [404, 404]
            assert answers[0].text.replace(hidden, missing) == answers[1].text


class TestUsage:
    async def test_agent_says_what_it_did_and_not_how_runs_ended(self, connect: Connect) -> None:
        fact = await told(connect("ada"), "x", TEAM)
        lead = connect("lead")
        for kind in ("consulted", "applied", "prevented"):
            uses = UsageIn(uses=(FactUse(fact=fact, kind=kind),))
            assert (await lead.count_usage(uses)).counted == 1
        for kind in ("recalled", "injected", "succeeded", "failed"):
            uses = UsageIn(uses=(FactUse(fact=fact, kind=kind),))
            said = await refused(lead.count_usage(uses), CODE.FORBIDDEN)
            assert said.startswith(f"demo/lead-0 is an agent; '{kind}' is counted by recalls")
            assert (await connect("ada").count_usage(uses)).counted == 1

    async def test_all_are_counted_or_none_and_a_repeat_counts_once(self, connect: Connect) -> None:
        fact = await told(connect("ada"), "x", TEAM)
        hidden = await told(connect("stranger"), "y")
        lead = connect("lead")
        both = UsageIn(
            uses=(FactUse(fact=fact, kind="applied"), FactUse(fact=hidden, kind="applied"))
        )
        await refused(lead.count_usage(both), CODE.NOT_FOUND)
        assert (await lead.impact(fact)).usage == {}
        own = UsageIn(uses=(FactUse(fact=fact, kind="applied"),))
        for _ in range(2):
            await lead.count_usage(own, idempotency_key="k")
        assert (await lead.impact(fact)).usage["applied"].count == 1
