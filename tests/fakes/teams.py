"""Builders of Formations, Cells and Missions, and what the cluster does to a Mission's Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kais import names
from kais.resources.field_types import rfc3339
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.mission.observe import mission
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes.world import FakeWorld, fake_world

FORMATION = ObjectRef("Formation", "demo", "team")
MISSION = ObjectRef("Mission", "demo", "doctor")
CELL = ObjectRef("Cell", "demo", "team-lead-0")
MISSING_IMAGE = "ImagePullBackOff"


def thing(kind: str, name: str, *, spec: Body, **metadata: Any) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "demo", **metadata},
        "spec": spec,
    }


def task(**changes: Any) -> Body:
    """The spec of a task cell."""
    return {"mode": "Task", "container": {"image": "worker:1"}, **changes}


def team(name: str = "team", *, cells: list[Body] | None = None, **spec: Any) -> Body:
    """A Formation of one task cell `lead`."""
    metadata = spec.pop("metadata", {})
    return thing(
        "Formation",
        name,
        spec={"cells": cells or [{"name": "lead", "spec": task()}], **spec},
        **metadata,
    )


def lone_cell(name: str = "solo", **spec: Any) -> Body:
    return thing("Cell", name, spec=task(**spec))


def work(name: str = "doctor", **changes: Any) -> Body:
    """A Mission for the Formation `team`."""
    metadata = changes.pop("metadata", {})
    spec = {"formationRef": "team", "objective": "explain the failing pods", **changes}
    return thing(
        "Mission",
        name,
        spec={key: value for key, value in spec.items() if value is not None},
        **metadata,
    )


def scope(name: str = "memory", **spec: Any) -> Body:
    return thing("KnowledgeScope", name, spec={"level": "formation", "formation": "team", **spec})


async def settle_team(fake: FakeWorld, ref: ObjectRef = FORMATION) -> None:
    """Make the passes after which a formation and its cells are as they will be."""
    await fake.settle(formation.CONTROLLER, ref)
    for name in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, name)
    await fake.settle(formation.CONTROLLER, ref)


async def ready_world(*bodies: Body) -> FakeWorld:
    """A world with a ready team, and `bodies` (one mission unless given)."""
    fake = fake_world(team(), *(bodies or (work(),)))
    await settle_team(fake)
    return fake


async def pass_(fake: FakeWorld, ref: ObjectRef = MISSION) -> Any:
    return await fake.step(mission.CONTROLLER, ref)


async def settle(fake: FakeWorld, ref: ObjectRef = MISSION) -> Any:
    return await fake.settle(mission.CONTROLLER, ref)


async def started(*bodies: Body) -> FakeWorld:
    """A world whose mission has its first Job and its knowledge, and nothing more."""
    fake = await ready_world(*bodies)
    await settle(fake)
    return fake


def job_ref(attempt: int = 1, name: str = "doctor") -> ObjectRef:
    return ObjectRef("Job", "demo", names.job_name(name, attempt))


def stamp(fake: FakeWorld) -> str:
    return fake.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(fake: FakeWorld, attempt: int = 1, *, status: Body, **metadata: Any) -> ObjectRef:
    """Make or change the pod of an attempt, as kubelet and Job controller do."""
    job = fake.cluster.read(job_ref(attempt))
    template = job["spec"]["template"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    body: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job['metadata']['name']}-xyz12",
            "namespace": "demo",
            "labels": {
                **template["metadata"]["labels"],
                "batch.kubernetes.io/job-name": job["metadata"]["name"],
            },
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    }
    fake.cluster.put(body)
    return ObjectRef("Pod", "demo", body["metadata"]["name"])


def gated_pod(fake: FakeWorld, uid: str, attempt: int = 1) -> ObjectRef:
    """Make a pod from the template of its Job, as the Job controller does: nothing schedules it."""
    template = fake.cluster.read(job_ref(attempt))["spec"]["template"]
    ref = pod(
        fake,
        attempt,
        status={"phase": "Pending"},
        name=f"pod-{uid}",
        uid=uid,
        creationTimestamp=stamp(fake),
        annotations=template["metadata"].get("annotations") or {},
    )
    gates = template["spec"].get("schedulingGates") or []
    fake.cluster.edit(ref, {"spec": {"nodeName": None, "schedulingGates": gates}})
    return ref


def terminate(fake: FakeWorld, pod: ObjectRef) -> None:
    """Delete a pod as the garbage collector does: it has 30 s to end."""
    fake.cluster.edit(pod, {"metadata": {"finalizers": ["kubelet"]}})
    fake.cluster.remove(pod)
    ends_at = rfc3339(fake.clock.now() + timedelta(seconds=30))
    fake.cluster.edit(pod, {"metadata": {"deletionTimestamp": ends_at}})


def delete_job(fake: FakeWorld, pod: ObjectRef, attempt: int = 1) -> None:
    """Do what a person and the garbage collector do to the Job of an attempt and its pod."""
    fake.cluster.remove(job_ref(attempt))
    terminate(fake, pod)


def orphan(fake: FakeWorld, pod: ObjectRef, attempt: int = 1) -> None:
    """Do what `kubectl delete job --cascade=orphan` does: the pod stays, and has no owner."""
    fake.cluster.remove(job_ref(attempt))
    fake.cluster.edit(pod, {"metadata": {"ownerReferences": None}})


def container(state: Body) -> Body:
    return {"containerStatuses": [{"name": "task", "state": state}]}


def waiting(reason: str, message: str) -> Body:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", **container(state)}


def running() -> Body:
    return {"phase": "Running", **container({"running": {"startedAt": "2026-03-01T12:00:00Z"}})}


def end_job(fake: FakeWorld, attempt: int = 1, *, condition: str, reason: str = "") -> None:
    """End a Job as its controller does."""
    reported_condition = {"type": condition, "status": "True", "reason": reason}
    at = stamp(fake)
    status: Body = {
        "startTime": at,
        "conditions": [{**reported_condition, "lastTransitionTime": at}],
    }
    if condition == "Complete":
        status["completionTime"] = at
    fake.cluster.set_status(job_ref(attempt), status)


def succeed(fake: FakeWorld, message: str = "two pods explained", attempt: int = 1) -> None:
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "message": message}}
    pod(fake, attempt, status={"phase": "Succeeded", **container(state)})
    end_job(fake, attempt, condition="Complete")


def fail(
    fake: FakeWorld, message: str = "no such pod", attempt: int = 1, *, code: int = 1, **why: Any
) -> None:
    state = {"terminated": {"exitCode": code, "reason": "Error", "message": message, **why}}
    pod(fake, attempt, status={"phase": "Failed", **container(state)})
    end_job(fake, attempt, condition="Failed", reason="BackoffLimitExceeded")


def condition(fake: FakeWorld, type_: str, ref: ObjectRef = MISSION) -> tuple[str, str, str]:
    """What an object says of one condition: status, reason, message."""
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    result = next(c for c in conditions if c["type"] == type_)
    return result["status"], result["reason"], result["message"]


def status(fake: FakeWorld, ref: ObjectRef = MISSION) -> Body:
    return dict(fake.cluster.read(ref)["status"])


def checked_pod(
    fake: FakeWorld,
    attempt: int = 1,
    *,
    message: str = "done",
    code: int = 0,
    checks: Mapping[int, Body] | None = None,
    phase: str = "Running",
) -> ObjectRef:
    """Make the pod of an attempt whose work has ended, with its checks in these states."""
    at = stamp(fake)
    result = {"exitCode": code, "reason": "Completed", "message": message, "finishedAt": at}
    messages = [
        {"name": f"check-{location}", "state": state} for location, state in (checks or {}).items()
    ]
    status: Body = {
        "phase": phase,
        "initContainerStatuses": [{"name": "task", "state": {"terminated": result}}],
        "containerStatuses": messages,
    }
    return pod(fake, attempt, status=status)


def check_ended(
    fake: FakeWorld, code: int = 0, *, message: str = "", took_s: float = 0, reason: str = ""
) -> Body:
    """The state of a check's container that ended now, after so many seconds."""
    ended = fake.clock.now()
    started_at = ended - timedelta(seconds=took_s)
    form = "%Y-%m-%dT%H:%M:%SZ"
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "message": message,
            "startedAt": started_at.strftime(form),
            "finishedAt": ended.strftime(form),
        }
    }


def check_running(fake: FakeWorld) -> Body:
    return {"running": {"startedAt": stamp(fake)}}


def finalizers(fake: FakeWorld) -> list[str]:
    return list(fake.cluster.read(MISSION)["metadata"].get("finalizers") or [])


async def ended(*bodies: Body, message: str = "two pods explained") -> FakeWorld:
    fake = await started(*bodies)
    fake.clock.advance(20)
    succeed(fake, message)
    await settle(fake)
    return fake


async def passes(fake: FakeWorld, count: int = 4) -> None:
    """Make some passes; with a store that is away a key never settles."""
    for _ in range(count):
        await pass_(fake)
