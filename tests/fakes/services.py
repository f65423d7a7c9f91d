"""Service cells, and what Deployment controller and kubelet make of them."""

from __future__ import annotations

import itertools
from typing import Any

from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.world import FakeWorld, fake_world

SOLO = ObjectRef("Cell", "demo", "solo")
DEPLOYMENT = ObjectRef("Deployment", "demo", "solo")
SERVICE = ObjectRef("Service", "demo", "solo")
_NUMBERS = itertools.count()


def service(**changes: Any) -> Body:
    """The spec of a service cell that listens on a port."""
    container = {"image": "worker:1", "ports": [{"containerPort": 8080}]}
    return {"mode": "Service", "container": container, **changes}


def lone_service(name: str = "solo", **spec: Any) -> Body:
    return teams.thing("Cell", name, spec=service(**spec))


async def settled(*bodies: Body, ref: ObjectRef = SOLO) -> FakeWorld:
    fake = fake_world(*bodies)
    await fake.settle(cell.CONTROLLER, ref)
    return fake


async def serving(*bodies: Body) -> FakeWorld:
    """A world whose one service cell has a ready pod."""
    fake = await settled(*(bodies or (lone_service(),)))
    pod(fake, status=ready())
    await fake.settle(cell.CONTROLLER, SOLO)
    return fake


def rolled_out(fake: FakeWorld, ref: ObjectRef = DEPLOYMENT, **status: Any) -> None:
    """Let the Deployment controller have seen the template and made its pods."""
    generation = fake.cluster.read(ref)["metadata"]["generation"]
    fields = {"observedGeneration": generation, "updatedReplicas": 1, **status}
    fake.cluster.set_status(ref, fields)


def pod(
    fake: FakeWorld, ref: ObjectRef = DEPLOYMENT, *, status: Body, **metadata: Any
) -> ObjectRef:
    """Make a pod of a Deployment as its template is now, the newest of its pods."""
    rolled_out(fake, ref)
    template = fake.cluster.read(ref)["spec"]["template"]
    name = f"{ref.name}-5d4f-{next(_NUMBERS):05d}"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": ref.namespace,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner(f"{ref.name}-5d4f")],
            **metadata,
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    }
    fake.cluster.put(body)
    return ObjectRef("Pod", ref.namespace, name)


def owner(replica_set: str) -> Body:
    """Give the reference of a pod to the ReplicaSet that made it."""
    made_by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set}
    return {**made_by, "uid": "rs", "controller": True}


def ready() -> Body:
    condition = {"type": "Ready", "status": "True"}
    state = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
    return {
        "phase": "Running",
        "conditions": [condition],
        "containerStatuses": [{"name": "cell", "state": state}],
    }


def unready(state: Body, *, last: Body | None = None, message: str = "") -> Body:
    status: Body = {"name": "cell", "state": state}
    if last is not None:
        status["lastState"] = {"terminated": last}
    condition = {"type": "Ready", "status": "False", "message": message}
    return {"phase": "Pending", "conditions": [condition], "containerStatuses": [status]}


def waiting(reason: str, message: str, **told: Any) -> Body:
    return unready({"waiting": {"reason": reason, "message": message}}, **told)


def template(fake: FakeWorld, ref: ObjectRef = DEPLOYMENT) -> Body:
    return dict(fake.cluster.read(ref)["spec"]["template"])
