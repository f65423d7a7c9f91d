"""What the chart's pre-delete hook does, before a real API server."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kais import uninstall_steps
from kais_operator.clock import SystemClock
from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Start, wait_for
from tests.cluster.test_namespace_goes import QUOTA
from tests.fakes import teams

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kais-operator", "labels": {"a": "b"}},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "x", "image": "x"}]},
        },
    },
}


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "operator-1", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "x", "image": "x"}]},
}


def under_way(cluster: Cluster, *bodies: Body) -> None:
    """Bring a mission to its first attempt."""
    cluster.apply(QUOTA)
    for body in (teams.team(), teams.work(), *bodies):
        cluster.apply({**body, "metadata": {"name": body["metadata"]["name"]}})
    wait_for(lambda: cluster.get("jobs", "doctor-a1"), subject="the first attempt")


def held(cluster: Cluster) -> set[str]:
    return {
        kind
        for kind in ("missions", "ksc")
        if any(body["metadata"].get("finalizers") for body in cluster.items(kind))
    }


def is_led(cluster: Cluster) -> bool:
    return uninstall_steps.is_led(cluster.get("lease", "kais-operator"), SystemClock().now())


def hook(plane: ControlPlane, cluster: Cluster) -> str:
    """Run the program of the hook as the chart does, and give its output."""
    process = run_hook(plane, cluster)
    assert process.returncode == 0, process.stderr
    return process.stdout


def run_hook(plane: ControlPlane, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    env = {
        "KUBECONFIG": str(plane.kubeconfig),
        "KAIS_OPERATOR_NAMESPACE": cluster.namespace,
        "KAIS_WATCH_NAMESPACES": cluster.namespace,
    }
    command = [sys.executable, "-m", "kais_operator.uninstall_hook", "kais-operator", "a=b"]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=150, check=False
    )


def test_the_operator_ends_the_runs_before_it_is_stopped(
    control_plane: ControlPlane, cluster: Cluster, start: Start
) -> None:
    running = start()
    running.wait_ready()
    cluster.apply(POD)
    under_way(cluster)
    cluster.apply(OPERATOR)
    with ThreadPoolExecutor() as pool:
        hooked = pool.submit(hook, control_plane, cluster)
        wait_for(lambda: not cluster.get("deployments", "kais-operator"), subject="it is deleted")
        assert running.end() == 0
        cluster.kubectl("delete", "pod", "operator-1")
        output = hooked.result()
    assert f"Mission/{cluster.namespace}/doctor: its run is aborted" in output
    assert "kais-operator: deleted" in output
    mission = cluster.get("missions", "doctor")
    assert mission is not None, "no object of a user is deleted"
    assert mission["metadata"]["annotations"]["kais.io/outcome"] == "Cancelled"
    assert cluster.get("jobs", "doctor-a1") is None


def test_an_operator_that_runs_elsewhere_is_to_be_stopped_first(
    control_plane: ControlPlane, cluster: Cluster, start: Start
) -> None:
    running = start()
    running.wait_ready()
    cluster.apply({**teams.scope(deletionPolicy="Delete"), "metadata": {"name": "memory"}})
    wait_for(lambda: held(cluster) == {"ksc"}, subject="the scope is held")
    lease = cluster.get("lease", "kais-operator")
    assert lease is not None
    holder = lease["spec"]["holderIdentity"]
    refused = run_hook(control_plane, cluster)
    assert refused.returncode == 1
    assert f"stop the operator {holder}, then run it again" in refused.stderr
    assert "finalizer removed" not in refused.stdout
    assert held(cluster) == {"ksc"}
    assert running.end() == 0
    hook(control_plane, cluster)
    assert held(cluster) == set()


def test_without_an_operator_every_object_can_be_deleted_afterwards(
    control_plane: ControlPlane, cluster: Cluster, start: Start
) -> None:
    running = start()
    running.wait_ready()
    under_way(cluster, teams.scope(deletionPolicy="Delete"))
    wait_for(lambda: held(cluster) == {"missions", "ksc"}, subject="both kinds are held")
    running.kill()
    lease_ends = "the Lease is older than an operator that leads renews it"
    wait_for(lambda: not is_led(cluster), subject=lease_ends)
    output = hook(control_plane, cluster)
    assert output.count(f"Lease/{cluster.namespace}/kais-operator: waiting 30 s for the Lease") == 1
    assert f"Job/{cluster.namespace}/doctor-a1: deleted; its run did not end" in output
    assert held(cluster) == set()
    assert [body["metadata"]["name"] for body in cluster.items("missions")] == ["doctor"]
    assert [body["metadata"]["name"] for body in cluster.items("ksc")]
    timeout = ("--timeout=20s", "--all", "-n", cluster.namespace)
    control_plane.kubectl("delete", "missions,ksc,formations,cells", *timeout)
    cluster.kubectl("delete", "lease", "kais-operator")
    assert hook(control_plane, cluster) == "", "a second time there is nothing to do"
