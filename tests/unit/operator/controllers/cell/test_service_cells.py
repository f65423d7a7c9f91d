"""Service cells: their Deployment and Service, and when they are ready."""

from datetime import timedelta
from typing import Any

import pytest

from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.services import DEPLOYMENT, SERVICE, SOLO, lone_service, serving, settled, template
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world

LABELS = {
    "app.kubernetes.io/managed-by": "kais",
    "kais.io/cell": "solo",
    "kais.io/role": "cell",
    "kais.io/cell-mode": "Service",
}


async def look(fake: FakeWorld) -> None:
    await fake.settle(cell.CONTROLLER, SOLO)


async def test_a_service_cell_is_a_deployment_of_one_pod_and_a_service() -> None:
    fake = await settled(lone_service())
    manifest = fake.cluster.read(DEPLOYMENT)
    assert manifest["spec"]["replicas"] == 1
    assert manifest["spec"]["strategy"] == {"type": "Recreate"}
    selector = {"kais.io/cell": "solo", "kais.io/cell-mode": "Service"}
    assert manifest["spec"]["selector"] == {"matchLabels": selector}
    assert manifest["spec"]["template"]["metadata"]["labels"] == LABELS
    service = fake.cluster.read(SERVICE)["spec"]
    assert service["selector"] == selector
    assert service["ports"] == [
        {"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}
    ]
    assert condition(fake, "Applied", SOLO) == (
        "True",
        "Applied",
        "ServiceAccount demo/solo, Deployment and Service solo are there",
    )


async def test_the_pod_of_a_service_is_what_the_pod_of_a_task_is() -> None:
    spec = template(await settled(lone_service()))["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsUser"] == 65532
    assert {t["tolerationSeconds"] for t in spec["tolerations"]} == {30}
    (container,) = spec["containers"]
    assert container["name"] == "cell"
    fields = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert "KAIS_OBJECTIVE" not in fields
    assert fields["KNOWLEDGE_SCOPE"] == fields["KNOWLEDGE_GRAPH_ID"] == "realm:demo/cell:solo"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {
        "/var/run/secrets/kais",
        "/tmp",  # noqa: S108
        "/workspace/shared",
        "/workspace/private/solo",
    }


@pytest.mark.parametrize("name", ["PASSWORD", "SECRET", "POSTGRES", "DATABASE", "KEY"])
async def test_no_pod_has_a_password_in_its_environment(name: str) -> None:
    (container,) = template(await settled(lone_service()))["spec"]["containers"]
    assert [e["name"] for e in container["env"] if name in e["name"]] == []
    assert [e for e in container["env"] if "valueFrom" in e] == []


async def test_probes_ask_whether_the_first_port_takes_connections() -> None:
    ports = [{"containerPort": 8080}, {"containerPort": 9090}]
    container = {"image": "w:1", "ports": ports}
    rendered_container = template(await settled(lone_service(container=container)))["spec"][
        "containers"
    ][0]
    assert rendered_container["ports"] == [
        {"containerPort": 8080, "name": "http"},
        {"containerPort": 9090, "name": "port-9090"},
    ]
    probes = {
        name: rendered_container[name]["tcpSocket"]
        for name in rendered_container
        if name.endswith("Probe")
    }
    assert probes == {
        name: {"port": 8080} for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }


async def test_without_ports_there_are_no_probes_and_dns_still_finds_the_pod() -> None:
    fake = await settled(lone_service(container={"image": "w:1"}))
    container = template(fake)["spec"]["containers"][0]
    assert [key for key in container if key.endswith("Probe")] == []
    service = fake.cluster.read(SERVICE)["spec"]
    assert service["clusterIP"] == "None"
    assert "ports" not in service


async def test_a_first_port_makes_the_service_anew() -> None:
    fake = await settled(lone_service(container={"image": "w:1"}))
    initial_uid = fake.cluster.read(SERVICE)["metadata"]["uid"]
    ports = [{"containerPort": 80}]
    fake.cluster.edit(SOLO, {"spec": {"container": {"image": "w:1", "ports": ports}}})
    await look(fake)
    final_state = fake.cluster.read(SERVICE)
    assert final_state["metadata"]["uid"] != initial_uid
    assert "clusterIP" not in final_state["spec"]


async def test_a_service_cell_is_ready_when_its_pod_is() -> None:
    fake = await settled(lone_service())
    starting = ("False", "WaitingForPods", "the pod is being started")
    assert condition(fake, "PodReady", SOLO) == starting
    assert condition(fake, "Ready", SOLO)[:2] == ("False", "WaitingForPods")
    pod = services.pod(fake, status=services.ready())
    await look(fake)
    message = f"Pod/demo/{pod.name} is ready"
    assert condition(fake, "PodReady", SOLO) == ("True", "PodRunning", message)
    assert condition(fake, "Ready", SOLO) == ("True", "Ready", message)
    status = teams.status(fake, SOLO)
    assert (status["phase"], status["podName"]) == ("Running", pod.name)
    assert status["display"] == {"status": "Running"}


TROUBLES: dict[str, tuple[Body, tuple[str, str]]] = {
    "an image that is not there": (
        services.waiting("ImagePullBackOff", 'Back-off pulling image "nowhere:1"'),
        (
            "ImagePullFailed",
            (
                '{}: ImagePullBackOff: Back-off pulling image "nowhere:1"; push the image to a'
                " registry that the nodes read, or `kais cluster load` it"
            ),
        ),
    ),
    "a container that ends again and again": (
        services.waiting(
            "CrashLoopBackOff",
            "back-off 20s restarting failed container",
            last={"exitCode": 3, "reason": "Error", "message": "no model\n"},
        ),
        (
            "PodFailed",
            (
                "{}: CrashLoopBackOff: back-off 20s restarting failed container; "
                "it ended with exit code 3: no model"
            ),
        ),
    ),
    "a container that has just ended": (
        services.unready({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
        ("PodFailed", "{}; it ended with exit code 137 (OOMKilled)"),
    ),
    "a container that takes no connections": (
        services.unready({"running": {}}, message="containers with unready status: [cell]"),
        (
            "WaitingForPods",
            "{} is running but not ready: containers with unready status: [cell]",
        ),
    ),
    "a container that is being made": (
        services.waiting("ContainerCreating", ""),
        ("WaitingForPods", "the pod is being started"),
    ),
    "a pod that no node takes": (
        {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                }
            ],
        },
        ("Unschedulable", "{}: 0/1 nodes are available: 1 Insufficient cpu."),
    ),
}


@pytest.mark.parametrize(("status", "expected"), TROUBLES.values(), ids=TROUBLES)
async def test_pod_ready_goes_and_comes_back_with(status: Body, expected: tuple[str, str]) -> None:
    fake = await serving()
    assert condition(fake, "PodReady", SOLO)[0] == condition(fake, "Ready", SOLO)[0] == "True"
    (first,) = fake.cluster.refs("Pod")
    fake.cluster.set_status(first, status)
    await look(fake)
    text = expected[1].format(f"Pod/demo/{first.name}")
    assert condition(fake, "PodReady", SOLO) == ("False", expected[0], text)
    assert condition(fake, "Ready", SOLO) == ("False", expected[0], f"PodReady: {text}")
    fake.cluster.set_status(first, services.ready())
    await look(fake)
    assert condition(fake, "PodReady", SOLO)[0] == condition(fake, "Ready", SOLO)[0] == "True"


async def test_trouble_is_a_warning_and_its_end_is_told() -> None:
    fake = await serving()
    (first,) = fake.cluster.refs("Pod")
    fake.cluster.set_status(first, services.waiting("ErrImagePull", "not found"))
    await look(fake)
    fake.cluster.set_status(first, services.ready())
    await look(fake)
    messages = [(e["type"], e["reason"]) for e in fake.cluster.events]
    assert messages == [("Normal", "Ready"), ("Warning", "ImagePullFailed"), ("Normal", "Ready")]


async def test_a_quota_that_keeps_the_pod_away_is_told_in_its_words() -> None:
    fake = await settled(lone_service())
    message = 'pods "solo-5d4f-x" is forbidden: exceeded quota: none'
    refusal = {"type": "ReplicaFailure", "status": "True", "message": message}
    services.rolled_out(fake, updatedReplicas=0, conditions=[refusal])
    await look(fake)
    assert condition(fake, "PodReady", SOLO) == ("False", "PodNotCreated", message)


async def test_the_pod_of_the_template_before_makes_no_cell_ready() -> None:
    fake = await serving()
    fake.cluster.edit(SOLO, {"spec": {"container": {"image": "worker:2"}}})
    await look(fake)
    assert condition(fake, "PodReady", SOLO)[:2] == ("False", "WaitingForPods")
    for ref in fake.cluster.refs("Pod"):
        fake.cluster.remove(ref)
    services.pod(fake, status=services.ready())
    await look(fake)
    assert condition(fake, "PodReady", SOLO)[:2] == ("True", "PodRunning")


async def test_the_store_knows_the_account_before_there_is_a_pod() -> None:
    fake = fake_world(lone_service())
    first = await fake.step(cell.CONTROLLER, SOLO)
    assert first is not None
    assert [type(a).__name__ for a in first.actions] == ["Create"]
    second = await fake.step(cell.CONTROLLER, SOLO)
    assert second is not None
    names = [type(a).__name__ for a in second.actions]
    assert names == ["RegisterPrincipal", "Create", "Create"]


async def test_a_store_that_is_away_delays_no_pod() -> None:
    fake = fake_world(lone_service())
    fake.knowledge.away = True
    for _ in range(3):
        await fake.step(cell.CONTROLLER, SOLO)
    assert fake.cluster.refs("Deployment") == [DEPLOYMENT]
    assert condition(fake, "Registered", SOLO)[:2] == ("False", "StoreUnavailable")
    fake.knowledge.away = False
    await look(fake)
    assert condition(fake, "Registered", SOLO)[:2] == ("True", "Registered")


async def test_an_evicted_pod_is_replaced_and_not_spoken_of() -> None:
    fake = await serving()
    (first,) = fake.cluster.refs("Pod")
    fake.cluster.set_status(first, {"phase": "Failed", "reason": "Evicted"})
    await look(fake)
    assert condition(fake, "PodReady", SOLO)[:2] == ("False", "WaitingForPods")
    second = services.pod(fake, status=services.ready())
    await look(fake)
    assert condition(fake, "PodReady", SOLO)[2] == f"Pod/demo/{second.name} is ready"


async def test_a_pod_that_stays_on_a_lost_node_is_named_and_left_there() -> None:
    fake = await serving()
    (first,) = fake.cluster.refs("Pod")
    fake.cluster.edit(first, {"metadata": {"finalizers": ["x/y"]}})
    fake.cluster.remove(first)
    plan = await fake.settle(cell.CONTROLLER, SOLO)
    assert plan is not None
    assert plan.requeue_after == timedelta(seconds=60)
    assert condition(fake, "PodReady", SOLO)[1] == "WaitingForPods"
    fake.clock.advance(60)
    await look(fake)
    lost = f"Pod/demo/{first.name} stays terminating on node-1, which does not answer"
    assert condition(fake, "PodReady", SOLO) == ("False", "PodStuckTerminating", lost)
    second = services.pod(fake, status=services.ready())
    await look(fake)
    message = f"Pod/demo/{second.name} is ready; {lost}"
    assert condition(fake, "Ready", SOLO) == ("True", "Ready", message)
    assert ("delete", first) not in fake.cluster.writes
    fake.cluster.vanish(first)
    await look(fake)
    assert condition(fake, "Ready", SOLO)[2] == f"Pod/demo/{second.name} is ready"


def account(**annotations: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "reader", "namespace": "demo", "annotations": annotations},
    }


