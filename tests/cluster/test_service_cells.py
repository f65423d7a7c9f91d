"""Service cells against a real API server: defaults, drift, names taken, and each condition's way.

There is no node: the Deployment controller makes pods, and the tests say what a kubelet would.
"""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

CREATED = ("deployments", "services", "serviceaccounts", "configmaps", "persistentvolumeclaims")


def service(image: str = "worker:1", **extra_fields: Any) -> dict[str, Any]:
    container = {"image": image, "ports": [{"containerPort": 8080}], **extra_fields}
    return {"mode": "Service", "container": container, "resources": {"cpuLimit": "0.5"}}


def team(name: str, *, scouts: int = 1, image: str = "worker:1", **spec: Any) -> dict[str, Any]:
    cells = [
        {"name": "lead", "spec": service()},
        {"name": "scout", "replicas": scouts, "spec": service(image)},
    ]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name},
        "spec": {"cells": cells, **spec},
    }


def lone(name: str = "solo", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Cell",
        "metadata": {"name": name},
        "spec": {**service(), **spec},
    }


def pods_of(cluster: Cluster, cell: str) -> list[dict[str, Any]]:
    results = cluster.items("pods", labels=f"kais.io/cell={cell},kais.io/cell-mode=Service")
    return [pod for pod in results if "deletionTimestamp" not in pod["metadata"]]


def pod_of(cluster: Cluster, cell: str) -> dict[str, Any]:
    return wait_for(lambda: pods_of(cluster, cell), subject=f"a pod of {cell}")[0]


def tell(cluster: Cluster, pod: dict[str, Any], status: dict[str, Any]) -> None:
    """Say of a pod what its kubelet would."""
    name = pod["metadata"]["name"]
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)


def make_ready(cluster: Cluster, *cells: str) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for cell in cells:
        pod = pod_of(cluster, cell)
        conditions = [{"type": t, "status": "True"} for t in ("Ready", "ContainersReady")]
        state = {"running": {"startedAt": at}}
        tell(cluster, pod, {"phase": "Running", "conditions": conditions, **container(state)})


def container(state: dict[str, Any]) -> dict[str, Any]:
    is_ready = "running" in state
    reported_container = {
        "name": "cell",
        "image": "x",
        "imageID": "",
        "ready": is_ready,
        "restartCount": 0,
    }
    return {"containerStatuses": [{**reported_container, "state": state}]}


def wait_condition(
    cluster: Cluster, kind: str, name: str, type_: str, expected: tuple[str, str]
) -> str:
    """Wait until a condition has a status and a reason; gives its message."""
    wait_for(
        lambda: (
            (condition := cluster.condition(kind, name, type_))
            and (condition["status"], condition["reason"]) == expected
        ),
        subject=f"{kind}/{name} {type_} becomes {expected}: {cluster.status(kind, name)}",
    )
    return str(cluster.condition(kind, name, type_)["message"])


