"""Budgets on a real API server: missions at the same time, and an operator that is killed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from kais import agent_results, labels
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, FailureClass
from kais_operator import errors
from kais_operator.apply import executor
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.mission.observe import mission
from kais_operator.planning.agent_settings import AgentSettings
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World
from tests.cluster import reconciles
from tests.cluster.kubelet import Kubelet, environment
from tests.cluster.processes import Cluster, Start, wait_for
from tests.fakes.agents import FakeAgents

pytestmark = pytest.mark.cluster

MIND = {"provider": "openai", "model": "m", "systemPrompt": "Work.", "baseUrl": "http://models/v1"}
MISSIONS = ("first", "second", "third", "fourth")


def team(mode: str) -> Body:
    cells = [{"name": "lead", "spec": {"mode": mode, "mind": MIND}}]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "team"},
        "spec": {"cells": cells, "budget": {"maxCostPerHour": 1.0}},
    }


def work(name: str, **spec: Any) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Mission",
        "metadata": {"name": name},
        "spec": {"formationRef": "team", "objective": "work", **spec},
    }


def holders(body: Body) -> list[str]:
    text = (body["metadata"].get("annotations") or {}).get(labels.RESERVATIONS)
    return sorted(entry[2] for entry in json.loads(text)["runs"]) if text else []


def ended_with(cost: Decimal) -> tuple[int, str]:
    result = AgentResult(answer="done", usage=AgentUsage(turns=1, cost=cost))
    return 0, agent_results.serialize(result, limit_bytes=4096)


def reason_of(cluster: Cluster, name: str) -> str:
    return str(cluster.condition("missions", name, "Started").get("reason"))


def test_tasks_at_once_stay_within_the_hour_though_the_operator_is_killed(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(team("Task"), *(work(name, budget={"maxCost": 0.4}) for name in MISSIONS))

    def two_wait() -> bool:
        reasons = [reason_of(cluster, name) for name in MISSIONS]
        return len(cluster.items("pods")) == 2 and reasons.count("BudgetReserved") == 2

    wait_for(two_wait, subject="two missions work and two wait")
    reserved = holders(cluster.get("formations", "team") or {})
    assert len(reserved) == 2
    operator.kill()
    start(name="second").wait_ready()
    wait_for(two_wait, subject="the same after the operator was killed")
    assert holders(cluster.get("formations", "team") or {}) == reserved

    granted: list[Decimal] = []

    def end(pod: Body) -> tuple[int, str]:
        granted.append(Decimal(environment(pod)["KAIS_MAX_COST"]))
        return ended_with(granted[-1] * 3 / 4)

    with Kubelet(cluster, end) as kubelet:
        wait_for(
            lambda: all(cluster.status("missions", name).get("outcome") for name in MISSIONS),
            subject="every mission ends",
        )
        wait_for(
            lambda: not holders(cluster.get("formations", "team") or {}),
            subject="nothing is reserved",
        )
    assert kubelet.problem is None
    assert granted[:3] == [Decimal("0.4")] * 3
    (lead,) = cluster.items("cells")
    usage = json.loads(lead["metadata"]["annotations"][labels.CELL_USAGE])
    assert Decimal(usage["cost"]) == sum(granted) * 3 / 4
    assert Decimal(usage["cost"]) <= 1


def test_replacement_of_an_evicted_pod_waits_for_the_operator_and_gets_what_is_left(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(team("Task"), work("first", budget={"maxCost": 0.4}))

    def gates() -> list[bool]:
        pods = sorted(cluster.items("pods"), key=lambda pod: pod["metadata"]["creationTimestamp"])
        return [bool(pod["spec"].get("schedulingGates")) for pod in pods]

    wait_for(lambda: gates() == [False], subject="the first pod may start")
    (first,) = cluster.items("pods")
    assert environment(first)["KAIS_MAX_COST"] == "0.4"
    operator.kill()
    usage = AgentUsage(turns=1, cost=Decimal("0.15"))
    failure = AgentFailure(FailureClass.INTERRUPTED, "SIGTERM")
    message = agent_results.serialize(AgentResult(usage=usage, failure=failure), limit_bytes=4096)
    cluster.finish_pod(first, exit_code=75, message=message, is_evicted=True)
    wait_for(lambda: gates() == [False, True], subject="a pod that replaces it waits")
    (gated,) = (pod for pod in cluster.items("pods") if pod["spec"].get("schedulingGates"))
    (condition,) = gated["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")

    start(name="second").wait_ready()
    wait_for(lambda: gates() == [False, False], subject="the other operator lets it start")
    second = cluster.kubectl("get", "pod", gated["metadata"]["name"], "-o", "json")
    assert environment(json.loads(second))["KAIS_MAX_COST"] == "0.25"


@pytest.fixture
async def world(control_plane: Any) -> AsyncIterator[World]:
    world, link = await reconciles.connected(control_plane.kubeconfig)
    agents = AgentSettings(image="agent:1", model_urls={}, prices="")
    yield replace(world, placement=replace(world.placement, agents=agents))
    await link.close()


async def make_ready(control_plane: Any, world: World, namespace: str) -> None:
    """Say of the pod that the Deployment controller makes what a kubelet would."""
    for _ in range(200):
        pods = await world.cluster.list("Pod", namespace, fresh=True)
        if pods:
            break
        await asyncio.sleep(0.1)
    state = {"running": {"startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
    status = {
        "phase": "Running",
        "conditions": [{"type": t, "status": "True"} for t in ("Ready", "ContainersReady")],
        "containerStatuses": [
            {"name": "cell", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
            | {"state": state}
        ],
    }
    patch = json.dumps({"status": status})
    name = pods[0]["metadata"]["name"]
    control_plane.kubectl(
        "patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    )


async def iterate(world: World, ref: ObjectRef, conflicts: list[ObjectRef]) -> None:
    """Observe and decide, let the others do the same, then write; a conflict ends the iteration."""
    observation = await mission.CONTROLLER.observe(world, ref)
    assert observation is not None
    plan = mission.CONTROLLER.decide(observation.observed, world.clock.now())
    await asyncio.sleep(0)
    try:
        await executor.execute(plan, world)
    except errors.Conflict:
        conflicts.append(ref)


async def test_services_at_once_conflict_and_get_the_money_of_their_team_one_by_one(
    control_plane: Any, world: World, namespace: str
) -> None:
    bodies = [team("Service"), *(work(name) for name in MISSIONS)]
    for body in bodies:
        control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    ref = ObjectRef("Formation", namespace, "team")
    lead = ObjectRef("Cell", namespace, "team-lead-0")
    await reconciles.settle(world, formation.CONTROLLER, ref)
    await reconciles.settle(world, cell.CONTROLLER, lead)
    await make_ready(control_plane, world, namespace)
    await reconciles.settle(world, cell.CONTROLLER, lead)
    await reconciles.settle(world, formation.CONTROLLER, ref)

    agents, conflicts = world.agents, list[ObjectRef]()
    assert isinstance(agents, FakeAgents)
    refs = [ObjectRef("Mission", namespace, name) for name in MISSIONS]
    left = Decimal(1)
    for count in range(1, len(refs) + 1):
        for _ in range(8):
            await asyncio.gather(*(iterate(world, each, conflicts) for each in refs))
        assert [each.call.budget_left for each in agents.deliveries][count - 1 :] == [f"{left}"]
        team_body = await world.cluster.get(ref)
        assert team_body is not None
        assert holders(team_body) == [agents.deliveries[-1].call.mission.name]
        usage = AgentUsage(turns=1, cost=left / 4)
        task = AgentTask(TaskState.COMPLETED, answer="done", usage=usage)
        agents.tasks[agents.deliveries[-1].call.message_id] = task
        left -= left / 4
    assert conflicts
