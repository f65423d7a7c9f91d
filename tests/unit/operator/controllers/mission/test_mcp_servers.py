"""Cells with MCP servers: the headers in their pods, and a condition for each server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kais import agent_results, labels
from kais.agent_results import AgentResult
from kais.mcp_servers import ServerReport, ServerState
from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.services import SOLO
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Explain."}
URL = "http://cluster:8000/mcp"
TYPE = "mcp.kais.io/cluster"
HEADER = {"name": "X-Api-Key", "secret": "cluster-key", "key": "token"}
CONNECTED = ServerReport(URL, ServerState.CONNECTED, f"{URL} offers 2 of its 2 tools to the mind")
AWAY = ServerReport(URL, ServerState.UNAVAILABLE, f"{URL} does not answer within 30s")


def server(**config: Any) -> Body:
    return {"name": "mcp", "config": {"name": "cluster", "url": URL, **config}}


def agent(*tools: Body) -> Body:
    return teams.thing("Cell", "solo", spec={"mind": MIND, "tools": list(tools)})


async def working(report: ServerReport, *tools: Body) -> FakeWorld:
    """A world whose mission works, and whose cell has reported about its server."""
    mission = teams.work(formationRef=None, cellRef="solo")
    fake = await services.serving(agent(*(tools or (server(),))), mission)
    for _ in range(4):
        await teams.pass_(fake)
    tell(fake, report)
    await teams.pass_(fake)
    await fake.settle(cell.CONTROLLER, SOLO)
    return fake


def tell(fake: FakeWorld, report: ServerReport, state: TaskState = TaskState.WORKING) -> None:
    (message,) = fake.agents.tasks
    task = AgentTask(state, heartbeat=fake.clock.now(), servers={"cluster": report})
    fake.agents.tasks[message] = replace(task, answer="Done.")


async def test_a_server_that_no_run_has_used_is_unknown() -> None:
    fake = await services.serving(agent(server()))
    assert condition(fake, TYPE, SOLO) == ("Unknown", "NotConnected", f"no run has used {URL} yet")
    assert condition(fake, "Ready", SOLO)[0] == "True"
    assert status(fake, SOLO)["conditions"][-1]["type"] == "Ready"


async def test_what_a_working_task_reports_becomes_a_condition_of_the_cell() -> None:
    fake = await working(CONNECTED)
    assert condition(fake, TYPE, SOLO) == ("True", "Connected", CONNECTED.message)
    writes = [ref for _, ref in fake.cluster.writes if ref == SOLO]
    await teams.pass_(fake)
    await fake.settle(cell.CONTROLLER, SOLO)
    assert [ref for _, ref in fake.cluster.writes if ref == SOLO] == writes


FAILURES = {
    ServerState.UNAVAILABLE: "ServerUnavailable",
    ServerState.REFUSED: "ServerRefused",
    ServerState.INVALID: "ServerInvalid",
}


@pytest.mark.parametrize(("state", "reason"), FAILURES.items(), ids=FAILURES.values())
async def test_a_server_that_fails_is_a_warning_and_the_cell_stays_ready(
    state: ServerState, reason: str
) -> None:
    fake = await working(replace(AWAY, state=state))
    assert condition(fake, TYPE, SOLO) == ("False", reason, AWAY.message)
    assert condition(fake, "Ready", SOLO)[0] == "True"
    warnings = [each for each in fake.cluster.events if each["type"] == "Warning"]
    assert (reason, AWAY.message) in [(each["reason"], each["message"]) for each in warnings]
    tell(fake, CONNECTED, TaskState.COMPLETED)
    await teams.settle(fake)
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, TYPE, SOLO)[:2] == ("True", "Connected")
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_server_with_a_new_address_has_not_been_used() -> None:
    fake = await working(AWAY)
    fake.cluster.edit(SOLO, {"spec": {"tools": [server(url="http://elsewhere/mcp")]}})
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, TYPE, SOLO)[:2] == ("Unknown", "NotConnected")


async def test_reports_about_servers_that_are_not_declared_are_not_kept() -> None:
    fake = await working(replace(CONNECTED, url="http://elsewhere/mcp"))
    assert labels.MCP_SERVERS not in fake.cluster.read(SOLO)["metadata"].get("annotations", {})


async def test_the_pod_of_a_task_reports_in_its_termination_message() -> None:
    spec = {"mode": "Task", "mind": MIND, "tools": [server()]}
    fake = fake_world(teams.team(cells=[{"name": "lead", "spec": spec}]), teams.work())
    await teams.settle_team(fake)
    await teams.settle(fake)
    result = AgentResult(answer="Done.", servers={"cluster": AWAY})
    teams.succeed(fake, agent_results.serialize(result, limit_bytes=4096))
    await teams.settle(fake)
    lead = ObjectRef("Cell", "demo", "team-lead-0")
    await fake.settle(cell.CONTROLLER, lead)
    assert condition(fake, TYPE, lead) == ("False", "ServerUnavailable", AWAY.message)
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_mission_that_is_deleted_writes_no_report() -> None:
    fake = await working(AWAY)
    fake.cluster.edit(MISSION, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    tell(fake, CONNECTED)
    await teams.pass_(fake)
    assert "connected" not in fake.cluster.read(SOLO)["metadata"]["annotations"][labels.MCP_SERVERS]


async def test_headers_of_secrets_are_files_of_the_runtime_alone() -> None:
    fake = await services.serving(agent(server(headersFrom=[HEADER])))
    pod = services.template(fake)["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    (source,) = volumes["kais-mcp-headers"]["projected"]["sources"]
    assert source == {
        "secret": {
            "name": "cluster-key",
            "items": [{"key": "token", "path": "cluster/x-api-key"}],
            "optional": True,
        }
    }
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts["kais-mcp-headers"] == {
        "name": "kais-mcp-headers",
        "mountPath": "/etc/kais/mcp-headers",
        "readOnly": True,
    }
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert variables["KAIS_MCP_HEADERS"] == "/etc/kais/mcp-headers"


async def test_a_cell_without_headers_has_the_pod_that_it_had() -> None:
    fake = await services.serving(agent(server()))
    pod = services.template(fake)["spec"]
    assert "kais-mcp-headers" not in {volume["name"] for volume in pod["volumes"]}
    names = {variable["name"] for variable in pod["containers"][0]["env"]}
    assert "KAIS_MCP_HEADERS" not in names


async def test_servers_that_cannot_be_used_keep_the_cell_from_running() -> None:
    fake = fake_world(agent(server(), server()))
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Ready", SOLO) == (
        "False",
        "Invalid",
        "spec.tools: 2 MCP servers have the name cluster; give each its own config.name",
    )
    assert fake.cluster.refs("Deployment") == []