def test_a_team_of_services_becomes_ready_and_then_nothing_is_written(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(team("team", workspace={"size": "1024Mi"}))
    wait_condition(cluster, "formations", "team", "Applied", ("True", "Applied"))
    make_ready(cluster, "team-lead-0", "team-scout-0")
    wait_condition(cluster, "formations", "team", "Ready", ("True", "Ready"))
    time.sleep(3)
    initial_versions = cluster.versions(*CREATED, "formations", "cells")
    operator.end()
    restarted_operator = start(name="second")
    restarted_operator.wait_ready()
    time.sleep(5)
    assert cluster.versions(*CREATED, "formations", "cells") == initial_versions
    columns = cluster.kubectl("get", "cell", "team-lead-0", "--no-headers").split()
    assert columns[:4] == ["team-lead-0", "Running", "True", "Ready"]
    columns = cluster.kubectl("get", "formation", "team", "--no-headers").split()
    assert columns[:4] == ["team", "2/2", "True", "Ready"]


POD_FIELDS: dict[str, Any] = {
    "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "ours"}},
    "spec": {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "cache", "emptyDir": {"sizeLimit": "0.5Gi"}},
            {"name": "keys", "secret": {"secretName": "keys", "optional": True}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "page", "optional": True}},
                        {"secret": {"name": "keys", "optional": True}},
                    ]
                },
            },
            {
                "name": "scratch",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1024Mi"}},
                        }
                    }
                },
            },
        ],
        "initContainers": [
            {
                "name": "proxy",
                "image": "proxy:1",
                "restartPolicy": "Always",
                "env": [
                    {
                        "name": "MEMORY",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.memory", "divisor": "1"}
                        },
                    },
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                ],
                "ports": [{"containerPort": 9000}, {"containerPort": 9001}],
                "readinessProbe": {"httpGet": {"port": 9000}},
                "resources": {"limits": {"memory": "0.5Gi"}},
                "volumeMounts": [{"name": "workspace", "mountPath": "/shared"}],
            }
        ],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                    }
                ]
            }
        },
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"team": "blue"}},
            }
        ],
        "imagePullSecrets": [{"name": "registry"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
        "dnsConfig": {"nameservers": ["10.0.0.2"], "options": [{"name": "ndots", "value": "1"}]},
        "dnsPolicy": "None",
        "securityContext": {"fsGroup": 2000, "fsGroupChangePolicy": "OnRootMismatch"},
        "terminationGracePeriodSeconds": 5,
    },
}


def test_every_pod_field_is_applied_once_and_then_nothing_is_written(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    fields = {
        "envFrom": [{"prefix": "DB_", "secretRef": {"name": "keys", "optional": True}}],
        "imagePullPolicy": "Never",
        "lifecycle": {"preStop": {"httpGet": {"port": 8080}}},
        "livenessProbe": {"httpGet": {"port": 8080}},
        "readinessProbe": {"grpc": {"port": 8080}},
        "startupProbe": {"exec": {"command": ["true"]}},
        "resources": {
            "requests": {"cpu": "0.1"},
            "limits": {"example.com/gpu": 1, "memory": "1024Mi"},
        },
        "securityContext": {"readOnlyRootFilesystem": False},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "data", "mountPath": "/old", "subPath": "old"},
            {"name": "keys", "mountPath": "/keys", "readOnly": True},
        ],
    }
    cluster.apply({**lone(), "spec": {**service(**fields), "podTemplate": POD_FIELDS}})
    pod = pod_of(cluster, "solo")
    assert pod["metadata"]["labels"]["team"] == "blue"
    spec = pod["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["initContainers"][0]["restartPolicy"] == "Always"
    assert spec["containers"][0]["resources"]["limits"]["example.com/gpu"] == "1"
    assert {"claimName": "data"} in [v.get("persistentVolumeClaim") for v in spec["volumes"]]
    make_ready(cluster, "solo")
    wait_condition(cluster, "cells", "solo", "Ready", ("True", "Ready"))
    time.sleep(3)
    initial_versions = cluster.versions(*CREATED, "cells")
    operator.end()
    start(name="second").wait_ready()
    time.sleep(5)
    assert cluster.versions(*CREATED, "cells") == initial_versions


def test_what_the_api_server_refuses_of_pod_fields_stands_on_the_cell_in_its_words(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply({**lone(), "spec": service(imagePullPolicy="Sometimes")})
    message = wait_condition(cluster, "cells", "solo", "Applied", ("False", "ApplyFailed"))
    assert 'imagePullPolicy: Unsupported value: "Sometimes"' in message
    cluster.apply({**lone(), "spec": service(imagePullPolicy="Always")})
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))


