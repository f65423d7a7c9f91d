"""Why a fact was recalled, and why it was not."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client.models import AliasIn, FactExplanation, FactIn, RecallIn
from tests.contract.service.callers import Connect
from tests.knowledge_builders import OTHER, TEAM, run_in


async def test_recall_says_what_became_of_facts_that_are_asked_about(connect: Connect) -> None:
    ada = connect("ada")
    near_result = await ada.remember(FactIn(content="the gate is painted", scope=TEAM))
    long = await ada.remember(FactIn(content="a gate " + "of iron " * 40, scope=TEAM))
    other_result = await ada.remember(FactIn(content="it rains", scope=TEAM))
    hidden = await connect("operator").remember(FactIn(content="a gate is open", scope=OTHER))
    requests = (
        near_result.fact_id,
        long.fact_id,
        other_result.fact_id,
        hidden.fact_id,
        "no-such-fact",
    )
    question = RecallIn(query="who painted the gate", max_tokens=50, why_not=requests)
    answer = await connect("lead").recall(question)
    assert [
        (fact_explanation.fact, fact_explanation.stage) for fact_explanation in answer.why_not
    ] == [
        (near_result.fact_id, "returned"),
        (long.fact_id, "budget"),
        (other_result.fact_id, "no-match"),
        (hidden.fact_id, "invisible"),
        ("no-such-fact", "invisible"),
    ]
    texts = [fact_explanation.why for fact_explanation in answer.why_not]
    assert texts[0] == "it is at position 1"
    assert texts[1] == "it does not fit into 50 tokens"
    assert texts[2] == "it shares no word with the question"
    assert texts[3] == texts[4] == "it does not exist, or is in no searched scope"


async def test_words_of_the_question_are_weighed_when_asked_for(connect: Connect) -> None:
    await connect("ada").remember(FactIn(content="the gate is painted", scope=TEAM))
    lead = connect("lead")
    plain = await lead.recall(RecallIn(query="painted gate"))
    recalled = await lead.recall(RecallIn(query="painted gate", explain=True))
    assert not [name for name in plain.facts[0].parts if name.startswith("=")]
    texts = {name: v for name, v in recalled.facts[0].parts.items() if name.startswith("=")}
    assert set(texts) == {"=paint", "=gate"}
    assert sum(texts.values()) == pytest.approx(recalled.facts[0].parts["bm25"], abs=1e-5)


async def test_receipt_tells_later_why_a_fact_was_not_recalled(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    ada, lead = connect("ada"), connect("lead")
    await connect("operator").put_run("r", run_in())
    near_result = await ada.remember(FactIn(content="the gate is painted", scope=TEAM))
    other_result = await ada.remember(FactIn(content="it rains", scope=TEAM))
    answer = await lead.recall(RecallIn(query="who painted the gate", run="r", limit=1))
    headers = {"Authorization": "Bearer lead"}
    for fact, stage in ((near_result.fact_id, "returned"), (other_result.fact_id, "no-match")):
        path = f"/v1/receipts/{answer.receipt}:explain"
        response = await http.get(path, params={"fact": fact}, headers=headers)
        assert response.status_code == 200, response.text
        assert FactExplanation.model_validate(response.json()).stage == stage
    headers = {"Authorization": "Bearer stranger"}
    response = await http.get(path, params={"fact": near_result.fact_id}, headers=headers)
    assert response.status_code in (401, 403, 404)


async def test_names_are_taken_where_ids_are(connect: Connect, http: httpx.AsyncClient) -> None:
    ada = connect("ada")
    await connect("operator").put_run("r", run_in())
    painted, rain = [
        await ada.remember(
            FactIn(content=content, scope=TEAM, aliases=(AliasIn(namespace="ko", value=value),))
        )
        for content, value in (("the gate is painted", "KO-1"), ("it rains", "KO-2"))
    ]
    names = ("alias:ko:KO-1", "alias:ko:KO-2", "alias:ko:KO-3")
    answer = await connect("lead").recall(
        RecallIn(query="who painted the gate", run="r", limit=1, why_not=names)
    )
    assert [
        (fact_explanation.fact, fact_explanation.stage) for fact_explanation in answer.why_not
    ] == [
        (painted.fact_id, "returned"),
        (rain.fact_id, "no-match"),
        ("alias:ko:KO-3", "invisible"),
    ]
    path = f"/v1/receipts/{answer.receipt}:explain"
    for name, stage in zip(names, ("returned", "no-match", "invisible"), strict=True):
        headers = {"Authorization": "Bearer lead"}
        response = await http.get(path, params={"fact": name}, headers=headers)
        assert FactExplanation.model_validate(response.json()).stage == stage


async def test_name_of_a_fact_out_of_sight_names_nothing(connect: Connect) -> None:
    alias = (AliasIn(namespace="ko", value="KO-1"),)
    hidden = FactIn(content="a gate is open", scope=OTHER, aliases=alias)
    await connect("operator").remember(hidden)
    question = RecallIn(query="gate", why_not=("alias:ko:KO-1",))
    (fact_explanation,) = (await connect("lead").recall(question)).why_not
    assert (fact_explanation.fact, fact_explanation.stage) == ("alias:ko:KO-1", "invisible")
