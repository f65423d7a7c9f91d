"""Additions that look like a default, like a difference, or like a removal just made."""

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.controllers.cell.decide import workload_drift
from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body
from tests.fakes.services import DEPLOYMENT, SERVICE, SOLO, serving
from tests.fakes.teams import condition
from tests.unit.operator.controllers.cell.test_workload_drift import edit_pod, events, look, pod_of

CONTAINER: dict[str, tuple[str, Any]] = {
    "the user root": ("runAsUser", 0),
    "the group root": ("runAsGroup", 0),
    "leave to run as root": ("runAsNonRoot", False),
}


@pytest.mark.parametrize(("field", "value"), CONTAINER.values(), ids=CONTAINER)
async def test_what_lets_the_container_run_as_root_is_no_default(field: str, value: Any) -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT)["spec"])
    pod = pod_of(fake)
    pod["containers"][0]["securityContext"][field] = value
    edit_pod(fake, pod)
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"] == initial_state
    path = f"spec.template.spec.containers[cell].securityContext.{field}"
    assert events(fake) == [
        f"Deployment/demo/solo had {path}, which the Cell does not declare; removed"
    ]


async def test_a_volume_turned_into_a_folder_of_the_host_is_what_it_was_in_one_write() -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT)["spec"])
    pod = pod_of(fake)
    name = pod["volumes"][0]["name"]
    pod["volumes"][0] = {"name": name, "hostPath": {"path": "/"}}
    edit_pod(fake, pod)
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"] == initial_state
    assert ("apply", DEPLOYMENT) not in fake.cluster.writes, (
        "the API server refuses an apply that leaves a volume of two types"
    )
    (message,) = events(fake)
    assert f"spec.template.spec.volumes[{name}].hostPath" in message


async def test_a_port_added_to_a_service_is_taken_away() -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(SERVICE)["spec"])
    ports = [*initial_state["ports"], {"name": "debug", "port": 9999, "protocol": "TCP"}]
    fake.cluster.edit(SERVICE, {"spec": {"ports": ports}})
    await look(fake)
    assert fake.cluster.read(SERVICE)["spec"] == initial_state
    (message,) = events(fake)
    assert "spec.ports[debug]" in message


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "2030-06-01T00:00:00Z"])
async def test_a_removal_noted_in_the_future_puts_no_other_off(at: str) -> None:
    fake = await serving()
    assert datetime.fromisoformat(at) > fake.clock.now()
    note = {"metadata": {"annotations": {"kais.io/removed-additions": f"9 {at}"}}}
    fake.cluster.edit(DEPLOYMENT, note)
    edit_pod(fake, {"hostNetwork": True})
    await look(fake)
    assert "hostNetwork" not in pod_of(fake)


async def test_while_additions_are_contested_what_the_cell_declares_is_still_mended() -> None:
    fake = await serving()
    image = pod_of(fake)["containers"][0]["image"]
    for _ in range(workload_drift.REMOVALS_BEFORE_PAUSE):
        edit_pod(fake, {"hostNetwork": True})
        await look(fake)
    pod = pod_of(fake)
    pod["containers"][0]["image"] = "evil:1"
    edit_pod(fake, {**pod, "hostNetwork": True})
    await look(fake)
    assert pod_of(fake)["hostNetwork"] is True
    assert pod_of(fake)["containers"][0]["image"] == image
    assert condition(fake, "Applied", SOLO)[1] == "DriftContested"


@pytest.mark.parametrize("harm", ["hostPath", "LD_PRELOAD", "runAsUser"])
async def test_a_template_of_an_older_operator_is_rendered_anew_whatever_power_it_was_given(
    harm: str,
) -> None:
    fake = await serving()
    moved = replace(fake.world.placement, knowledge_url="http://elsewhere:1")
    fake.world = replace(fake.world, placement=moved)
    initial_state, pod = pod_of(fake), pod_of(fake)
    if harm == "hostPath":
        pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    elif harm == "LD_PRELOAD":
        pod["containers"][0]["env"].append({"name": "LD_PRELOAD", "value": "/evil.so"})
    else:
        pod["containers"][0]["securityContext"]["runAsUser"] = 0
    edit_pod(fake, pod)
    await look(fake)
    assert pod_of(fake)["volumes"] == initial_state["volumes"]
    (container,), (old,) = pod_of(fake)["containers"], initial_state["containers"]
    assert container["securityContext"] == old["securityContext"]
    assert [v["name"] for v in container["env"]] == [v["name"] for v in old["env"]]


async def test_a_changed_cell_takes_its_own_variables_away_without_a_word_of_additions() -> None:
    fake = await serving()
    fake.cluster.edit(SOLO, {"spec": {"container": {"env": [{"name": "MODE", "value": "a"}]}}})
    await look(fake)
    assert "MODE" in str(pod_of(fake))
    fake.cluster.edit(SOLO, {"spec": {"container": {"env": []}}})
    await fake.settle(cell.CONTROLLER, SOLO)
    assert "MODE" not in str(pod_of(fake))
    assert events(fake) == []
    assert workload_drift.removal_streak(fake.cluster.read(DEPLOYMENT), fake.clock.now()).count == 0


