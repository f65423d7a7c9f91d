"""The Job of an attempt: what the pod is given and what it may do."""

import json
from typing import Any

import pytest

from kais import trace_context
from kais.resources.cell import Cell
from kais.scopes import Scope
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.controllers.mission.decide import job_manifest
from kais_operator.planning import quantities
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Body
from tests.fakes import teams

PARENT = Parent("kais.io/v1", "Mission", "demo", "doctor", "uid-mission")
CELL_IDENTITY = CellIdentity(
    "lead-0", "team-lead-0", Scope("demo", "team", "lead-0"), Scope("demo", "team")
)


def job(*, tasks: dict[str, Any] | None = None, **spec: Any) -> Body:
    body = teams.thing(
        "Cell", "team-lead-0", spec={**teams.task(), "formationRef": "team", **spec}, uid="u1"
    )
    fields: dict[str, Any] = {
        "mission": "doctor",
        "run_id": "run-1",
        "attempt": 2,
        "objective": "explain",
        **(tasks or {}),
    }
    return job_manifest.attempt_job(
        PARENT,
        Cell.from_dict(body),
        CELL_IDENTITY,
        inputs=job_manifest.AttemptInputs(**fields),
        knowledge_url="http://store:8000",
        seconds=90,
    )


def pod_spec(manifest: Body) -> Body:
    return dict(manifest["spec"]["template"]["spec"])


def task(manifest: Body) -> Body:
    return dict(pod_spec(manifest)["containers"][0])


def environment(manifest: Body) -> dict[str, str]:
    """The variables as the container will see them."""
    return {
        entry["name"]: expanded(entry["value"])
        for entry in task(manifest)["env"]
        if "value" in entry
    }


def expanded(text: str) -> str:
    """What Kubernetes makes of a value in which no reference is defined but HOME=/root."""
    output, i = "", 0
    while i < len(text):
        if text[i] == "$" and text[i + 1 : i + 2] == "$":
            output, i = output + "$", i + 2
        elif text.startswith("$(HOME)", i):
            output, i = output + "/root", i + len("$(HOME)")
        else:
            output, i = output + text[i], i + 1
    return output


def test_an_attempt_is_tried_once_by_its_job() -> None:
    manifest = job()
    spec = manifest["spec"]
    assert manifest["metadata"]["name"] == "doctor-a2"
    assert spec["backoffLimit"] == 0
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 90
    assert spec["activeDeadlineSeconds"] == 180, "later, so that the pod is left to tell why"
    assert "ttlSecondsAfterFinished" not in spec
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule == {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }


def test_the_pod_is_told_who_it_is_and_what_to_do() -> None:
    reported_environment = environment(job(tasks={"message": "start", "feedback": "no such pod"}))
    assert reported_environment | {"CELL_SPEC": ""} == {
        "CELL_NAME": "lead-0",
        "CELL_NAMESPACE": "demo",
        "CELL_SPEC": "",
        "KNOWLEDGE_SERVICE_URL": "http://store:8000",
        "KNOWLEDGE_SCOPE": "realm:demo/formation:team/cell:lead-0",
        "KNOWLEDGE_GRAPH_ID": "realm:demo/formation:team/cell:lead-0",
        "KNOWLEDGE_TOKEN_FILE": "/var/run/secrets/kais/token",
        "KAIS_FORMATION": "team",
        "KAIS_PEERS_FILE": "/etc/kais/topology/routes.json",
        "KAIS_MISSION": "doctor",
        "KAIS_RUN_ID": "run-1",
        "KAIS_ATTEMPT": "2",
        "KAIS_OBJECTIVE": "explain",
        "KAIS_MESSAGE": "start",
        "KAIS_FEEDBACK": "no such pod",
        "KAIS_KNOWLEDGE_FILE": "/etc/kais/knowledge/knowledge.json",
    }
    assert json.loads(reported_environment["CELL_SPEC"])["container"]["image"] == "worker:1"


def test_the_trace_of_the_run_replaces_a_variable_of_the_cell() -> None:
    container = {"image": "worker:1", "env": [{"name": "TRACEPARENT", "value": "mine"}]}
    manifest = job(tasks={"traceparent": trace_context.derive("run-1")}, container=container)
    named = [variable for variable in task(manifest)["env"] if variable["name"] == "TRACEPARENT"]
    assert named == [{"name": "TRACEPARENT", "value": trace_context.derive("run-1")}]
    assert environment(job(container=container))["TRACEPARENT"] == "mine"


