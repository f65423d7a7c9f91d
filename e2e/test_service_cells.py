"""Service cells on real pods: any image, readiness by the kubelet's words, teams that change."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from e2e.support import distroless, manifests
from e2e.support.installed import Installed, conditions
from e2e.support.waiting import wait_until

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
    cell_conditions = wait_until(
        lambda: conditions(cluster.get(kind, name, namespace)).get("Ready", {}),
        lambda ready: (ready.get("status"), ready.get("reason")) == (status, reason),
        description=f"{kind} {name} with Ready {status} {reason}",
        timeout_s=120,
    )
    return str(cell_conditions["message"])


def pods(cluster: Installed, namespace: str) -> dict[str, Body]:
    """The pods that are not going, by the cell they are of."""
    service_pods = cluster.list("pods", namespace, "kais.io/cell-mode=Service")
    live = [pod for pod in service_pods if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["labels"]["kais.io/cell"]: pod for pod in live}


def uids(cluster: Installed, namespace: str) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods(cluster, namespace).items()}


def ask(cluster: Installed, namespace: str, name: str, path: str = "/") -> str:
    """Ask a cell through its Service, by way of the API server."""
    proxy_path = f"/api/v1/namespaces/{namespace}/services/{name}:8080/proxy{path}"
    return cluster.kubectl("get", "--raw", proxy_path)


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
    service_object = cluster.get("service", "shell", namespace)
    assert service_object is not None
    assert service_object["spec"]["clusterIP"] == "None"


def test_a_distroless_image_does_a_missions_work(
    cluster: Installed, namespace: str, image: str
) -> None:
    task_spec = {"mode": "Task", "container": {"image": image, "args": ["work"]}}
    formation = manifests.formation("task", namespace, "", image=image)
    formation["spec"]["cells"][0]["spec"] = task_spec
    cluster.apply(formation, manifests.mission("task", namespace, objective="count $(HOME)"))
    mission = cluster.finished_mission("task", namespace)
    assert mission["status"]["outcome"] == "Succeeded"
    assert mission["status"]["result"] == "did: count $(HOME)"


def test_an_image_that_cannot_be_pulled_shows_within_30_s_and_heals_when_mended(
    cluster: Installed, namespace: str, image: str
) -> None:
    cluster.apply(cell("pull", namespace, listening("127.0.0.1:1/missing:1")))
    wait_until(
        lambda: pods(cluster, namespace).get("pull", {}).get("status", {}),
        lambda status: bool(waiting_reason(status)),
        description="the kubelet's word",
    )
    cell_conditions = wait_until(
        lambda: conditions(cluster.get("cell", "pull", namespace)).get("Ready", {}),
        lambda ready: ready.get("reason") == "ImagePullFailed",
        description="ImagePullFailed",
        timeout_s=30,
    )
    assert "missing:1" in cell_conditions["message"]
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
    observed_messages = wait_until(
        lambda: conditions(cluster.get("cell", "crash", namespace)).get("Ready", {}),
        lambda ready: "exit code 3: no model is configured" in ready.get("message", ""),
        description="the end of the container",
        timeout_s=60,
    )
    assert observed_messages["reason"] == "PodFailed"
    starts: dict[int, datetime] = {}
    wait_until(
        lambda: note_starts(starts, cluster.list("pod", namespace)),
        lambda messages: len(successive(messages)) >= 3,
        description="three successive restarts",
        timeout_s=180,
    )
    # The kubelet shows a back-off in the pod only shortly before it ends, so the starts tell it.
    start, restart, latest = successive(starts)[-3:]
    assert latest - restart > max(restart - start, timedelta(seconds=9))


def successive(starts: dict[int, datetime]) -> list[datetime]:
    """Return the latest starts after a restart without a gap in their numbers, oldest first."""
    number = max(starts, default=0)
    run: list[datetime] = []
    while number > 0 and number in starts:
        run.insert(0, starts[number])
        number -= 1
    return run


def note_starts(starts: dict[int, datetime], pods: Sequence[Body]) -> dict[int, datetime]:
    """Note when the containers of pods started, by the number of restarts before.

    The runs of a container are short, so most readings come between two of them: the last run is
    in `lastState` then, and it still carries the number that the next start raises.
    """
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", []):
            restarts = status["restartCount"]
            last = status.get("lastState", {}).get("terminated") or {}
            current = status["state"].get("running") or status["state"].get("terminated")
            if current:
                starts[restarts] = datetime.fromisoformat(current["startedAt"])
                restarts -= 1
            if "startedAt" in last:
                starts.setdefault(restarts, datetime.fromisoformat(last["startedAt"]))
    return starts


def test_a_team_shares_a_workspace_scales_and_rolls_without_restarting_the_others(
    cluster: Installed, namespace: str, image: str
) -> None:
    cluster.apply(team(namespace, image))
    wait(cluster, "formation", "team", namespace, status="True", reason="Ready")
    first = uids(cluster, namespace)
    ask(cluster, namespace, "team-lead-0", "/leave")
    assert ask(cluster, namespace, "team-scout-0", "/found") == "lead-0"

    cluster.apply(team(namespace, image, scouts=2))
    wait_until(
        lambda: (cluster.get("formation", "team", namespace) or {}).get("status", {}),
        lambda status: status.get("readyCells") == 3,
        description="three ready cells",
    )
    wait_until(
        lambda: json.loads(ask(cluster, namespace, "team-lead-0"))["peers"],
        lambda peers: peers == ["scout-0", "scout-1"],
        description="the new peer in the mounted file",
        timeout_s=120,
    )
    assert first.items() <= uids(cluster, namespace).items()

    changed = listening(image)
    changed["container"]["env"] = [{"name": "EDITION", "value": "2"}]
    uids_before = uids(cluster, namespace)
    cluster.apply(team(namespace, image, scouts=2, scout=changed))
    wait_until(
        lambda: uids(cluster, namespace),
        lambda now: (
            set(now) == set(uids_before)
            and all(now[name] != uids_before[name] for name in uids_before if "scout" in name)
        ),
        description="new pods of the changed template",
    )
    wait(cluster, "formation", "team", namespace, status="True", reason="Ready")
    assert uids(cluster, namespace)["team-lead-0"] == first["team-lead-0"]
    assert json.loads(ask(cluster, namespace, "team-scout-0"))["peers"] == ["lead-0", "scout-1"]
    assert ask(cluster, namespace, "team-scout-1", "/found") == "lead-0"


def test_an_evicted_pod_comes_back(cluster: Installed, namespace: str, image: str) -> None:
    cluster.apply(cell("solo", namespace, listening(image)))
    wait(cluster, "cell", "solo", namespace, status="True", reason="Ready")
    evicted_pod = pods(cluster, namespace)["solo"]["metadata"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": evicted_pod["name"], "namespace": namespace},
    }
    eviction_path = f"/api/v1/namespaces/{namespace}/pods/{evicted_pod['name']}/eviction"
    cluster.kubectl("create", "--raw", eviction_path, "-f", "-", stdin=json.dumps(eviction))
    wait_until(
        lambda: uids(cluster, namespace).get("solo", evicted_pod["uid"]),
        lambda uid: uid != evicted_pod["uid"],
        description="another pod",
    )
    wait(cluster, "cell", "solo", namespace, status="True", reason="Ready")


def test_a_deleted_team_leaves_nothing(cluster: Installed, namespace: str, image: str) -> None:
    cluster.apply(team(namespace, image))
    wait(cluster, "formation", "team", namespace, status="True", reason="Ready")
    cluster.kubectl("delete", "formation", "team", "-n", namespace)
    kinds = "cells,deployments,services,pods,serviceaccounts,configmaps,pvc"
    selector = "app.kubernetes.io/managed-by=kais,kais.io/formation=team"
    wait_until(
        lambda: cluster.list(kinds, namespace, selector),
        lambda remaining: remaining == [],
        description="an empty namespace",
        timeout_s=60,
    )
