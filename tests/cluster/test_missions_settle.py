"""Formations, Cells and Missions settle on a real API server and its Job controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import yaml

from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.mission.observe import mission
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World
from tests.cluster import reconciles
from tests.fakes import teams

pytestmark = pytest.mark.cluster


@pytest.fixture
async def world(control_plane) -> AsyncIterator[World]:
    world, link = await reconciles.connected(control_plane.kubeconfig)
    yield world
    await link.close()


def placed(body: Body, namespace: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


async def ready_team(control_plane, world: World, namespace: str, *bodies: Body) -> None:
    manifest = yaml.safe_dump_all([placed(body, namespace) for body in (teams.team(), *bodies)])
    control_plane.apply(manifest, namespace=namespace)
    team = ObjectRef("Formation", namespace, "team")
    await reconciles.settle(world, formation.CONTROLLER, team)
    await reconciles.settle(world, cell.CONTROLLER, ObjectRef("Cell", namespace, "team-lead-0"))
    settled = await reconciles.settle(world, formation.CONTROLLER, team)
    assert settled["status"]["display"]["cells"] == "1/1"


async def pod_of(world: World, namespace: str, job: str) -> Body:
    """Wait for the pod that the Job controller makes."""
    for _ in range(100):
        results = await world.cluster.list("Pod", namespace, labels=f"job-name={job}")
        if results:
            return results[0]
        await asyncio.sleep(0.1)
    pytest.fail(f"{job} has no pod")


async def job_ended(world: World, ref: ObjectRef) -> None:
    for _ in range(200):
        job = await world.cluster.get(ref)
        conditions = ((job or {}).get("status") or {}).get("conditions") or ()
        if any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions):
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"{ref} does not end: {job}")


def end_pod(control_plane, pod: Body, *, code: int, message: str) -> None:
    """End a pod as a kubelet does; there is none here."""
    at = "2026-03-01T12:00:00Z"
    ended = {"exitCode": code, "message": message, "startedAt": at, "finishedAt": at}
    container = {
        "name": "task", "image": "worker:1", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"terminated": ended},
    }  # fmt: skip
    phase = "Succeeded" if code == 0 else "Failed"
    patch = {"status": {"phase": phase, "startTime": at, "containerStatuses": [container]}}
    control_plane.kubectl(
        "patch", "pod", pod["metadata"]["name"], "-n", pod["metadata"]["namespace"],
        "--subresource=status", "--type=merge", "-p", json.dumps(patch),
    )  # fmt: skip


async def test_a_mission_fails_once_and_then_succeeds(
    control_plane, world: World, namespace: str
) -> None:
    await ready_team(control_plane, world, namespace, teams.work())
    ref = ObjectRef("Mission", namespace, "doctor")
    await reconciles.settle(world, mission.CONTROLLER, ref)
    first = ObjectRef("Job", namespace, "doctor-a1")
    end_pod(
        control_plane, await pod_of(world, namespace, "doctor-a1"), code=1, message="no such pod"
    )
    await job_ended(world, first)
    retried = await reconciles.settle(world, mission.CONTROLLER, ref)
    assert retried["status"]["attempt"] == 2
    end_pod(control_plane, await pod_of(world, namespace, "doctor-a2"), code=0, message="found it")
    await job_ended(world, ObjectRef("Job", namespace, "doctor-a2"))
    result = await reconciles.settle(world, mission.CONTROLLER, ref)
    assert (result["status"]["outcome"], result["status"]["result"]) == ("Succeeded", "found it")
    assert not result["metadata"].get("finalizers")
    rows = control_plane.kubectl("get", "fm,cl,ms", "-n", namespace)
    assert "2/3" in rows
    assert "0 in, 1 out" in rows


async def test_a_deleted_mission_takes_its_job_along(
    control_plane, world: World, namespace: str
) -> None:
    await ready_team(control_plane, world, namespace, teams.work())
    ref = ObjectRef("Mission", namespace, "doctor")
    await reconciles.settle(world, mission.CONTROLLER, ref)
    control_plane.kubectl("delete", "ms", "doctor", "-n", namespace, "--wait=false")
    for _ in range(5):
        observation = await mission.CONTROLLER.observe(world, ref)
        if observation is None:
            break
        plan = mission.CONTROLLER.decide(observation.observed, world.clock.now())
        await reconciles.executor.execute(plan, world)
    assert await world.cluster.get(ref) is None


async def test_a_changed_template_reaches_its_cell(
    control_plane, world: World, namespace: str
) -> None:
    env = [{"name": "A", "value": "1"}]
    cells = [{"name": "lead", "spec": teams.task(container={"image": "w:1", "env": env})}]
    body = placed(teams.team(cells=cells), namespace)
    control_plane.apply(yaml.safe_dump(body), namespace=namespace)
    team = ObjectRef("Formation", namespace, "team")
    await reconciles.settle(world, formation.CONTROLLER, team)
    body["spec"]["cells"][0]["spec"]["container"] = {"image": "w:2"}
    control_plane.apply(yaml.safe_dump(body), namespace=namespace)
    await reconciles.settle(world, formation.CONTROLLER, team)
    manifest = await world.cluster.get(ObjectRef("Cell", namespace, "team-lead-0"))
    assert manifest is not None
    container = manifest["spec"]["container"]
    assert (container["image"], container.get("env") or []) == ("w:2", [])


async def test_a_declared_scope_settles(control_plane, world: World, namespace: str) -> None:
    body = placed(teams.scope(deletionPolicy="Delete"), namespace)
    control_plane.apply(yaml.safe_dump(body), namespace=namespace)
    ref = ObjectRef("KnowledgeScope", namespace, "memory")
    settled = await reconciles.settle(world, knowledge_scope.CONTROLLER, ref)
    assert settled["status"]["path"] == f"realm:{namespace}/formation:team"
    assert settled["metadata"]["finalizers"] == ["kais.io/finalizer"]
    control_plane.kubectl("delete", "ksc", "memory", "-n", namespace, "--wait=false")
    observation = await knowledge_scope.CONTROLLER.observe(world, ref)
    assert observation is not None
    plan = knowledge_scope.CONTROLLER.decide(observation.observed, world.clock.now())
    await reconciles.executor.execute(plan, world)
    assert await world.cluster.get(ref) is None
