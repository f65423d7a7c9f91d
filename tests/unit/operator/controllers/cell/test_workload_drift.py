"""Additions to a Deployment or Service of a cell are removed, or reported as contested."""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kais_operator.controllers.cell.decide import workload_drift
from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body
from tests.fakes.services import DEPLOYMENT, SERVICE, SOLO, serving, template
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld

RESTARTED = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2029-12-31"}}}
SIDECAR = {"name": "proxy", "image": "proxy:1"}
SIDECAR_PATH = "spec.template.spec.containers[proxy]"
MOUNT = {"name": "host", "mountPath": "/host"}
POD: dict[str, tuple[Body, str]] = {
    "the host's network": ({"hostNetwork": True}, "spec.template.spec.hostNetwork"),
    "the host's processes": ({"hostPID": True}, "spec.template.spec.hostPID"),
    "an init container": (
        {"initContainers": [SIDECAR]},
        "spec.template.spec.initContainers[proxy]",
    ),
    "a place to run": ({"nodeName": "node-1"}, "spec.template.spec.nodeName"),
}
LISTS: dict[str, tuple[str, Body, str]] = {
    "a folder of the host": (
        "volumes",
        {"name": "host", "hostPath": {"path": "/"}},
        "spec.template.spec.volumes[host]",
    ),
    "a privileged sidecar": (
        "containers",
        {**SIDECAR, "securityContext": {"privileged": True}},
        "spec.template.spec.containers[proxy]",
    ),
}
CONTAINER: dict[str, tuple[str, Any, str]] = {
    "a preloaded library": (
        "env",
        {"name": "LD_PRELOAD", "value": "/evil.so"},
        "spec.template.spec.containers[cell].env[LD_PRELOAD]",
    ),
    "a mount": ("volumeMounts", MOUNT, "spec.template.spec.containers[cell].volumeMounts[/host]"),
}


def pod_of(fake: FakeWorld) -> Body:
    return copy.deepcopy(fake.cluster.read(DEPLOYMENT)["spec"]["template"]["spec"])


def edit_pod(fake: FakeWorld, pod: Body) -> None:
    fake.cluster.edit(DEPLOYMENT, {"spec": {"template": {"spec": pod}}})


def events(fake: FakeWorld) -> list[str]:
    return [e["message"] for e in fake.cluster.events if e["reason"] == "AdditionRemoved"]


async def look(fake: FakeWorld) -> None:
    await fake.settle(cell.CONTROLLER, SOLO)


async def assert_removed(fake: FakeWorld, initial_state: Body, path: str) -> None:
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"] == initial_state["spec"]
    assert events(fake) == [
        f"Deployment/demo/solo had {path}, which the Cell does not declare; removed"
    ]


@pytest.mark.parametrize(("patch", "path"), POD.values(), ids=POD)
async def test_what_is_added_to_the_pod_of_a_deployment_is_taken_away(
    patch: Body, path: str
) -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT))
    edit_pod(fake, patch)
    await assert_removed(fake, initial_state, path)


@pytest.mark.parametrize(("field", "item", "path"), LISTS.values(), ids=LISTS)
async def test_what_is_added_to_a_list_of_the_pod_is_taken_away(
    field: str, item: Body, path: str
) -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT))
    edit_pod(fake, {field: [*pod_of(fake)[field], item]})
    await assert_removed(fake, initial_state, path)


@pytest.mark.parametrize(("field", "item", "path"), CONTAINER.values(), ids=CONTAINER)
async def test_what_is_added_to_the_container_is_taken_away(
    field: str, item: Any, path: str
) -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT))
    pod = pod_of(fake)
    pod["containers"][0][field].append(item)
    edit_pod(fake, pod)
    await assert_removed(fake, initial_state, path)


async def test_privileges_added_to_the_container_are_taken_away() -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT))
    pod = pod_of(fake)
    pod["containers"][0]["securityContext"]["privileged"] = True
    edit_pod(fake, pod)
    await assert_removed(
        fake, initial_state, "spec.template.spec.containers[cell].securityContext.privileged"
    )