def test_what_pod_security_refuses_stands_on_the_cell_in_its_words(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", cluster.namespace, level)
    root = {"runAsUser": 0, "runAsNonRoot": False}
    cluster.apply({**lone(), "spec": service(securityContext=root)})
    message = wait_condition(cluster, "cells", "solo", "PodReady", ("False", "PodNotCreated"))
    assert 'violates PodSecurity "restricted:latest": runAsNonRoot != true' in message


def test_a_cell_that_pod_security_forbids_starts_after_the_namespace_is_labelled(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    forbidden = {"privileged": True, "allowPrivilegeEscalation": True}
    cluster.apply({**lone(), "spec": service(securityContext=forbidden)})
    message = wait_condition(cluster, "cells", "solo", "Applied", ("False", "PodNotAllowed"))
    label = "pod-security.kubernetes.io/enforce"
    assert f"label the namespace {label}: privileged" in message
    cluster.kubectl("label", "namespace", cluster.namespace, f"{label}=privileged")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))


def test_each_condition_of_a_service_cell_goes_and_comes_back(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(lone())
    make_ready(cluster, "solo")
    for type_ in ("Applied", "PodReady", "Registered", "Ready"):
        wait_for(
            lambda t=type_: cluster.condition("cells", "solo", t).get("status") == "True",
            subject=f"{type_} is True",
        )
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "nowhere:1 not found"}}
    conditions = [{"type": t, "status": "False"} for t in ("Ready", "ContainersReady")]
    tell(cluster, pod_of(cluster, "solo"), {"conditions": conditions, **container(waiting)})
    message = wait_condition(cluster, "cells", "solo", "PodReady", ("False", "ImagePullFailed"))
    assert ": ErrImagePull: nowhere:1 not found; push the image to a registry" in message
    wait_condition(cluster, "cells", "solo", "Ready", ("False", "ImagePullFailed"))
    make_ready(cluster, "solo")
    wait_condition(cluster, "cells", "solo", "PodReady", ("True", "PodRunning"))
    wait_condition(cluster, "cells", "solo", "Ready", ("True", "Ready"))
    events = cluster.items("events")
    subjects = [(e["type"], e["reason"]) for e in events if e["involvedObject"]["kind"] == "Cell"]
    assert ("Warning", "ImagePullFailed") in subjects


@pytest.mark.parametrize("kind", ["deployment", "service"])
def test_a_strangers_child_is_left_alone_and_its_end_heals(
    cluster: Cluster, start: Start, kind: str
) -> None:
    start().wait_ready()
    making = {
        "deployment": ("create", "deployment", "solo", "--image=other:1", "--replicas=0"),
        "service": ("create", "service", "clusterip", "solo", "--tcp=1234"),
    }
    cluster.kubectl(*making[kind])
    initial_version = cluster.versions(f"{kind}s")[f"{kind}s/solo"]
    cluster.apply(lone())
    message = wait_condition(cluster, "cells", "solo", "Applied", ("False", "NameTaken"))
    assert f"{kind.title()}/{cluster.namespace}/solo exists already" in message
    if kind == "service":
        assert cluster.versions("services")["services/solo"] == initial_version
    image = [d["spec"]["template"]["spec"]["containers"] for d in cluster.items("deployments")]
    assert kind != "deployment" or image[0][0]["image"] == "other:1"
    cluster.kubectl("delete", kind, "solo")
    cluster.kubectl("annotate", "cell", "solo", "look=again")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))