def _with_host_folder(pod: Body) -> Body:
    first, *remaining_objects = pod["volumes"]
    return {"volumes": [{"name": first["name"], "hostPath": {"path": "/"}}, *remaining_objects]}


def _with_variable_from_elsewhere(pod: Body) -> Body:
    (container,) = pod["containers"]
    index = next(i for i, first in enumerate(container["env"]) if first.get("value"))
    source = {"fieldRef": {"fieldPath": "metadata.uid"}}
    env = [*container["env"]]
    env[index] = {"name": env[index]["name"], "valueFrom": source}
    return {"containers": [{**container, "env": env}]}


def _with_command_as_probe(pod: Body) -> Body:
    (container,) = pod["containers"]
    probe = {**container["readinessProbe"], "exec": {"command": ["sh"]}}
    del probe["tcpSocket"]
    return {"containers": [{**container, "readinessProbe": probe}]}


ALTERNATIVES: dict[str, tuple[Callable[[Body], Body], str]] = {
    "source of a volume": (_with_host_folder, ".hostPath"),
    "source of a variable": (_with_variable_from_elsewhere, ".valueFrom"),
    "handler of a probe": (_with_command_as_probe, ".readinessProbe.exec"),
}
FORGED = {"labels": {"kais.io/spec-hash": "forged"}}


@pytest.mark.parametrize(("change", "path"), ALTERNATIVES.values(), ids=ALTERNATIVES)
async def test_an_alternative_under_a_forged_label_is_removed(
    change: Callable[[Body], Body], path: str
) -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT))
    patch = {"spec": {"template": {"spec": change(pod_of(fake))}}}
    fake.cluster.edit(DEPLOYMENT, {"metadata": FORGED, **patch})
    await look(fake)
    final_state = fake.cluster.read(DEPLOYMENT)
    assert final_state["spec"] == initial_state["spec"]
    assert final_state["metadata"]["labels"] == initial_state["metadata"]["labels"]
    (message,) = events(fake)
    assert path in message


async def test_a_strategy_with_parameters_under_a_forged_label_is_removed() -> None:
    fake = await serving()
    initial_state = copy.deepcopy(fake.cluster.read(DEPLOYMENT)["spec"])
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    fake.cluster.edit(DEPLOYMENT, {"metadata": FORGED, "spec": {"strategy": strategy}})
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"] == initial_state


async def test_an_alternative_under_a_forged_label_is_reported_while_it_is_contested() -> None:
    fake = await serving()
    change = {"spec": {"template": {"spec": _with_host_folder(pod_of(fake))}}}
    for _ in range(workload_drift.REMOVALS_BEFORE_PAUSE):
        fake.cluster.edit(DEPLOYMENT, {"metadata": FORGED, **change})
        await look(fake)
    fake.cluster.edit(DEPLOYMENT, {"metadata": FORGED, **change})
    await fake.step(cell.CONTROLLER, SOLO)
    assert condition(fake, "Applied", SOLO)[1] == "DriftContested"
    assert "hostPath" in str(pod_of(fake))
    fake.clock.advance(workload_drift.FIRST_PAUSE.total_seconds())
    await look(fake)
    assert "hostPath" not in str(pod_of(fake))
    assert condition(fake, "Applied", SOLO)[1] == "Applied"


async def test_why_an_apply_is_refused_while_additions_are_contested_is_in_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = await serving()
    for _ in range(workload_drift.REMOVALS_BEFORE_PAUSE):
        edit_pod(fake, {"hostNetwork": True})
        await look(fake)
    edit_pod(fake, {"hostNetwork": True})
    fake.cluster.edit(SOLO, {"spec": {"container": {"image": "new:2"}}})
    refusal = "spec.template.spec.containers[0].resources.limits: must be >= request"

    async def refuse(body: Body, *, uid: str) -> Body:
        raise errors.Invalid(refusal)

    with monkeypatch.context() as patched:
        patched.setattr(fake.cluster, "apply", refuse)
        await fake.step(cell.CONTROLLER, SOLO)
        writes = len(fake.cluster.writes)
        for _ in range(2):
            await fake.step(cell.CONTROLLER, SOLO)
        assert fake.cluster.writes[writes:] == []
    for type_ in ("Applied", "Ready"):
        status, reason, message = condition(fake, type_, SOLO)
        assert (status, reason) == ("False", "DriftContested")
        assert "got spec.template.spec.hostNetwork again" in message
        assert message.endswith(f"; the API server refuses to apply what is declared: {refusal}")
    await fake.step(cell.CONTROLLER, SOLO)
    await fake.step(cell.CONTROLLER, SOLO)
    assert refusal not in condition(fake, "Applied", SOLO)[2]
    assert condition(fake, "Applied", SOLO)[1] == "DriftContested"
