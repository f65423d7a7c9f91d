"""A service cell whose node falls silent: evicted after 30 s, replaced, and never forced away.

The nodes are made by hand and their heartbeats told as a kubelet tells its own; the API server and
the controllers that judge, taint and evict are real. Three nodes, because Kubernetes evicts nothing
while most of a cluster is silent.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kais_cluster import errors
from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

NODES = ("node-a", "node-b", "node-c")
SILENT_S = 180


class Kubelets:
    """Says of nodes that they are alive, until one is told to be silent."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._alive = set(NODES)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        for name in NODES:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            self._plane.kubectl("apply", "-f", "-", stdin=json.dumps(node))
            self._renew(name)
        self._thread.start()

    def silence(self, name: str) -> None:
        self._alive.discard(name)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        self._plane.kubectl("delete", "node", *NODES, "--wait=false")

    def _run(self) -> None:
        while not self._stop.wait(5):
            for name in sorted(self._alive):
                try:
                    self._renew(name)
                except errors.CommandFailed:
                    continue  # the next round is 5 s away, and silence begins at 40 s

    def _renew(self, name: str) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "ready",
        }
        patch = {"status": {"conditions": [{**condition, "lastHeartbeatTime": at}]}}
        self._plane.kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps(patch))


@pytest.fixture
def kubelets(control_plane: ControlPlane) -> Iterator[Kubelets]:
    kubelets = Kubelets(control_plane)
    kubelets.start()
    yield kubelets
    kubelets.stop()


def live_pods(cluster: Cluster) -> list[dict[str, Any]]:
    pods = cluster.items("pods", labels="kais.io/cell=solo")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def run_on(cluster: Cluster, pod: dict[str, Any], node: str) -> None:
    """Bind a pod to a node, as the scheduler does, and say that it runs, as its kubelet does."""
    name = pod["metadata"]["name"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/binding"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
    conditions = [{"type": t, "status": "True"} for t in ("Ready", "ContainersReady")]
    status = json.dumps({"status": {"phase": "Running", "conditions": conditions}})
    cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", status)


def test_a_service_cell_goes_on_elsewhere_when_its_node_falls_silent(
    cluster: Cluster, start: Start, kubelets: Kubelets
) -> None:
    start().wait_ready()
    container = {"image": "worker:1", "ports": [{"containerPort": 8080}]}
    cell = {"mode": "Service", "container": container}
    metadata = {"name": "solo"}
    cluster.apply({"apiVersion": "kais.io/v1", "kind": "Cell", "metadata": metadata, "spec": cell})
    first = wait_for(lambda: live_pods(cluster), subject="a pod")[0]
    run_on(cluster, first, "node-a")
    wait_for(
        lambda: cluster.condition("cells", "solo", "Ready").get("status") == "True",
        subject="the cell is ready",
    )
    kubelets.silence("node-a")
    silent_at = time.monotonic()
    second = wait_for(
        lambda: live_pods(cluster) if first["metadata"]["uid"] not in uids(cluster) else [],
        subject="a second pod",
        within_s=SILENT_S,
    )[0]
    run_on(cluster, second, "node-b")
    wait_for(
        lambda: second["metadata"]["name"] in ready_words(cluster),
        subject="the second pod makes the cell ready",
    )
    assert time.monotonic() - silent_at < SILENT_S
    lost = f"Pod/{cluster.namespace}/{first['metadata']['name']} stays terminating on node-a"
    wait_for(
        lambda: lost in ready_words(cluster), subject="the stuck pod is named", within_s=SILENT_S
    )
    remaining_pods = cluster.get("pods", first["metadata"]["name"])
    assert remaining_pods is not None, "the pod on the silent node was forced away"
    cluster.kubectl("delete", "pod", first["metadata"]["name"], "--force", "--grace-period=0")
    wait_for(lambda: "terminating" not in ready_words(cluster), subject="it is spoken of no more")


def uids(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in live_pods(cluster)}


def ready_words(cluster: Cluster) -> str:
    ready = cluster.condition("cells", "solo", "Ready")
    return str(ready.get("message", "")) if ready.get("status") == "True" else ""