def test_scaling_a_team_leaves_the_pod_templates_of_the_others_as_they_are(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(team("team", scouts=2))
    wait_condition(cluster, "formations", "team", "Applied", ("True", "Applied"))
    pods = {name: pod_of(cluster, name)["metadata"]["uid"] for name in ("team-lead-0",)}
    wait_for(lambda: len(templates(cluster)) == 3, subject="a Deployment for each cell")
    initial_templates = templates(cluster)
    cluster.apply(team("team", scouts=4))
    wait_for(lambda: len(templates(cluster)) == 5, subject="two more Deployments")
    final_templates = templates(cluster)
    assert {name: final_templates[name] for name in initial_templates} == initial_templates
    cluster.apply(team("team", scouts=1))
    wait_for(lambda: len(templates(cluster)) == 2, subject="three Deployments fewer")
    assert templates(cluster).items() <= initial_templates.items()
    assert pod_of(cluster, "team-lead-0")["metadata"]["uid"] == pods["team-lead-0"]
    routes = cluster.get("configmaps", "topology-team")
    assert routes is not None
    assert json.loads(routes["data"]["routes.json"]) == {
        "lead-0": ["scout-0"],
        "scout-0": ["lead-0"],
    }


def templates(cluster: Cluster) -> dict[str, Any]:
    return {
        body["metadata"]["name"]: body["spec"]["template"] for body in cluster.items("deployments")
    }


def test_a_changed_template_rolls_only_its_cells_and_keeps_their_place(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(team("team"))
    wait_for(lambda: len(templates(cluster)) == 2, subject="a Deployment for each cell")
    initial_templates = templates(cluster)
    cluster.apply(team("team", image="worker:2"))
    wait_for(
        lambda: images(cluster)["team-scout-0"] == "worker:2", subject="the template is the new one"
    )
    final_templates = templates(cluster)
    assert final_templates["team-lead-0"] == initial_templates["team-lead-0"]
    stored_items = ("volumes", "serviceAccountName", "tolerations")
    assert all(
        final_templates["team-scout-0"]["spec"][key]
        == initial_templates["team-scout-0"]["spec"][key]
        for key in stored_items
    )
    cells = cluster.get("cells", "team-scout-0")
    assert cells is not None
    assert cells["spec"]["formationRef"] == "team"
    time.sleep(2)
    versions = cluster.versions("deployments", "configmaps")
    cluster.kubectl("annotate", "formation", "team", "look=again")
    time.sleep(3)
    settled = cluster.versions("deployments", "configmaps")
    assert settled["configmaps/topology-team"] == versions["configmaps/topology-team"]
    assert templates(cluster) == final_templates


def images(cluster: Cluster) -> dict[str, str]:
    return {name: t["spec"]["containers"][0]["image"] for name, t in templates(cluster).items()}


def test_an_edited_deployment_is_brought_back(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.kubectl("set", "image", "deployment/solo", "cell=evil:1")
    wait_for(lambda: images(cluster)["solo"] == "worker:1", subject="the image is brought back")
    cluster.kubectl("scale", "deployment/solo", "--replicas=3")
    wait_for(
        lambda: cluster.items("deployments")[0]["spec"]["replicas"] == 1,
        subject="the replicas are brought back",
    )


def rollout(cluster: Cluster, verb: str, *arguments: str) -> str:
    return cluster.kubectl("rollout", verb, "deployment/solo", *arguments)


def test_a_deployment_without_progress_deadline_is_rolled_out_and_restarted(
    cluster: Cluster, start: Start, control_plane: ControlPlane
) -> None:
    start().wait_ready()
    cluster.apply(lone())
    pod = wait_for(lambda: cluster.items("pods"), subject="a pod")[0]
    wait_for(
        lambda: cluster.items("deployments")[0]["status"].get("updatedReplicas") == 1,
        subject="the controller manager counts the pod",
    )
    (deployment,) = cluster.items("deployments")
    types = {condition["type"] for condition in deployment["status"]["conditions"]}
    assert types == {"Available"}
    assert status_updates(control_plane, cluster.namespace) == 2
    assert "Waiting for deployment" in rollout(cluster, "status", "--watch=false")
    tell(cluster, pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    rollout(cluster, "status", "--timeout=60s")

    cluster.kubectl("scale", "deployment/solo", "--replicas=2")
    wait_for(
        lambda: (
            cluster.items("deployments")[0]["spec"]["replicas"] == 1 and revision(cluster) == "1"
        ),
        subject="an apply changes no revision",
    )
    rollout(cluster, "restart")
    wait_for(lambda: revision(cluster) == "2", subject="the restart is revision 2")
    cluster.apply(lone(container={"image": "worker:2"}))
    wait_for(lambda: images(cluster)["solo"] == "worker:2", subject="the Cell's new image")
    wait_for(lambda: revision(cluster) == "3", subject="the new image is revision 3")
    history = rollout(cluster, "history").split()
    assert history[-4::2] == ["2", "3"], history
    (deployment,) = cluster.items("deployments")
    assert deployment["spec"]["progressDeadlineSeconds"] == 2**31 - 1
    time.sleep(3)
    settled = cluster.versions("deployments")
    time.sleep(3)
    assert cluster.versions("deployments") == settled


def status_updates(plane: ControlPlane, namespace: str) -> int:
    """Count how often the status of a Deployment was written, by the audit log."""
    lines = plane.audit_log.read_text().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    target = {"resource": "deployments", "subresource": "status", "namespace": namespace}
    return sum(
        entry["verb"] == "update"
        and entry["responseStatus"]["code"] == HTTPStatus.OK
        and target.items() <= entry.get("objectRef", {}).items()
        for entry in entries
    )


def revision(cluster: Cluster) -> str:
    (deployment,) = cluster.items("deployments")
    return str(deployment["metadata"]["annotations"].get("deployment.kubernetes.io/revision"))


def test_a_port_that_comes_and_goes_makes_the_service_anew(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.apply(lone(container={"image": "worker:1"}))
    wait_for(lambda: cluster_ip(cluster) == "None", subject="the Service is headless")
    cluster.apply(lone())
    wait_for(lambda: cluster_ip(cluster) not in ("", "None"), subject="the Service has an address")


def cluster_ip(cluster: Cluster) -> str:
    services = cluster.get("services", "solo")
    return str(services["spec"].get("clusterIP")) if services else ""


def test_a_quota_that_keeps_the_pod_away_is_told_in_its_words(
    cluster: Cluster, start: Start
) -> None:
    cluster.kubectl("create", "quota", "none", "--hard=pods=0")
    start().wait_ready()
    cluster.apply(lone())
    message = wait_condition(cluster, "cells", "solo", "PodReady", ("False", "PodNotCreated"))
    assert "exceeded quota: none" in message


def test_a_refused_child_is_told_in_the_api_servers_words_and_mended(
    cluster: Cluster, start: Start
) -> None:
    cluster.kubectl("create", "quota", "none", "--hard=count/deployments.apps=0")
    start().wait_ready()
    cluster.apply(lone())
    message = wait_condition(cluster, "cells", "solo", "Applied", ("False", "ApplyFailed"))
    assert "exceeded quota: none" in message
    cluster.kubectl("delete", "quota", "none")
    cluster.kubectl("annotate", "cell", "solo", "look=again")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))


def test_a_cell_that_becomes_a_task_keeps_no_deployment(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.apply(lone(mode="Task"))
    wait_condition(cluster, "cells", "solo", "Ready", ("True", "Standby"))
    wait_for(lambda: not cluster.items("deployments"), subject="the Deployment is gone")
    assert [s for s in cluster.items("services") if s["metadata"]["name"] == "solo"] == []


def test_deleting_a_team_takes_everything_of_it(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(team("team", workspace={}))
    wait_condition(cluster, "formations", "team", "Applied", ("True", "Applied"))
    cluster.kubectl("delete", "formation", "team")
    selector = "app.kubernetes.io/managed-by=kais,kais.io/formation=team"
    kinds = ("cells", "deployments", "services", "serviceaccounts", "configmaps")
    wait_for(
        lambda: not [item for kind in kinds for item in cluster.items(kind, labels=selector)],
        subject="every child is gone",
    )


def test_leave_to_share_an_account_is_given_and_taken_back_at_once(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.kubectl("create", "serviceaccount", "shared")
    cluster.apply(lone(serviceAccountName="shared"))
    wait_condition(cluster, "cells", "solo", "Applied", ("False", "AccountNotAllowed"))
    started_at = time.monotonic()
    cluster.kubectl("annotate", "serviceaccount", "shared", "kais.io/allow-cells=true")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.kubectl("annotate", "serviceaccount", "shared", "kais.io/allow-cells-")
    wait_condition(cluster, "cells", "solo", "Applied", ("False", "AccountNotAllowed"))
    assert time.monotonic() - started_at < 28, "not by the looks of every 30 s and 5 min"