async def test_a_service_turned_load_balancer_is_a_cluster_service_again() -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(SERVICE)["spec"])
    fake.cluster.edit(
        SERVICE, {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"}}
    )
    await look(fake)
    assert fake.cluster.read(SERVICE)["spec"] == initial_state
    (message,) = events(fake)
    assert "spec.type, spec.externalTrafficPolicy" in message


async def test_what_the_api_server_fills_in_is_no_addition() -> None:
    fake = await serving()
    pod = pod_of(fake)
    pod |= {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "serviceAccount": pod["serviceAccountName"],
    }
    pod["containers"][0] |= {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
    }
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        pod["containers"][0][probe] = {
            "timeoutSeconds": 1,
            "successThreshold": 1,
            "failureThreshold": 3,
            **pod["containers"][0][probe],
        }
    edit_pod(fake, pod)
    fake.cluster.edit(DEPLOYMENT, {"spec": {"progressDeadlineSeconds": 600}})
    filled = {
        "type": "ClusterIP",
        "clusterIP": "10.0.0.7",
        "clusterIPs": ["10.0.0.7"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
    }
    fake.cluster.edit(SERVICE, {"spec": filled})
    initial_writes = list(fake.cluster.writes)
    await look(fake)
    assert {verb for verb, _ in fake.cluster.writes[len(initial_writes) :]} <= {"status", "emit"}
    assert events(fake) == []


async def test_a_restart_that_kubectl_asked_for_stays() -> None:
    fake = await serving()
    fake.cluster.edit(DEPLOYMENT, {"spec": {"template": RESTARTED}})
    await look(fake)
    assert template(fake)["metadata"]["annotations"] == RESTARTED["metadata"]["annotations"]
    assert events(fake) == []


async def test_what_the_installation_allows_stays_and_is_named() -> None:
    fake = await serving()
    allowed = ("spec.template.spec.containers[pro*]",)
    fake.world = replace(
        fake.world, placement=replace(fake.world.placement, allowed_additions=allowed)
    )
    edit_pod(fake, {"containers": [*pod_of(fake)["containers"], SIDECAR], "hostNetwork": True})
    await look(fake)
    assert [c["name"] for c in pod_of(fake)["containers"]] == ["cell", "proxy"]
    assert "hostNetwork" not in pod_of(fake)
    status, _, message = condition(fake, "Applied", SOLO)
    assert status == "True"
    assert f"solo (with {SIDECAR_PATH}, which the installation allows) are there" in message


async def test_after_three_removals_in_a_row_it_backs_off_and_says_who_contests() -> None:
    fake = await serving()
    for _ in range(workload_drift.REMOVALS_BEFORE_PAUSE):
        edit_pod(fake, {"hostNetwork": True})
        await look(fake)
        assert "hostNetwork" not in pod_of(fake)
        fake.clock.advance(10)
    edit_pod(fake, {"hostNetwork": True})
    plan = await fake.settle(cell.CONTROLLER, SOLO)
    assert pod_of(fake)["hostNetwork"] is True
    status, reason, message = condition(fake, "Applied", SOLO)
    assert (status, reason) == ("False", "DriftContested")
    assert (
        "Deployment/demo/solo got spec.template.spec.hostNetwork again after each of 3 "
        "removals; the next one is at" in message
    )
    assert "operator.allowedAdditions" in message
    assert plan is not None
    assert plan.requeue_after == workload_drift.FIRST_PAUSE - timedelta(seconds=10)


async def test_a_contested_addition_is_tried_again_later_each_time_and_mended_when_it_ends() -> (
    None
):
    fake = await serving()
    pauses = []
    for _ in range(workload_drift.REMOVALS_BEFORE_PAUSE + 5):
        edit_pod(fake, {"hostNetwork": True})
        plan = await fake.settle(cell.CONTROLLER, SOLO)
        if pod_of(fake).get("hostNetwork") and plan is not None and plan.requeue_after:
            pauses.append(plan.requeue_after)
            fake.clock.advance(plan.requeue_after.total_seconds())
            await look(fake)
    assert [pause / timedelta(minutes=1) for pause in pauses] == [5, 10, 20, 40, 60]
    assert "hostNetwork" not in pod_of(fake)
    await look(fake)
    assert condition(fake, "Applied", SOLO)[0] == "True"


async def test_removals_that_lie_hours_apart_are_no_row() -> None:
    fake = await serving()
    for _ in range(workload_drift.REMOVALS_BEFORE_PAUSE + 2):
        edit_pod(fake, {"hostNetwork": True})
        await look(fake)
        assert "hostNetwork" not in pod_of(fake)
        fake.clock.advance(workload_drift.STREAK_EXPIRES_AFTER.total_seconds())


async def test_a_template_of_an_older_operator_that_was_given_power_is_rendered_anew() -> None:
    fake = await serving()
    moved = replace(fake.world.placement, knowledge_url="http://elsewhere:1")
    fake.world = replace(fake.world, placement=moved)
    edit_pod(fake, {"hostNetwork": True})
    await look(fake)
    assert "hostNetwork" not in pod_of(fake)


async def test_a_note_of_removals_that_somebody_edited_counts_as_none() -> None:
    fake = await serving()
    note = {"metadata": {"annotations": {"kais.io/removed-additions": "9 whenever"}}}
    fake.cluster.edit(DEPLOYMENT, note)
    edit_pod(fake, {"hostNetwork": True})
    await look(fake)
    assert "hostNetwork" not in pod_of(fake)
