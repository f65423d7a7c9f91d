"""One test for each channel through which a tenant could learn of what it may not see.

Each looks through a channel, lets others do everything that they can do out of sight, looks again,
and compares the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.contract.service.callers import PEER
from tests.contract.service.invisible_data import WORD, Look, World, get
from tests.knowledge_builders import LEAD, TEAM

CHANNELS: dict[str, list[Look]] = {
    "counts of scopes": [
        *get("/v1/scopes", "/v1/scopes?limit=2", f"/v1/scopes/{TEAM}", f"/v1/scopes/{PEER}"),
        ("POST", "/v1/stats:batch", {"scopes": [TEAM, PEER, "realm:demo", "platform"]}),
    ],
    "counts of runs": [
        *get("/v1/stats/blueprints/demo/review", "/v1/runs", "/v1/runs?limit=1"),
        *get("/v1/runs?namespace=demo&blueprint=review", "/v1/runs/run/episodes"),
        ("POST", "/v1/stats:batch", {"blueprints": [{"namespace": "demo", "name": "review"}]}),
    ],
    "pages and totals of facts": [
        *get("/v1/facts", "/v1/facts?limit=2", "/v1/facts?limit=4", "/v1/facts?tag=rain"),
        *get(f"/v1/facts?tag={WORD}", "/v1/facts?lifecycle=retracted", "/v1/reviews"),
        *get("/v1/facts?source=explicit_remember&limit=1"),
    ],
    "lists by text, entity and links": [
        *get(f"/v1/facts?contains={WORD}", "/v1/facts?contains=shared&limit=2"),
        *get("/v1/facts?unlinked=true", "/v1/facts?about={one}", "/v1/facts?alias_namespace=x"),
        *get("/v1/aliases?namespace=entity", "/v1/aliases?namespace=entity&limit=1"),
    ],
    "the graph": [
        *get("/v1/graph", "/v1/graph?limit=1", "/v1/graph?contains=watched"),
        *get(f"/v1/graph?contains={WORD}"),
        ("POST", "/v1/graph:open", {"names": ["entity one", f"entity {WORD}"]}),
        ("POST", "/v1/graph/relations:delete", {"relations": [
            {"from": "entity one", "relation_type": "supports", "to": f"entity {WORD}"},
        ]}),
    ],
    "charts": [
        *get("/v1/charts", "/v1/charts?limit=1", "/v1/charts?completed=true&limit=1"),
        *get("/v1/charts?due_before=2030-06-01T00:00:00Z", "/v1/charts/{chart}"),
        ("POST", "/v1/graph:open", {"names": ["{step}", "{chart}_chart"]}),
        *get("/v1/graph?contains=outcome", "/v1/facts?alias_namespace=entity&limit=3"),
    ],
    "links": get(
        "/v1/facts/{one}/links", "/v1/facts/{one}/links?limit=1", "/v1/facts/{two}/links",
        f"/v1/facts/{{one}}/links?type={WORD}",
    ),
    "neighbours": get(
        "/v1/facts/{one}/neighbors?depth=5", "/v1/facts/{own}/neighbors?depth=3&limit=1",
        "/v1/facts/{two}/neighbors",
    ),
    "history": get("/v1/facts/{one}/history", "/v1/facts/{two}/history"),
    "provenance": get("/v1/facts/{one}/why", "/v1/facts/{two}/why", "/v1/facts/{own}/why"),
    "what a fact touched": get(
        "/v1/facts/{one}/impact", "/v1/facts/{one}/impact?limit=1", "/v1/facts/{two}/impact"
    ),
    "receipts": get("/v1/receipts/{receipt}"),
    "replay": get("/v1/receipts/{receipt}:replay"),
    "diff": get("/v1/receipts/{receipt}:diff"),
    "why a fact was not recalled": get(
        "/v1/receipts/{receipt}:explain?fact={one}", f"/v1/receipts/{{receipt}}:explain?fact={WORD}"
    ),
    "callers": get("/v1/principals", "/v1/whoami"),
}  # fmt: skip


@pytest.mark.parametrize("channel", CHANNELS)
async def test_channel_says_the_same_whatever_others_did(world: World, channel: str) -> None:
    requests = CHANNELS[channel]
    answers_before = await world.look(requests)
    assert {status for status, _ in answers_before} == {200}
    await world.hide()
    answers_after = await world.look(requests)
    assert answers_after == answers_before
    assert all(world.says_nothing(text) for _, text in answers_after) or WORD in str(requests)


async def test_recall_gives_the_same_facts_scores_and_reasons(world: World) -> None:
    question = {"query": "shared rain", "explain": True, "whyNot": [world.names["three"]]}
    # Ages count from a moment that stands still.
    question["known_at"] = (await world.ask("POST", "/v1/recall", question)).json()["known_at"]
    answers_before = (await world.ask("POST", "/v1/recall", question)).json()
    await world.hide()
    answers_after = (await world.ask("POST", "/v1/recall", question)).json()
    assert answers_before["facts"]
    for part in ("facts", "scopes", "why_not"):
        assert answers_after[part] == answers_before[part]


async def test_erasure_tells_of_what_hangs_on_the_fact_only_what_the_caller_sees(
    world: World,
) -> None:
    await world.hide()
    two = world.names["two"]
    response = await world.ask("POST", f"/v1/facts/{two}:erase", {"reason": "x"}, caller="eraser")
    assert world.says_nothing(response.text)
    assert response.json()["facts"] == [two]
    assert (response.json()["derived"], response.json()["links"], response.json()["events"]) == (
        [],
        None,
        None,
    )


async def test_erasure_by_who_sees_everything_counts_and_names_it_all(world: World) -> None:
    await world.hide()
    two = world.names["two"]
    response = await world.ask("POST", f"/v1/facts/{two}:erase", {"reason": "x"}, caller="keeper")
    assert response.json()["derived"] == [world.hidden[0]]
    assert response.json()["links"] == 1
    assert response.json()["events"] >= 2


@pytest.mark.parametrize(("promoted", "counted"), [(False, True), (True, False)])
async def test_erasure_with_a_copy_above_counts_for_who_sees_all_around_that_one(
    world: World, promoted: bool, counted: bool
) -> None:
    path = f"/v1/facts/{world.names['three']}"
    if promoted:
        response = await world.ask("POST", f"{path}:promote", {"reason": "x"}, caller="keeper")
        assert response.json()["scope"] == "realm:demo"
    response = await world.ask("POST", f"{path}:erase", {"reason": "x"}, caller="gardener")
    assert len(response.json()["copies"]) == promoted
    assert (response.json()["links"] is not None) is counted
    assert (response.json()["events"] is not None) is counted


async def test_receipt_of_another_shows_what_its_reader_sees_of_it(world: World) -> None:
    own_fact = await world.ask("POST", "/v1/facts", {"content": "shared of lead"}, caller="lead")
    key = {"Idempotency-Key": "k"}
    recall_response = await world.ask(
        "POST", "/v1/recall", {"query": "shared"}, caller="lead", **key
    )
    assert len(recall_response.json()["facts"]) == 4
    path = f"/v1/receipts/{recall_response.json()['receipt']}"
    for end in ("", ":replay", ":diff"):
        answers = await world.ask("GET", path + end, caller="watcher")
        assert answers.json()["facts"] == [own_fact.json()["fact_id"]]
        assert len(answers.json()["scores"]) == 1
        assert len(answers.json().get("versions", ["compared"])) == 1
        for name in ("one", "two", "three"):
            assert world.names[name] not in answers.text
        assert TEAM not in answers.text.replace(LEAD, "")
        assert "3 of its facts" not in answers.text


async def test_metrics_name_nobody_and_nothing(world: World, scraped: Callable[[], str]) -> None:
    await world.hide()
    for path in (f"/v1/facts/{world.hidden[0]}", f"/{WORD}", f"/v1/scopes/{LEAD}"):
        await world.ask("GET", path)
    text = scraped()
    assert "kais_knowledge_requests_total" in text
    assert world.says_nothing(text)
    assert not any(name in text for name in ("demo", "lead", "peer", "stranger", "realm", "review"))
    labels = set(re.findall(r'(\w+)="', text))
    assert labels <= {"route", "method", "status", "state", "le"}