@pytest.mark.parametrize("text", ["$(HOME)", "$$(HOME)", "${HOME}", "a $ b", "$", "$$$(HOME)"])
def test_users_text_arrives_letter_for_letter(text: str) -> None:
    container = {
        "image": "worker:1",
        "command": [text],
        "args": [text],
        "env": [{"name": "OWN", "value": text}],
    }
    manifest = job(
        tasks={"objective": text, "message": text, "feedback": text}, container=container
    )
    reported_environment = environment(manifest)
    assert {
        reported_environment[n] for n in ("KAIS_OBJECTIVE", "KAIS_MESSAGE", "KAIS_FEEDBACK", "OWN")
    } == {text}
    assert json.loads(reported_environment["CELL_SPEC"])["container"]["args"] == [text]
    assert [expanded(t) for t in task(manifest)["command"] + task(manifest)["args"]] == [
        text,
        text,
    ]


def test_the_pod_may_do_nothing_that_it_was_not_given() -> None:
    spec = pod_spec(job())
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["serviceAccountName"] == "team-lead-0"
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 65532
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_own_user_takes_the_place_of_the_usual_one() -> None:
    security = pod_spec(job(container={"image": "w:1", "runAsUser": 1000}))["securityContext"]
    assert (security["runAsUser"], security["fsGroup"]) == (1000, 1000)


def test_api_access_mounts_the_accounts_token() -> None:
    assert pod_spec(job(apiAccess=True))["automountServiceAccountToken"] is True


def test_the_knowledge_token_names_its_audience() -> None:
    volumes = {volume["name"]: volume for volume in pod_spec(job())["volumes"]}
    (source,) = volumes["kais-token"]["projected"]["sources"]
    assert source["serviceAccountToken"] == {
        "audience": "kais-knowledge",
        "expirationSeconds": 3600,
        "path": "token",
    }
    assert volumes["kais-knowledge"]["configMap"] == {"name": "doctor-a2-knowledge"}
    assert volumes["kais-topology"]["configMap"] == {"name": "topology-team", "optional": True}


def test_every_mount_has_its_volume() -> None:
    manifest = job()
    mounted = {mount["name"] for mount in task(manifest)["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod_spec(manifest)["volumes"]}
    paths = {mount["mountPath"] for mount in task(manifest)["volumeMounts"]}
    assert {"/tmp", "/workspace/shared", "/workspace/private/lead-0"} <= paths  # noqa: S108


LIMITS = {
    "usual amounts when nothing is said": ({}, "100m", "128Mi", "500m", "256Mi"),
    "higher limits keep the usual requests": (
        {"cpuLimit": 2, "memoryLimit": "1Gi"},
        "100m",
        "128Mi",
        "2",
        "1Gi",
    ),
    "lower limits lower the requests": (
        {"cpuLimit": "50m", "memoryLimit": "64Mi"},
        "50m",
        "64Mi",
        "50m",
        "64Mi",
    ),
}


@pytest.mark.parametrize(
    ("fields", "cpu", "memory", "most_cpu", "most_memory"), LIMITS.values(), ids=LIMITS
)
def test_resources(fields: Body, cpu: str, memory: str, most_cpu: str, most_memory: str) -> None:
    assert task(job(resources=fields))["resources"] == {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"cpu": most_cpu, "memory": most_memory},
    }


def test_variables_of_kais_cannot_be_taken() -> None:
    env = [{"name": "KAIS_RUN_ID", "value": "mine"}, {"name": "CELL_NAME", "value": "mine"}]
    manifest = job(container={"image": "w:1", "env": env})
    names = [entry["name"] for entry in task(manifest)["env"]]
    assert len(names) == len(set(names))
    assert environment(manifest)["KAIS_RUN_ID"] == "run-1"


def test_a_secret_stays_a_reference() -> None:
    source = {"secretKeyRef": {"name": "keys", "key": "api"}}
    manifest = job(container={"image": "w:1", "env": [{"name": "API", "valueFrom": source}]})
    assert {"name": "API", "valueFrom": source} in task(manifest)["env"]


def test_job_and_pod_carry_the_labels_that_name_their_mission() -> None:
    manifest = job(tasks={"labelled": {"kais.io/blueprint": "doctor"}})
    for labels in (
        manifest["metadata"]["labels"],
        manifest["spec"]["template"]["metadata"]["labels"],
    ):
        assert labels["app.kubernetes.io/managed-by"] == "kais"
        assert labels["kais.io/mission"] == "doctor"
        assert labels["kais.io/cell"] == "team-lead-0"
        assert labels["kais.io/role"] == "cell"
        assert labels["kais.io/blueprint"] == "doctor"


@pytest.mark.parametrize(
    ("quantity", "value"),
    [("500m", 0.5), (2, 2.0), ("1Ki", 1024.0), ("1.5Gi", 1.5 * 2**30), ("1e3", 1000.0)],
)
def test_quantities(quantity: int | str, value: float) -> None:
    assert quantities.amount(quantity) == pytest.approx(value)
