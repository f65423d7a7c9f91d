"""Why a fact was recalled, and why it was not."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client.models import AliasIn, FactExplanation, FactIn, RecallIn
from tests.contract.service.callers import Connect
from tests.knowledge_builders import OTHER, TEAM, run_in


async def test_recall_says_what_became_of_facts_that_are_asked_about(connect: Connect) -> None:
    ada = connect("ada")
    near = await ada.remember(FactIn(content="the gate is painted", scope=TEAM))
    long = await ada.remember(FactIn(content="a gate " + "of iron " * 40, scope=TEAM))
    other = await ada.remember(FactIn(content="it rains", scope=TEAM))
    hidden = await connect("operator").remember(FactIn(content="a gate is open", scope=OTHER))
    asked = (near.fact_id, long.fact_id, other.fact_id, hidden.fact_id, "no-such-fact")
    question = RecallIn(query="who painted the gate", max_tokens=50, why_not=asked)
    answer = await connect("lead").recall(question)
    assert [(each.fact, each.stage) for each in answer.why_not] == [
        (near.fact_id, "returned"),
        (long.fact_id, "budget"),
        (other.fact_id, "no-match"),
        (hidden.fact_id, "invisible"),
        ("no-such-fact", "invisible"),
    ]
    words = [each.why for each in answer.why_not]
    assert words[0] == "it is at position 1"
    assert words[1] == "it does not fit into 50 tokens"
    assert words[2] == "it shares no word with the question"
    assert words[3] == words[4] == "it does not exist, or is in no searched scope"


async def test_words_of_the_question_are_weighed_when_asked_for(connect: Connect) -> None:
    await connect("ada").remember(FactIn(content="the gate is painted", scope=TEAM))
    lead = connect("lead")
    plain = await lead.recall(RecallIn(query="painted gate"))
    told = await lead.recall(RecallIn(query="painted gate", explain=True))
    assert not [name for name in plain.facts[0].parts if name.startswith("=")]
    words = {name: v for name, v in told.facts[0].parts.items() if name.startswith("=")}
    assert set(words) == {"=paint", "=gate"}
    assert sum(words.values()) == pytest.approx(told.facts[0].parts["bm25"], abs=1e-5)


async def test_receipt_tells_later_why_a_fact_was_not_recalled(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    ada, lead = connect("ada"), connect("lead")
    await connect("operator").put_run("r", run_in())
    near = await ada.remember(FactIn(content="the gate is painted", scope=TEAM))
    other = await ada.remember(FactIn(content="it rains", scope=TEAM))
    answer = await lead.recall(RecallIn(query="who painted the gate", run="r", limit=1))
    headers = {"Authorization": "Bearer lead"}
    for fact, stage in ((near.fact_id, "returned"), (other.fact_id, "no-match")):
        path = f"/v1/receipts/{answer.receipt}:explain"
        got = await http.get(path, params={"fact": fact}, headers=headers)
        assert got.status_code == 200, got.text
        assert FactExplanation.model_validate(got.json()).stage == stage
    headers = {"Authorization": "Bearer stranger"}
    got = await http.get(path, params={"fact": near.fact_id}, headers=headers)
    assert got.status_code in (401, 403, 404)


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
    assert [(each.fact, each.stage) for each in answer.why_not] == [
        (painted.fact_id, "returned"),
        (rain.fact_id, "no-match"),
        ("alias:ko:KO-3", "invisible"),
    ]
    path = f"/v1/receipts/{answer.receipt}:explain"
    for name, stage in zip(names, ("returned", "no-match", "invisible"), strict=True):
        headers = {"Authorization": "Bearer lead"}
        got = await http.get(path, params={"fact": name}, headers=headers)
        assert FactExplanation.model_validate(got.json()).stage == stage


async def test_name_of_a_fact_out_of_sight_names_nothing(connect: Connect) -> None:
    named = (AliasIn(namespace="ko", value="KO-1"),)
    hidden = FactIn(content="a gate is open", scope=OTHER, aliases=named)
    await connect("operator").remember(hidden)
    question = RecallIn(query="gate", why_not=("alias:ko:KO-1",))
    (told,) = (await connect("lead").recall(question)).why_not
    assert (told.fact, told.stage) == ("alias:ko:KO-1", "invisible")
