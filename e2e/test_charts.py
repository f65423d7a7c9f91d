"""Structural tension charts over a whole run: kept by a cell on pods, and by a client of MCP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment

from e2e.support import manifests
from e2e.support.installed import Installed

pytestmark = pytest.mark.e2e
KEEPER = """
import json
from datetime import UTC, datetime
from knowledge_client import KnowledgeClient
from knowledge_client.models import (
    ActionStepIn, ChartIn, RecallIn, StepIn, StepProgressIn, TelescopeIn,
)

def steps(*titles):
    return tuple(ActionStepIn(title=title) for title in titles)

with KnowledgeClient() as client:
    active = client.list_charts().charts
    if not active:
        chart = client.create_chart(ChartIn(
            desired_outcome="The log names every ship of the week",
            current_reality="The log ends on Monday.",
            due_date=datetime(2030, 5, 1, tzinfo=UTC),
            action_steps=steps("Read the signal book", "Ask the pilots"),
        ))
        read, ask = (step.name for step in chart.action_steps)
        client.record_progress(StepProgressIn(
            step=read, observation="The signal book names the tugboat Meridian.", in_reality=True
        ))
        client.telescope_step(TelescopeIn(
            step=ask, current_reality="Two pilots are at sea.",
            action_steps=steps("Call the pilots by radio"),
        ))
        raise SystemExit("the radio is silent")
    (above,) = [chart for chart in active if chart.level == 0]
    (below,) = [chart for chart in active if chart.parent_chart == above.id]
    client.complete_step(StepIn(step=above.action_steps[0].name))
    client.complete_step(StepIn(step=below.action_steps[0].name))
    recalled = client.recall(RecallIn(query="Which tugboat does the signal book name?"))
    with open("/dev/termination-log", "w") as result:
        json.dump([above.id, below.id, recalled.facts[0].content], result)
"""
PROGRESS = "The signal book names the tugboat Meridian."


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("charts")


def test_a_cell_keeps_a_chart_through_the_attempts_of_a_run(
    cluster: Installed, namespace: str
) -> None:
    """The first attempt makes the chart and fails; the second one goes on from the chart."""
    cluster.apply(
        manifests.formation("keeper", namespace, KEEPER),
        manifests.mission("keeper", namespace, completion={"maxAttempts": 2}),
    )
    status = cluster.finished_mission("keeper", namespace)["status"]

    assert (status["outcome"], status["attempt"]) == ("Succeeded", 2), status
    above_id, below_id, recalled = json.loads(status["result"])
    assert recalled == PROGRESS
    with cluster.store(namespace) as store:
        above, below = store.get_chart(above_id), store.get_chart(below_id)
        active = store.list_charts().charts
    assert (above.phase, above.progress, above.completed) == ("completion", 1, True)
    assert (below.phase, below.progress, below.completed) == ("completion", 1, True)
    assert above.current_reality == (
        "The log ends on Monday.",
        PROGRESS,
        "Completed: Read the signal book",
        "Completed: Ask the pilots",
        "Completed: The log names every ship of the week",
    )
    assert below.current_reality == (
        "Two pilots are at sea.",
        "Completed: Call the pilots by radio",
    )
    assert active == ()
    assert above.scope.startswith(f"realm:{namespace}/formation:")
    question = ("recall", "Where are the pilots?", "--scope", above.scope, "-n", namespace)
    answer = cluster.kais("knowledge", *question)
    assert "Two pilots are at sea." in answer.stdout, answer.stderr


async def test_a_client_of_mcp_keeps_a_chart_of_the_run_that_it_launches(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.blueprint("counters", namespace))
    cluster.kubectl(
        "wait", "blueprint/counters", "-n", namespace, "--timeout=60s",
        "--for=jsonpath={.status.servedRevision}=1",
    )  # fmt: skip
    program = StdioServerParameters(
        command=str(Path(sys.executable).with_name("kais")),
        args=["mcp", "-n", namespace, "--tools", "knowledge,charts,kais", "--allow-launch"],
        env=get_default_environment() | cluster.environment,
    )
    async with Client(program) as client:
        chart = await chart_of(
            client,
            "create_structural_tension_chart",
            desiredOutcome="Every crane of the harbour is counted",
            currentReality="Nobody knows how many cranes there are.",
            dueDate="2030-05-01",
            actionSteps=["Launch the counters", "Read their outcome"],
        )
        launch, read = (step["name"] for step in chart["action_steps"])
        mission = (await called(client, "kais_launch_team", blueprint="counters"))["mission"]
        await chart_of(client, "mark_action_complete", actionStepName=launch)
        cluster.finished_mission(mission, namespace)
        (ended,) = (await called(client, "kais_mission_status", mission=mission))["missions"]
        await chart_of(
            client,
            "update_action_progress",
            actionStepName=read,
            progressObservation=f"The counters ended: {ended['outcome']}.",
            updateCurrentReality=True,
        )
        await chart_of(client, "mark_action_complete", actionStepName=read)

        done = await chart_of(client, "get_chart_progress", chartId=chart["id"])
        assert (done["phase"], done["progress"], done["completed"]) == ("completion", 1, True)
        assert done["current_reality"][1:] == [
            "Completed: Launch the counters",
            "The counters ended: Succeeded.",
            "Completed: Read their outcome",
            "Completed: Every crane of the harbour is counted",
        ]
        assert (await called(client, "list_active_charts"))["charts"] == []
        facts = (await called(client, "recall", query="How did the counters end?"))["facts"]
        assert "The counters ended: Succeeded." in [fact["content"] for fact in facts]


async def chart_of(client: Client, tool: str, **arguments: Any) -> Any:
    return (await called(client, tool, **arguments))["chart"]


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content
