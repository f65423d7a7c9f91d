"""Service cells on real pods: any image, readiness by the kubelet's words, teams that change."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import distroless, manifests
from e2e.support.installed import Installed, conditions
from e2e.support.waiting import until

pytestmark = pytest.mark.e2e

Body = dict[str, Any]


@pytest.fixture(scope="module")
def image(cluster: Installed, tmp_path_factory: pytest.TempPathFactory) -> str:
    del cluster  # it must be up before an image can be loaded into it
    return distroless.load(tmp_path_factory.mktemp("distroless"))


@pytest.fixture
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("services")


def service(image: str, **container: Any) -> Body:
    """A service cell that asks for little, as a small node has room for many of these."""
    return {
        "mode": "Service",
        "container": {"image": image, **container},
        "resources": {"cpuLimit": "50m", "memoryLimit": "64Mi"},
    }


def listening(image: str) -> Body:
    return service(image, ports=[{"containerPort": 8080}])


def cell(name: str, namespace: str, spec: Body) -> Body:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "kais.io/v1", "kind": "Cell", "metadata": metadata, "spec": spec}


def team(namespace: str, image: str, *, scouts: int = 1, scout: Body | None = None) -> Body:
    cells = [
        {"name": "lead", "spec": listening(image)},
        {"name": "scout", "replicas": scouts, "spec": scout or listening(image)},
    ]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"cells": cells, "workspace": {"size": "100Mi"}},
    }


def wait(
    cluster: Installed, kind: str, name: str, namespace: str, *, status: str, reason: str
) -> str:
    """Wait until Ready is as said; gives its message."""
    seen = until(
        lambda: conditions(cluster.get(kind, name, namespace)).get("Ready", {}),
        lambda ready: (ready.get("status"), ready.get("reason")) == (status, reason),
        what=f"{kind} {name} with Ready {status} {reason}",
        timeout_s=120,
    )
    return str(seen["message"])


def pods(cluster: Installed, namespace: str) -> dict[str, Body]:
    """The pods that are not going, by the cell they are of."""
    found = cluster.list("pods", namespace, "kais.io/cell-mode=Service")
    live = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["labels"]["kais.io/cell"]: pod for pod in live}


def uids(cluster: Installed, namespace: str) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods(cluster, namespace).items()}


def ask(cluster: Installed, namespace: str, name: str, path: str = "/") -> str:
    """Ask a cell through its Service, by way of the API server."""
    place = f"/api/v1/namespaces/{namespace}/services/{name}:8080/proxy{path}"
    return cluster.kubectl("get", "--raw", place)


def test_a_distroless_image_serves_and_is_found_by_its_service(
    cluster: Installed, namespace: str, image: str
) -> None:
    cluster.apply(cell("solo", namespace, listening(image)))
    wait(cluster, "cell", "solo", namespace, status="True", reason="Ready")
    assert json.loads(ask(cluster, namespace, "solo")) == {"cell": "solo", "peers": None}


def test_an_image_with_a_shell_and_no_port_keeps_running(
    cluster: Installed, namespace: str
) -> None:
    command = ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"]
    cluster.apply(cell("shell", namespace, service(manifests.PYTHON_IMAGE, command=command)))
    wait(cluster, "cell", "shell", namespace, status="True", reason="Ready")
    seen = cluster.get("service", "shell", namespace)
    assert seen is not None
    assert seen["spec"]["clusterIP"] == "None"


def test_a_distroless_image_does_a_missions_work(
    cluster: Installed, namespace: str, image: str
) -> None:
    work = {"mode": "Task", "container": {"image": image, "args": ["work"]}}
    formation = manifests.formation("task", namespace, "", image=image)
    formation["spec"]["cells"][0]["spec"] = work
    cluster.apply(formation, manifests.mission("task", namespace, objective="count $(HOME)"))
    mission = cluster.finished_mission("task", namespace)
    assert mission["status"]["outcome"] == "Succeeded"
    assert mission["status"]["result"] == "did: count $(HOME)"


def test_an_image_that_cannot_be_pulled_shows_within_30_s_and_heals_when_mended(
    cluster: Installed, namespace: str, image: str
) -> None:
    cluster.apply(cell("pull", namespace, listening("127.0.0.1:1/missing:1")))
    until(
        lambda: pods(cluster, namespace).get("pull", {}).get("status", {}),
        lambda status: bool(waiting_reason(status)),
        what="the kubelet's word",
    )
    seen = until(
        lambda: conditions(cluster.get("cell", "pull", namespace)).get("Ready", {}),
        lambda ready: ready.get("reason") == "ImagePullFailed",
        what="ImagePullFailed",
        timeout_s=30,
    )
    assert "missing:1" in seen["message"]
    cluster.apply(cell("pull", namespace, listening(image)))
    wait(cluster, "cell", "pull", namespace, status="True", reason="Ready")


def waiting_reason(status: Body) -> str:
    states = [s.get("state", {}) for s in status.get("containerStatuses", [])]
    reasons = [state.get("waiting", {}).get("reason", "") for state in states]
    return next(
        (reason for reason in reasons if reason in ("ErrImagePull", "ImagePullBackOff")), ""
    )


def test_a_container_that_ends_again_and_again_waits_longer_each_time(
    cluster: Installed, namespace: str
) -> None:
    command = ["sh", "-c", "echo no model is configured; exit 3"]
    cluster.apply(cell("crash", namespace, service(manifests.PYTHON_IMAGE, command=command)))
    words = until(
        lambda: conditions(cluster.get("cell", "crash", namespace)).get("Ready", {}),
        lambda ready: "CrashLoopBackOff" in ready.get("message", ""),
        what="CrashLoopBackOff",
        timeout_s=60,
    )
    assert words["reason"] == "PodFailed"
    assert "exit code 3: no model is configured" in words["message"]
    until(
        lambda: conditions(cluster.get("cell", "crash", namespace)).get("Ready", {}),
        lambda ready: "back-off 20s" in ready.get("message", ""),
        what="a longer back-off",
        timeout_s=60,
    )


def test_a_team_shares_a_workspace_scales_and_rolls_without_restarting_the_others(
    cluster: Installed, namespace: str, image: str
) -> None:
    cluster.apply(team(namespace, image))
    wait(cluster, "formation", "team", namespace, status="True", reason="Ready")
    first = uids(cluster, namespace)
    ask(cluster, namespace, "team-lead-0", "/leave")
    assert ask(cluster, namespace, "team-scout-0", "/found") == "lead-0"

    cluster.apply(team(namespace, image, scouts=2))
    until(
        lambda: (cluster.get("formation", "team", namespace) or {}).get("status", {}),
        lambda status: status.get("readyCells") == 3,
        what="three ready cells",
    )
    until(
        lambda: json.loads(ask(cluster, namespace, "team-lead-0"))["peers"],
        lambda peers: peers == ["scout-0", "scout-1"],
        what="the new peer in the mounted file",
        timeout_s=120,
    )
    assert first.items() <= uids(cluster, namespace).items()

    changed = listening(image)
    changed["container"]["env"] = [{"name": "EDITION", "value": "2"}]
    before = uids(cluster, namespace)
    cluster.apply(team(namespace, image, scouts=2, scout=changed))
    until(
        lambda: uids(cluster, namespace),
        lambda now: (
            set(now) == set(before)
            and all(now[name] != before[name] for name in before if "scout" in name)
        ),
        what="new pods of the changed template",
    )
    wait(cluster, "formation", "team", namespace, status="True", reason="Ready")
    assert uids(cluster, namespace)["team-lead-0"] == first["team-lead-0"]
    assert json.loads(ask(cluster, namespace, "team-scout-0"))["peers"] == ["lead-0", "scout-1"]
    assert ask(cluster, namespace, "team-scout-1", "/found") == "lead-0"


def test_an_evicted_pod_comes_back(cluster: Installed, namespace: str, image: str) -> None:
    cluster.apply(cell("solo", namespace, listening(image)))
    wait(cluster, "cell", "solo", namespace, status="True", reason="Ready")
    before = pods(cluster, namespace)["solo"]["metadata"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": before["name"], "namespace": namespace},
    }
    place = f"/api/v1/namespaces/{namespace}/pods/{before['name']}/eviction"
    cluster.kubectl("create", "--raw", place, "-f", "-", stdin=json.dumps(eviction))
    until(
        lambda: uids(cluster, namespace).get("solo", before["uid"]),
        lambda uid: uid != before["uid"],
        what="another pod",
    )
    wait(cluster, "cell", "solo", namespace, status="True", reason="Ready")


def test_a_deleted_team_leaves_nothing(cluster: Installed, namespace: str, image: str) -> None:
    cluster.apply(team(namespace, image))
    wait(cluster, "formation", "team", namespace, status="True", reason="Ready")
    cluster.kubectl("delete", "formation", "team", "-n", namespace)
    kinds = "cells,deployments,services,pods,serviceaccounts,configmaps,pvc"
    selector = "app.kubernetes.io/managed-by=kais,kais.io/formation=team"
    until(
        lambda: cluster.list(kinds, namespace, selector),
        lambda left: left == [],
        what="an empty namespace",
        timeout_s=60,
    )
