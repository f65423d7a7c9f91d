"""Records the frozen cluster: the objects of a busy namespace as the operator left them.

    python -m tests.cluster.record_api_server

writes `data/objects.json.xz`. The file there comes from commit 573ae85 and stays as it is: it
stands for what an earlier version left in a user's cluster. Its objects were made on a real API
server with its Job and Deployment controllers; what a kubelet says of pods is said here.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kais import labels, names
from kais_operator import errors
from kais_operator.apply import executor
from kais_operator.clock import SystemClock
from kais_operator.controllers.base import Controller
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.mission.observe import mission
from kais_operator.knowledge.client import MonitoredKnowledge
from kais_operator.manager import lease_lock
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World
from tests.cluster import reconciles
from tests.cluster.conftest import ControlPlane, started_control_plane
from tests.fakes import blueprints, busy_namespace
from tests.fakes.containers import FakeContainers
from tests.fakes.knowledge import FakeKnowledge, recalled_fact

DATA = Path(__file__).with_name("data") / "objects.json.xz"
NAMESPACE = "demo"
KINDS = (
    "blueprints", "blueprintrevisions", "blueprintinstances", "formations", "cells", "missions",
    "knowledgescopes", "jobs", "pods", "deployments", "replicasets", "services", "configmaps",
    "serviceaccounts", "persistentvolumeclaims", "networkpolicies", "leases",
)  # fmt: skip
RECONCILERS: tuple[Controller, ...] = (
    blueprint.CONTROLLER,
    blueprint_revision.CONTROLLER,
    blueprint_instance.CONTROLLER,
    knowledge_scope.CONTROLLER,
    formation.CONTROLLER,
    cell.CONTROLLER,
    mission.CONTROLLER,
)


class Recording:
    """One control plane, the operator's passes over it, and the kubelet's words."""

    def __init__(self, plane: ControlPlane, world: World, knowledge: FakeKnowledge) -> None:
        self.plane = plane
        self.world = world
        self.knowledge = knowledge

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.plane.kubectl("-n", NAMESPACE, *arguments, stdin=stdin)

    def apply(self, *bodies: Body) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))

    def annotate(self, name: str, annotation: str, value: str) -> None:
        self.kubectl("annotate", "missions.kais.io", name, f"{annotation}={value}")

    async def settle(self, *, besides: tuple[str, ...] = ()) -> None:
        """Make passes over everything until one writes nothing."""
        for _ in range(30):
            initial_versions = await self._versions()
            for reconciler in RECONCILERS:
                for body in await self.world.cluster.list(reconciler.kind, NAMESPACE):
                    if body["metadata"]["name"] not in besides:
                        await self._pass(reconciler, body)
            if await self._versions() == initial_versions:
                return
        raise AssertionError("the namespace does not settle")

    async def _pass(self, reconciler: Controller, body: Body) -> None:
        ref = ObjectRef(reconciler.kind, NAMESPACE, body["metadata"]["name"])
        observation = await reconciler.observe(self.world, ref)
        if observation is None:
            return
        plan = reconciler.decide(observation.observed, self.world.clock.now())
        try:
            await executor.execute(plan, self.world)
            if observation.body is not None:
                await reconciles.status.write(self.world.cluster, observation.body, plan.status)
                await executor.emit_events(plan, observation.body, self.world)
        except errors.Conflict:
            return  # the next pass sees what changed meanwhile

    async def _versions(self) -> list[str]:
        results = []
        for kind in (
            *(controller.kind for controller in RECONCILERS),
            "Job",
            "Deployment",
            "ConfigMap",
        ):
            for body in await self.world.cluster.list(kind, NAMESPACE):
                results += [f"{kind} {body['metadata']['name']} {_content(body)}"]
        return results

    async def until(self, read: Callable[[], Awaitable[Any]], subject: str) -> Any:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            result = await read()
            if result:
                return result
            await asyncio.sleep(0.3)
        raise AssertionError(f"not within 120 s: {subject}")

    async def pod(self, selector: str) -> Body:
        async def look() -> Any:
            return await self.world.cluster.list("Pod", NAMESPACE, labels=selector)

        return dict((await self.until(look, f"a pod of {selector}"))[0])

    async def tell(self, selector: str, status: Body) -> None:
        pod = await self.pod(selector)
        patch = json.dumps({"status": status})
        name = pod["metadata"]["name"]
        self.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)

    async def run(self, job: str) -> None:
        """Have the pod of an attempt run."""
        state = {"running": {"startedAt": stamp()}}
        await self.tell(f"job-name={job}", {"phase": "Running", **container("task", state)})

    async def end(self, job: str, code: int, message: str) -> None:
        """Have the pod of an attempt end, and wait until its Job has."""
        at = stamp()
        ended = {"exitCode": code, "message": message, "startedAt": at, "finishedAt": at}
        phase = "Failed" if code else "Succeeded"
        status = {"phase": phase, "startTime": at, **container("task", {"terminated": ended})}
        await self.tell(f"job-name={job}", status)

        async def look() -> bool:
            body = await self.world.cluster.get(ObjectRef("Job", NAMESPACE, job))
            conditions = ((body or {}).get("status") or {}).get("conditions") or ()
            return any(c["type"] in ("Complete", "Failed") for c in conditions)

        await self.until(look, f"{job} ends")

    async def serve(self, name: str) -> None:
        """Have the pod of a service cell ready."""
        reported_conditions = [
            {"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")
        ]
        state = {"running": {"startedAt": stamp()}}
        selector = f"{labels.CELL}={name},{labels.CELL_MODE}=Service"
        status = {"phase": "Running", "conditions": reported_conditions, **container("cell", state)}
        await self.tell(selector, status)


def container(name: str, state: Body) -> Body:
    reported_container = {
        "name": name,
        "image": "worker:1",
        "imageID": "",
        "restartCount": 0,
        "state": state,
    }
    return {"containerStatuses": [{**reported_container, "ready": "running" in state}]}


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _content(body: Body) -> str:
    metadata = {k: v for k, v in body["metadata"].items() if k not in _MOVING}
    return json.dumps({**body, "metadata": metadata}, sort_keys=True)


_MOVING = ("resourceVersion", "managedFields")


async def live(recording: Recording) -> None:
    """Bring every mission to where the file shall have it."""
    recording.apply(*busy_namespace.objects())
    await recording.settle()
    for name in ("solo", "duo"):
        await recording.serve(name)
    await recording.settle()
    job = names.job_name
    for name in ("running", "second-attempt"):
        await recording.run(job(name, 1))
    await recording.end(job("use-ended", 1), 0, "two pods explained")
    await recording.end(job("second-attempt", 1), 1, "no such pod")
    for name in ("succeeded", "again", "reviewed"):
        await recording.end(job(name, 1), 0, "two pods explained")
    await recording.end(job("failed", 1), 1, "no such pod")
    recording.annotate("aborted", labels.ABORT, "true")
    await recording.settle()
    # A second revision of the Blueprint, and a use of it that goes on.
    changed = blueprints.blueprint(mission={"objective": "explain {{ topic }} again",
                                            "entrypoint": {"cell": "worker"}})  # fmt: skip
    recording.apply(changed, blueprints.instance("use-running"))
    recording.annotate("again", labels.RERUN, "once-more")
    await recording.settle()
    await recording.run(job("use-running", 1))
    await recording.run(job("second-attempt", 2))
    await recording.settle()
    containers: Any = recording.world.containers
    key = next(
        item.key
        for item in reversed(containers.started)
        if item.mission.name == "between-rounds" and item.key in containers.known
    )
    containers.known[key] = (replace(containers.known[key][0], ended_at=containers.clock.now(),
                                     exit_code=1, words="2 tests fail"), "")  # fmt: skip
    recording.knowledge.extraction_state = "pending"
    await recording.end(job("extracting", 1), 0, "what is learnt is not extracted yet")
    await recording.settle()
    # The operator stopped before it saw this end.
    await recording.end(job("between-jobs", 1), 1, "no such pod")


def dumped(recording: Recording) -> dict[str, Any]:
    """Give the objects of the namespace, and what the operator told the store of them."""
    get = ("get", ",".join(KINDS), "-o", "json", "--show-managed-fields")
    result = json.loads(recording.kubectl(*get))["items"]
    own_bodies = [body for body in result if body["metadata"]["name"] not in _CLUSTERS]
    realm = recording.knowledge.realms[NAMESPACE]
    return {
        "recorded_at": stamp(),
        "objects": own_bodies,
        "store": {
            "runs": [_json(run) for run in realm.runs.values()],
            "extractions": [_json(extraction) for extraction in realm.extractions.values()],
            "principals": [
                _json(extraction) for extraction in recording.knowledge.principals.values()
            ],
            "scopes": {
                path: _json(extraction) for path, extraction in recording.knowledge.scopes.items()
            },
        },
    }


_CLUSTERS = ("default", "kube-root-ca.crt")


def _json(model: Any) -> Any:
    return model.model_dump(mode="json", exclude_none=True, by_alias=True)


async def record(plane: ControlPlane) -> dict[str, Any]:
    """Have the namespace live, and give what is there then."""
    world, link = await reconciles.connected(plane.kubeconfig)
    clock: Any = SystemClock()
    knowledge = FakeKnowledge(clock=clock)
    knowledge.facts = [recalled_fact("fact-1", "The build needs Java 21.", at=clock.now())]
    noted = MonitoredKnowledge(knowledge, world.sync_state, clock)
    world = replace(world, knowledge=noted, containers=FakeContainers(clock))
    plane.kubectl("create", "namespace", NAMESPACE)
    recording = Recording(plane, world, knowledge)
    try:
        election = lease_lock.LeaseLock(
            link, namespace=NAMESPACE, identity="operator-1_1", clock=clock
        )
        await election.acquire()
        await live(recording)
        return dumped(recording)
    finally:
        await link.close()


def main() -> None:
    """Record into the file."""
    with started_control_plane() as plane:
        result = asyncio.run(record(plane))
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_bytes(lzma.compress(json.dumps(result, indent=1).encode()))


if __name__ == "__main__":
    main()
