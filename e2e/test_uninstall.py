"""Helm removes the release while a mission runs: the run ends, every object stays and can go."""

import subprocess
from collections.abc import Iterator

import pytest

from e2e.support import audit, manifests
from e2e.support.installed import KAIS_NAMESPACE, Installed, conditions
from e2e.support.waiting import wait_until
from kais_cluster import charts, image_catalog, operations

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


@pytest.fixture
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("uninstall")


@pytest.fixture
def _installed_again(cluster: Installed) -> Iterator[None]:
    with audit.refusals_expected(cluster):
        yield
        charts.install(image_catalog.checkout(), operations.current_cluster())


def _busy(cluster: Installed, namespace: str) -> None:
    """Bring a mission to a running pod, beside a scope whose deletion would erase."""
    cluster.apply(manifests.formation("busy", namespace, "import time; time.sleep(3600)"))
    cluster.apply(manifests.mission("busy", namespace))
    scope = {"level": "formation", "formation": "busy", "deletionPolicy": "Delete"}
    head = {"apiVersion": "kais.io/v1", "kind": "KnowledgeScope"}
    cluster.apply({**head, "metadata": {"name": "busy", "namespace": namespace}, "spec": scope})
    wait_until(
        lambda: [pod["status"]["phase"] for pod in cluster.list("pod", namespace)],
        lambda phases: phases == ["Running"],
        description="a running pod",
    )
    wait_until(
        lambda: cluster.get("knowledgescope", "busy", namespace),
        lambda body: bool((body or {}).get("metadata", {}).get("finalizers")),
        description="a scope that is held",
    )


@pytest.mark.usefixtures("_installed_again")
def test_uninstalling_ends_runs_and_lets_every_object_go(
    cluster: Installed, namespace: str
) -> None:
    _busy(cluster, namespace)
    charts.uninstall(operations.current_cluster())
    mission = cluster.get("mission", "busy", namespace)
    assert mission is not None, "no object of a user is deleted"
    assert mission["status"]["outcome"] == "Cancelled"
    assert conditions(mission)["Recorded"]["status"] == "True"
    for kind in ("mission", "knowledgescope", "formation"):
        (body,) = cluster.list(kind, namespace)
        assert not body["metadata"].get("finalizers"), kind
    remaining = cluster.list("job", KAIS_NAMESPACE) + cluster.list("role", KAIS_NAMESPACE)
    assert remaining == [], "the hook leaves nothing"
    assert "missions.kais.io" in cluster.kubectl("get", "crds"), "the kinds stay"
    objects = "missions,knowledgescopes,formations,cells"
    cluster.kubectl("delete", objects, "--all", "-n", namespace, "--timeout=60s")


@pytest.mark.usefixtures("_installed_again")
def test_kais_uninstall_does_the_same_without_helm(cluster: Installed, namespace: str) -> None:
    _busy(cluster, namespace)
    completed: subprocess.CompletedProcess[str] = cluster.kais("uninstall")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert f"Mission/{namespace}/busy: its run is aborted" in completed.stdout
    assert f"KnowledgeScope/{namespace}/busy: finalizer removed" in completed.stdout
    mission = cluster.get("mission", "busy", namespace)
    assert mission is not None
    assert mission["status"]["outcome"] == "Cancelled"
    objects = "missions,knowledgescopes,formations,cells"
    cluster.kubectl("delete", objects, "--all", "-n", namespace, "--timeout=60s")