async def test_a_service_under_an_account_without_leave_gets_no_pod() -> None:
    fake = await settled(lone_service(serviceAccountName="reader"), account())
    assert fake.cluster.refs("Deployment") == []
    assert condition(fake, "Applied", SOLO)[:2] == ("False", "AccountNotAllowed")


async def test_a_leave_that_is_taken_back_ends_the_pod_and_given_again_starts_it() -> None:
    allowed = account(**{"kais.io/allow-cells": "true"})
    fake = await serving(lone_service(serviceAccountName="reader"), allowed)
    initial_template = template(fake)
    ref = ObjectRef("ServiceAccount", "demo", "reader")
    fake.cluster.edit(ref, {"metadata": {"annotations": {"kais.io/allow-cells": "no"}}})
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"]["replicas"] == 0
    assert condition(fake, "Ready", SOLO)[:2] == ("False", "AccountNotAllowed")
    fake.cluster.edit(ref, {"metadata": {"annotations": {"kais.io/allow-cells": "true"}}})
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"]["replicas"] == 1
    assert template(fake) == initial_template


async def test_a_cell_that_is_scaled_down_rests_and_wakes_with_the_same_template() -> None:
    fake = await serving()
    initial_template = template(fake)
    resting: dict[str, Any] = {"metadata": {"annotations": {"kais.io/scaled-down": "true"}}}
    fake.cluster.edit(SOLO, resting)
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"]["replicas"] == 0
    assert condition(fake, "Ready", SOLO) == ("True", "ScaledDown", "no pod is needed now")
    status = teams.status(fake, SOLO)
    assert (status["phase"], status["display"]["status"]) == ("Completed", "ScaledDown")
    fake.cluster.edit(SOLO, {"metadata": {"annotations": {"kais.io/scaled-down": None}}})
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"]["replicas"] == 1
    assert template(fake) == initial_template


NAMES = {
    "a name of a formation's cell": ("team-lead-0", "team-lead-0"),
    "a name that begins with a digit": ("0team-lead-0", "c-0team-lead-0"),
    "a name with dots": ("a.b", "a-b-2e7336dc"),
    "a long name": ("a" * 250, f"{'a' * 54}-3f3e35e0"),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.values(), ids=NAMES)
async def test_the_service_has_a_name_that_dns_takes_for(name: str, expected: str) -> None:
    fake = await settled(lone_service(name), ref=ObjectRef("Cell", "demo", name))
    (reference,) = fake.cluster.refs("Service")
    (deployment,) = fake.cluster.refs("Deployment")
    assert reference.name == expected
    assert deployment.name == (name if len(name) <= 63 else expected)
