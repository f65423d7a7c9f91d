"""Every channel of the MCP endpoint, through which a tenant could learn of what it may not see.

The reader looks through a channel, lets others do everything that they can do out of its sight,
looks again, and compares. The others are beside it, below it, and in another realm.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from knowledge_client.models import FactIn
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.service.callers import CALLERS
from tests.contract.service.invisible_data import MISSING, WORD, World
from tests.contract.service.mcp_service import (
    Service,
    all_resources,
    called,
    failed,
    serving,
)
from tests.knowledge_builders import LEAD, OTHER

ALL_TOOLS = "/mcp/knowledge,graph,charts"
# `peer` is beside the cell that hides things, `team` above it, and `neighbour` in the other realm.
READERS = ("peer", "team", "neighbour")
WITH_NEIGHBOUR = {**CALLERS, "neighbour": Principal("other/y", "agent", f"{OTHER}/cell:y")}
Call = tuple[str, dict[str, Any]]
RESOURCES, RESOURCE, PROMPT = "resources/list", "resources/read", "prompts/get"
HIDDEN_RELATION = {"from": f"entity {WORD}", "relationType": WORD, "to": "entity one"}

READS: dict[str, list[Call]] = {
    "recall": [("recall", {"query": "shared"}), ("recall", {"query": f"{WORD} rain"})],
    "provenance": [("why", {"fact_id": "{one}"}), ("why", {"fact_id": "{two}"})],
    "own provenance": [("why", {"fact_id": "{own}"})],
    "refusals": [("why", {"fact_id": MISSING}), ("recall", {"query": "x", "scopes": [LEAD]})],
    "the graph": [("read_graph", {}), ("read_graph", {"limit": 1}), ("read_graph", {"limit": 3})],
    "search of the graph": [
        ("search_nodes", {"query": text}) for text in (WORD, "watched", "entity", "_chart")
    ],
    "entities by name": [("open_nodes", {"names": ["entity one", f"entity {WORD}", "{step}"]})],
    "active charts": [
        ("list_active_charts", {}), ("list_active_charts", {"dueBefore": "2030-06-01"}),
    ],
    "a chart": [("get_chart_progress", {"chartId": "{chart}"})],
    "list of resources": [(RESOURCES, {})],
    "resources": [
        (RESOURCE, {"uri": uri}) for uri in (
            "kais://facts/{one}", "kais://facts/{two}", "kais://facts/alias:entity:entity%20one",
            f"kais://facts/alias:entity:entity%20{WORD}", "kais://entities/entity%20one",
            f"kais://entities/entity%20{WORD}", "kais://entities/{step}", "kais://charts/{chart}",
        )
    ],
    "prompts": [(PROMPT, {"name": "recall", "arguments": {"task": "shared rain"}})],
}  # fmt: skip
REFUSED_WRITES: list[Call] = [
    ("correct", {"fact_id": "{one}", "reason": "x"}),
    ("confirm", {"fact_id": MISSING}),
    ("remember", {"content": "x", "scope": LEAD}),
    ("add_observations", {"observations": [{"entityName": f"entity {WORD}", "contents": ["x"]}]}),
    ("add_observations", {"observations": [{"entityName": "entity one", "contents": ["x"]}]}),
    ("create_relations", {"relations": [HIDDEN_RELATION]}),
    ("delete_entities", {"entityNames": ["entity one"]}),
    ("mark_action_complete", {"actionStepName": "{step}"}),
    ("telescope_action_step", {"actionStepName": "{step}", "newCurrentReality": "x"}),
    ("update_action_progress", {"actionStepName": "{step}", "progressObservation": "x"}),
    ("update_current_reality", {"chartId": "{chart}", "newObservations": ["x"]}),
    ("update_desired_outcome", {"chartId": "{chart}", "newDesiredOutcome": "x"}),
    ("add_action_step", {"parentChartId": "{chart}", "actionStepTitle": "x"}),
    ("remove_action_step", {"parentChartId": "{chart}", "actionStepName": "{step}"}),
]
NEW_CHART = {
    "desiredOutcome": f"outcome {WORD}", "currentReality": "mine", "dueDate": "2030-05-01",
    "actionSteps": ["mine"],
}  # fmt: skip
NEW_ENTITY = {"name": f"entity {WORD}", "entityType": "mine", "observations": [f"watched {WORD}"]}
WRITES: list[Call] = [
    ("remember", {"content": f"shared {WORD} 0"}),
    ("delete_entities", {"entityNames": [f"entity {WORD}"]}),
    ("delete_observations", {
        "deletions": [{"entityName": f"entity {WORD}", "observations": [f"watched {WORD}"]}]
    }),
    ("delete_relations", {"relations": [HIDDEN_RELATION]}),
    ("create_entities", {"entities": [NEW_ENTITY, {"name": "mine", "entityType": "x"}]}),
    ("create_entities", {"entities": [NEW_ENTITY]}),
    ("add_observations", {
        "observations": [{"entityName": f"entity {WORD}", "contents": [f"watched {WORD}", "new"]}]
    }),
    ("create_relations", {"relations": [{**HIDDEN_RELATION, "to": "mine"}]}),
    ("create_relations", {"relations": [HIDDEN_RELATION]}),
    ("create_structural_tension_chart", NEW_CHART),
    ("update_action_progress", {"actionStepName": "{step}", "progressObservation": "x"}),
    ("telescope_action_step", {"actionStepName": "{step}", "newCurrentReality": "x"}),
    ("mark_action_complete", {"actionStepName": "{step}"}),
    ("remove_action_step", {"parentChartId": "{chart}", "actionStepName": "{step}"}),
    ("get_chart_progress", {"chartId": "{chart}"}),
    ("read_graph", {}),
    ("delete_entities", {"entityNames": [f"entity {WORD}", "entity one"]}),
    ("delete_entities", {"entityNames": [f"entity {WORD}"]}),
    ("list_active_charts", {}),
    ("read_graph", {}),
]  # fmt: skip


async def answers_of(client: Client, calls: list[Call], world: World) -> list[str]:
    """Make some calls, with `{one}` and the like filled in; return the answers as text."""
    texts = []
    for name, arguments in calls:
        filled = json.dumps(arguments)
        for key, value in world.names.items():
            filled = filled.replace(f"{{{key}}}", value)
        try:
            content = await _answer(client, name, json.loads(filled))
        except MCPError as exc:
            content = {"error": exc.error.model_dump(mode="json")}
        texts.append(json.dumps(content, sort_keys=True))
    return texts


async def _answer(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == RESOURCES:
        return {"resources": list((await all_resources(client)).items())}
    if name == RESOURCE:
        return (await client.read_resource(arguments["uri"])).model_dump(mode="json")
    if name == PROMPT:
        prompt = await client.get_prompt(arguments["name"], arguments["arguments"])
        text = prompt.messages[0].content.text  # type: ignore[union-attr]
        return {"text": re.sub(' receipt="[^"]*"', "", text)}
    result = await client.call_tool(name, arguments)
    content = dict(result.structured_content or (result.meta or {})["kais.io/error"])
    # The receipt is new each time, and ages are part of scores.
    content.pop("receipt", None)
    for fact in content.get("facts", ()):
        fact["score"] = round(fact["score"], 3)
    return content


async def shared_world(service: Service) -> World:
    world = World(service.rest, service.http)
    await world.share()
    return world


@pytest.mark.parametrize("reader", READERS)
async def test_each_channel_has_the_same_answers_whatever_others_did(
    store: Store, reader: str
) -> None:
    async with serving(store, WITH_NEIGHBOUR) as service:
        world = await shared_world(service)
        async with service.mcp(reader, path=ALL_TOOLS) as client:
            before = {name: await answers_of(client, READS[name], world) for name in READS}
            await world.hide()
            after = {name: await answers_of(client, READS[name], world) for name in READS}
    for channel, calls in READS.items():
        assert after[channel] == before[channel], channel
        is_named = WORD in str(calls) or channel == "refusals" or reader == "neighbour"
        assert is_named or all(map(world.says_nothing, after[channel])), channel


@pytest.mark.parametrize("reader", ["peer", "neighbour"])
async def test_refused_write_has_the_same_answer_whatever_others_did(
    store: Store, reader: str
) -> None:
    async with serving(store, WITH_NEIGHBOUR) as service:
        world = await shared_world(service)
        async with service.mcp(reader, path=ALL_TOOLS) as client:
            answers_before = await answers_of(client, REFUSED_WRITES, world)
            await world.hide()
            answers_after = await answers_of(client, REFUSED_WRITES, world)
            changed = [
                call
                for call, answer in zip(REFUSED_WRITES, answers_after, strict=True)
                if "code" not in json.loads(answer) and json.loads(answer).get("deleted") != 0
            ]
        assert answers_after == answers_before
        assert changed == []


@pytest.mark.parametrize("writer", READERS)
async def test_writes_have_the_same_answers_with_and_without_what_others_hid(
    store: Store, tmp_path: Path, writer: str
) -> None:
    answers = []
    alone = SqliteStore(tmp_path / "alone.db")
    for each, is_hiding in ((alone, False), (store, True)):
        async with serving(each, WITH_NEIGHBOUR) as service:
            world = await shared_world(service)
            if is_hiding:
                await world.hide()
                hidden_before = await hidden_views(service)
            async with service.mcp(writer, path=ALL_TOOLS) as client:
                answers.append(without_ids(await answers_of(client, WRITES, world)))
            if is_hiding:
                assert await hidden_views(service) == hidden_before
    alone.close()
    assert answers[1] == answers[0]


async def hidden_views(service: Service) -> list[str]:
    """Return what the other cell and the other realm have of their own in the graph."""
    views = []
    for name, scope in (("lead", LEAD), ("stranger", f"{OTHER}/cell:x")):
        client = service.rest(name)
        graph = await client.read_graph(scope=scope, outgoing=True)
        charts = (await client.list_charts(scope=scope)).charts
        own = [each for each in graph.relations if each.to != "entity one"]
        views.append(json.dumps([graph.entities, own, charts], default=str))
    return views


def without_ids(texts: list[str]) -> list[str]:
    """Replace ids by the order of their appearance, and leave moments out."""
    numbers: dict[str, int] = {}
    numbered = []
    for text in texts:
        plain = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)", "TIME", text)
        numbered.append(
            re.sub(
                r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}",
                lambda found: f"ID{numbers.setdefault(found[0], len(numbers))}",
                plain,
            )
        )
    return numbered


async def test_hidden_fact_is_refused_like_a_missing_one(store: Store) -> None:
    async with serving(store) as service:
        hidden = (await service.rest("lead").remember(FactIn(content="hidden"))).fact_id
        async with service.mcp("peer") as peer:
            for tool, arguments in (
                ("why", {}), ("correct", {"reason": "x"}), ("confirm", {}),
            ):  # fmt: skip
                texts = [
                    (await failed(peer, tool, fact_id=fact_id, **arguments))[1].replace(fact_id, "")
                    for fact_id in (hidden, MISSING)
                ]
                assert texts[0] == texts[1]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("owner", ["lead", "stranger"])
async def test_what_others_have_is_refused_like_what_does_not_exist(
    store: Store, owner: str, reader: str
) -> None:
    async with serving(store, WITH_NEIGHBOUR) as service:
        async with service.mcp(owner, path=ALL_TOOLS) as client:
            fact = (await called(client, "remember", content="hidden"))["fact_id"]
            await called(client, "create_entities", entities=[{"name": "Ann", "entityType": "x"}])
            chart = (await called(client, "create_structural_tension_chart", **NEW_CHART))["chart"]
        step = chart["action_steps"][0]["name"]
        hidden_names = (fact, "Ann", chart["id"], step)
        async with service.mcp(reader, path=ALL_TOOLS) as client:
            assert await all_resources(client) == {}
            for name in hidden_names:
                missing = "".join("0" if each.isalnum() else each for each in name)
                refusals = [
                    (await refusals_of(client, each)).replace(each, "NAME")
                    for each in (name, missing)
                ]
                assert refusals[0] == refusals[1]
                assert not any(each in refusals[0] for each in (*hidden_names, LEAD, "/cell:x"))


async def refusals_of(client: Client, name: str) -> str:
    """Call everything that takes a name or an id; return the answers, of which most are errors."""
    relation = {"from": name, "to": name, "relationType": "x"}
    calls: list[Call] = [
        *((RESOURCE, {"uri": f"kais://{kind}/{name}"}) for kind in ("facts", "entities", "charts")),
        (RESOURCE, {"uri": f"kais://facts/alias:entity:{name}"}),
        ("why", {"fact_id": name}), ("confirm", {"fact_id": name}),
        ("correct", {"fact_id": name, "reason": "x"}),
        ("open_nodes", {"names": [name]}), ("search_nodes", {"query": name}),
        ("add_observations", {"observations": [{"entityName": name, "contents": ["x"]}]}),
        ("create_relations", {"relations": [relation]}),
        ("delete_relations", {"relations": [relation]}),
        ("delete_entities", {"entityNames": [name]}),
        ("delete_observations", {"deletions": [{"entityName": name, "observations": ["x"]}]}),
        ("get_chart_progress", {"chartId": name}),
        ("mark_action_complete", {"actionStepName": name}),
        ("telescope_action_step", {"actionStepName": name, "newCurrentReality": "x"}),
        ("update_action_progress", {"actionStepName": name, "progressObservation": "x"}),
        ("update_current_reality", {"chartId": name, "newObservations": ["x"]}),
        ("update_desired_outcome", {"chartId": name, "newDesiredOutcome": "x"}),
        ("add_action_step", {"parentChartId": name, "actionStepTitle": "x"}),
        ("remove_action_step", {"parentChartId": name, "actionStepName": name}),
    ]  # fmt: skip
    nothing = World(lambda _: None, None)  # type: ignore[arg-type,return-value]
    return "\n".join(await answers_of(client, calls, nothing))
