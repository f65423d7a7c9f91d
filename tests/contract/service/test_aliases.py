"""Names that facts have besides their ids: aliases and numbers of a sequence."""

from __future__ import annotations

import httpx

from knowledge_client import errors
from knowledge_client.models import (
    AliasIn,
    CorrectIn,
    FactIn,
    FactUse,
    LinkIn,
    ReasonIn,
    UsageIn,
)
from tests.contract.service.callers import Connect, refused, told
from tests.knowledge_builders import LEAD, TEAM

CODE = errors.ErrorCode


class TestNames:
    async def test_alias_is_taken_wherever_an_id_is(self, connect: Connect) -> None:
        ada = connect("ada")
        value, reference = "CI/CD: ~all~", "alias:entity:CI~1CD: ~0all~0"
        names = (AliasIn(namespace="entity", value=value),)
        remembered = await ada.remember(FactIn(content="builds", scope=TEAM, aliases=names))
        assert [(a.namespace, a.value) for a in remembered.aliases] == [("entity", value)]
        assert (await ada.get_fact(reference)).id == remembered.fact_id
        other_fact_id = await told(ada, "other", TEAM)
        link_result = await ada.link(LinkIn(from_=reference, to=other_fact_id))
        assert link_result.link is not None
        assert link_result.link.from_ == remembered.fact_id
        assert (await ada.list_links(reference)).links == (link_result.link,)
        assert [n.fact.id for n in (await ada.neighbors(reference)).facts] == [other_fact_id]
        assert (await ada.why(reference)).aliases == remembered.aliases
        assert (await ada.impact(reference)).fact == remembered.fact_id
        uses = UsageIn(uses=(FactUse(fact=reference, kind="consulted"),))
        assert (await ada.count_usage(uses)).counted == 1
        observed_remembered = await ada.remember(
            FactIn(content="seen", scope=TEAM, about=reference)
        )
        assert (await ada.get_fact(observed_remembered.fact_id)).about == remembered.fact_id
        assert (await ada.correct(reference, CorrectIn(reason="old"))).fact_id == remembered.fact_id

    async def test_name_goes_on_to_the_successor(self, connect: Connect) -> None:
        ada = connect("ada")
        names = (AliasIn(namespace="file", value="global:pitfall:001"),)
        await ada.remember(FactIn(content="Java 21", scope=TEAM, aliases=names))
        reference = "alias:file:global:pitfall:001"
        correction = await ada.correct(reference, CorrectIn(reason="old", replacement="Java 25"))
        assert (await ada.get_fact(reference)).id == correction.replacement_id

    async def test_name_of_another_fact_is_refused(self, connect: Connect) -> None:
        ada = connect("ada")
        names = (AliasIn(namespace="entity", value="x"),)
        first = await ada.remember(FactIn(content="a", scope=TEAM, aliases=names))
        result = await ada.remember(FactIn(content="a", scope=TEAM, aliases=names))
        assert (result.status, result.aliases) == ("confirmed", first.aliases)
        body = FactIn(content="b", scope=TEAM, aliases=names)
        detail = await refused(ada.remember(body), CODE.CONFLICT)
        assert detail == f"alias:entity:x is a name of fact {first.fact_id}; take another"
        assert all(fact.content != "b" for fact in (await ada.list_facts()).facts)

    async def test_name_of_a_retracted_fact_is_free(self, connect: Connect) -> None:
        ada = connect("ada")
        names = (AliasIn(namespace="entity", value="x"),)
        old = (await ada.remember(FactIn(content="a", scope=TEAM, aliases=names))).fact_id
        await ada.retract(old, ReasonIn(reason="gone"))
        # The history of the name stays readable until another fact takes it.
        assert (await ada.get_fact("alias:entity:x")).lifecycle == "retracted"
        renewed = FactIn(content="a", scope=TEAM, aliases=names, force=True)
        new = (await ada.remember(renewed)).fact_id
        assert new != old
        assert (await ada.get_fact("alias:entity:x")).id == new
        assert (await ada.why(old)).aliases == ()
        third = FactIn(content="c", scope=TEAM, aliases=names)
        refusal = await refused(ada.remember(third), CODE.CONFLICT)
        assert refusal == f"alias:entity:x is a name of fact {new}; take another"

    async def test_nearest_scope_decides_which_fact_a_name_means(self, connect: Connect) -> None:
        names = (AliasIn(namespace="file", value="x"),)
        own_result = await connect("lead").remember(FactIn(content="mine", aliases=names))
        team = await connect("ada").remember(FactIn(content="ours", scope=TEAM, aliases=names))
        assert (await connect("lead").get_fact("alias:file:x")).id == own_result.fact_id
        assert (await connect("peer").get_fact("alias:file:x")).id == team.fact_id
        reported_detail = await refused(connect("ada").get_fact("alias:file:x"), CODE.CONFLICT)
        assert reported_detail == (
            f"alias:file:x is the name of a fact in each of {TEAM}, {LEAD};"
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
        names = (AliasIn(namespace="file", prefix="KO-shop-", digits=3),)
        values = []
        for n in range(3):
            fact = FactIn(content=f"lesson {n}", scope=TEAM, aliases=names)
            completed_remembered = await ada.remember(fact)
            values += [alias.value for alias in completed_remembered.aliases]
            repeated = await ada.remember(fact)
            assert repeated.aliases == completed_remembered.aliases, (
                "a confirmed fact keeps its number"
            )
        assert values == ["KO-shop-001", "KO-shop-002", "KO-shop-003"]
        await ada.correct("alias:file:KO-shop-003", CorrectIn(reason="wrong"))
        fourth = await ada.remember(FactIn(content="lesson 4", scope=TEAM, aliases=names))
        assert fourth.aliases[0].value == "KO-shop-004"
        elsewhere = await connect("lead").remember(FactIn(content="own", aliases=names))
        assert elsewhere.aliases[0].value == "KO-shop-001"

    async def test_number_given_by_hand_is_passed_over(self, connect: Connect) -> None:
        ada = connect("ada")
        by_hand = (AliasIn(namespace="ko", value="KO-1"),)
        await ada.remember(FactIn(content="a", scope=TEAM, aliases=by_hand))
        numbered = (AliasIn(namespace="ko", prefix="KO-"),)
        result = await ada.remember(FactIn(content="b", scope=TEAM, aliases=numbered))
        assert result.aliases[0].value == "KO-2"

    async def test_refused_write_takes_no_number(self, connect: Connect) -> None:
        ada = connect("ada")
        numbered = AliasIn(namespace="ko", prefix="KO-")
        alias = AliasIn(namespace="entity", value="x")
        await ada.remember(FactIn(content="a", scope=TEAM, aliases=(alias,)))
        body = FactIn(content="b", scope=TEAM, aliases=(numbered, alias))
        await refused(ada.remember(body), CODE.CONFLICT)
        numbered_fact = await ada.remember(FactIn(content="c", scope=TEAM, aliases=(numbered,)))
        assert numbered_fact.aliases[0].value == "KO-1"

    async def test_alias_has_one_of_value_and_prefix(self, http: httpx.AsyncClient) -> None:
        for alias in ({"namespace": "ko"}, {"namespace": "ko", "value": "a", "prefix": "b"}):
            body = {"content": "x", "aliases": [alias]}
            headers = {"Authorization": "Bearer lead"}
            answer = await http.post("/v1/facts", json=body, headers=headers)
            assert answer.status_code == 422
            assert "an alias has one of value and prefix" in answer.text
