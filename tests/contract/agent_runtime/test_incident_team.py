"""The incident team: three real runtimes, two real MCP servers, an approval, a scripted model.

The script is the same for each run. It proves the path from a fact to fewer turns, and not that a
real model takes it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from a2a.client import Client
from a2a.types import GetTaskRequest, Task, TaskState

from incident_team import __main__ as program
from kais import a2a
from knowledge_client.models import FactIn
from tests.agent_attempts import user_text
from tests.agent_services import Running, answer, message, metadata, request, serving
from tests.agent_teams import TeamKnowledge, TeamRun, rules_of, specs_of
from tests.fakes.shop_cluster import KEY, ShopCluster
from tests.fakes.tickets import ticket

EXAMPLE = Path(__file__).parents[3] / "examples/incident-team"
OBJECTIVE = "The deployment shop of namespace demo does not answer. Find the cause and repair it."
CAUSE = "container shop/app is killed out of memory"
CALL = '{"container": "app", "deployment": "shop", "memory_mi": 256}'


@dataclass(frozen=True)
class Run:
    """What a run of the team took, over all its cells."""

    answer: str
    rules: list[str]
    turns: int
    tokens: int
    approvals: list[tuple[str, str, str]]
    first_message: str = field(compare=False)


async def repair(
    folder: Path,
    knowledge: TeamKnowledge,
    run_id: str,
    cluster: ShopCluster,
    *,
    arm: str = "on",
    decision: str = "approve",
) -> Run:
    """Let the team repair the shop, and decide about the call that it wants to make."""
    async with AsyncExitStack() as stack:
        urls, variables = {}, {}
        for server in ("reader", "fixer"):
            (folder / f"{run_id}-{server}").mkdir()
            read, pods, api = cluster.apps(folder / f"{run_id}-{server}")
            app = program.app_of(replace(read, server=server), pods, api)
            urls[server] = await stack.enter_async_context(serving(app))
            key_file = folder / f"{run_id}-headers/{server}/x-api-key"
            key_file.parent.mkdir(parents=True)
            key_file.write_text(KEY)
            variables["KAIS_MCP_HEADERS"] = str(key_file.parents[1])
        specs = {
            name: at(spec, urls) for name, spec in specs_of(EXAMPLE / "blueprint.yaml").items()
        }
        team = await stack.enter_async_context(
            TeamRun(
                folder=folder,
                knowledge=knowledge,
                specs=specs,
                rules=rules_of(EXAMPLE / "scripted-model.yaml"),
                hub="lead-0",
                run_id=run_id,
                arm=arm,
                environment=variables,
            ).running()
        )
        client, lead = team.clients["lead-0"], team.cells["lead-0"]
        work = a2a.message_id(run_id, 1, "work")
        async for _ in client.send_message(
            request(message(OBJECTIVE, id=work, context=run_id), returns=True)
        ):
            break
        before = list(cluster.limits)
        waiting = await task_in(client, work, TaskState.TASK_STATE_INPUT_REQUIRED)
        assert cluster.limits == before, "nothing is changed before the approval"
        (call,) = metadata(waiting)[a2a.APPROVALS_KEY]
        await decide(lead, call, decision, run_id)
        task = await task_in(client, work, TaskState.TASK_STATE_COMPLETED)
    assert metadata(task)[a2a.USAGE_KEY]["turns"] == sum(
        str(entry.rule).startswith("lead") for entry in team.calls
    )
    decided = metadata(task)[a2a.APPROVALS_KEY]
    return Run(
        answer(task),
        [str(entry.rule) for entry in team.calls],
        len(team.calls),
        sum((entry.input_tokens or 0) + (entry.output_tokens or 0) for entry in team.calls),
        [(each["tool"], each["arguments"], each["outcome"]) for each in decided],
        user_text(team.calls[0]),
    )


def at(spec: dict[str, Any], urls: dict[str, str]) -> dict[str, Any]:
    """Give the MCP servers of a cell their addresses in the test."""
    tools = [
        {**tool, "config": {**tool["config"], "url": f"{urls[tool['config']['name']]}/mcp"}}
        if tool["name"] == "mcp"
        else tool
        for tool in spec["tools"]
    ]
    return {**spec, "tools": tools}


async def task_in(client: Client, message_id: str, state: int) -> Task:
    async with asyncio.timeout(60):
        while True:
            task = await client.get_task(GetTaskRequest(id=a2a.task_id(a2a.OPERATOR, message_id)))
            if task.status.state == state:
                return task
            assert task.status.state != TaskState.TASK_STATE_FAILED, metadata(task)
            await asyncio.sleep(0.05)


async def decide(lead: Running, call: dict[str, Any], decision: str, run_id: str) -> None:
    value = {"call": call["call"], "sha256": call["sha256"], "by": "ana@example.com"}
    body = {**value, "decision": decision, "reason": "as agreed"}
    async with lead.http(ticket(callee=lead.world.cell, run_id=run_id)) as http:
        response = await http.post(a2a.APPROVALS_PATH, json=body)
        assert response.status_code == 200, response.text


FIRST = [
    "lead asks about pods",
    "pods looks",
    "pods answers",
    "lead asks about changes",
    "changes looks",
    "changes answers",
    "lead repairs",
    "lead remembers",
    "lead answers",
]
SECOND = [
    "lead knows the limit and asks about pods",
    "pods looks",
    "pods answers",
    "lead knows the limit and repairs",
    "lead knows the limit and answers",
]


async def test_an_approved_call_repairs_the_deployment_and_the_second_run_takes_fewer_turns(
    tmp_path: Path,
) -> None:
    knowledge = TeamKnowledge()
    cluster = ShopCluster()
    first = await repair(tmp_path, knowledge, "run-1", cluster)
    assert cluster.limits == ["64Mi", "256Mi"]
    again = ShopCluster()
    second = await repair(tmp_path, knowledge, "run-2", again)
    assert again.limits == ["64Mi", "256Mi"]
    assert first.rules == FIRST
    assert first.answer == (f"Cause: {CAUSE}: it needs more than its limit of 64Mi. Repaired: yes")
    assert first.approvals == [("fixer__set_memory_limit", CALL, "approved")]
    assert (second.answer, second.approvals) == (first.answer, first.approvals)
    assert second.rules == SECOND
    assert (first.tokens, second.tokens) == (5980, 3390)


async def test_a_rejected_call_changes_nothing(tmp_path: Path) -> None:
    cluster = ShopCluster()
    run = await repair(tmp_path, TeamKnowledge(), "run-1", cluster, decision="deny")
    assert cluster.limits == ["64Mi"]
    assert run.rules[-1] == "lead may not repair"
    assert run.answer.endswith("Repaired: no")
    assert {request.method for request in cluster.requests} == {"GET"}


@pytest.mark.parametrize("arm", ["off", "holdout"])
async def test_second_run_without_knowledge_takes_as_many(tmp_path: Path, arm: str) -> None:
    knowledge = TeamKnowledge()
    first = await repair(tmp_path, knowledge, "run-1", ShopCluster())
    second = await repair(tmp_path, knowledge, "run-2", ShopCluster(), arm=arm)
    assert CAUSE not in second.first_message
    assert second == first


async def test_another_fact_of_equal_length_saves_nothing(tmp_path: Path) -> None:
    knowledge = TeamKnowledge()
    first = await repair(tmp_path, knowledge, "run-1", ShopCluster())
    (fact,) = (await knowledge.operator.list_facts()).facts
    other = fact.content.replace("runs with 256Mi", "runs with 3 CPU")
    assert len(other) == len(fact.content)
    replaced = TeamKnowledge()
    await replaced.operator.remember(FactIn(content=other, scope=fact.scope))
    second = await repair(tmp_path, replaced, "run-2", ShopCluster())
    assert other in second.first_message
    assert second == first
