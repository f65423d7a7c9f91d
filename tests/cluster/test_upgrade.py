"""From the first version that ran end to end to this one: no revision, no pod and no Job is new.

The first version's operator and definitions come from the repository's history.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kais_cluster.host import ephemeral
from tests.cluster.conftest import CRDS, ControlPlane, wait_until_listed
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import Cluster, Operator, wait_for

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
FIRST = "07f907e8d32b986cf9ea7ae9f91fc8622924f5a0"
"""The last commit of the first version."""
PARTS = ("crds", "kais", "knowledge_client", "operator")
KINDS = ("bp", "bpr", "bpi", "formations", "cells", "missions")
WORKLOADS = ("deployments", "jobs")


def objects() -> list[dict[str, Any]]:
    """Give a use that ends, one that goes on, and a mission by hand; service cells are younger."""
    task = {"name": "lead", "spec": {"mode": "Task", "container": {"image": "greeter:1"}}}
    fields = {"objective": "greet {{ who }}", "entrypoint": {"cell": "lead"}}
    principals = [{"name": "who", "type": "string", "default": "world"}]
    greeting = {"parameters": principals, "formation": {"cells": [task]}, "mission": fields}
    by_hand = {"formationRef": "team", "objective": "explain", "entrypoint": {"cell": "lead"}}
    return [
        _object("Blueprint", "greeting", greeting),
        _object("BlueprintInstance", "ends", {"blueprintRef": {"name": "greeting"}}),
        _object("BlueprintInstance", "goes-on", {"blueprintRef": {"name": "greeting"}}),
        _object("Formation", "team", {"cells": [task]}),
        _object("Mission", "by-hand", by_hand),
    ]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "kais.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the first version."""
    folder = tmp_path_factory.mktemp("first")
    packed = subprocess.run(
        ["git", "archive", FIRST, *PARTS], cwd=ROOT, capture_output=True, check=False
    )
    assert packed.returncode == 0, f"fetch the whole history: {packed.stderr.decode()}"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def old_plane(first: Path) -> Iterator[ControlPlane]:
    """Run a control plane with the first version's definitions."""
    with ephemeral.control_plane() as host:
        plane = ControlPlane(host)
        plane.kubectl("apply", "--server-side", "-f", str(first / "crds"))
        plane.kubectl("wait", "--for=condition=Established", "-f", str(first / "crds"))
        wait_until_listed(plane)
        yield plane


def path_of(first: Path) -> str:
    """Give the PYTHONPATH under which Python finds the first version, before the installed one."""
    return f"{first / 'operator'}:{first}"


def check_is_found(first: Path) -> None:
    reads = [sys.executable, "-P", "-c", "import kais_operator; print(kais_operator.__file__)"]
    env = {"PYTHONPATH": path_of(first)}
    output = subprocess.run(reads, env=env, capture_output=True, text=True, check=True).stdout
    assert output.startswith(str(first)), output


def wait_quiet(read: Callable[[], dict[str, Any]], *, for_s: float = 10) -> dict[str, Any]:
    """Wait until what is looked at stays the same for a while, and give it."""
    initial_state = read()
    while True:
        time.sleep(for_s)
        now = read()
        if now == initial_state:
            return now
        initial_state = now


def templates(cluster: Cluster) -> dict[str, Any]:
    """Give whose each workload is, and the template of its pods."""
    return {
        f"{kind}/{body['metadata']['name']}": (body["metadata"]["uid"], body["spec"]["template"])
        for kind in WORKLOADS
        for body in cluster.items(kind)
    }


def specs(cluster: Cluster) -> dict[str, Any]:
    """Give which edition each object of ours is, and its spec."""
    return {
        f"{kind}/{body['metadata']['name']}": (
            body["metadata"]["uid"],
            body["metadata"]["generation"],
            json.dumps(body["spec"], sort_keys=True),
        )
        for kind in KINDS
        for body in cluster.items(kind)
    }


def test_an_upgrade_makes_no_revision_restarts_no_pod_and_finishes_what_runs(
    old_plane: ControlPlane, first: Path, store_url: str, tmp_path: Path
) -> None:
    old_plane.kubectl("create", "namespace", "upgraded")
    cluster = Cluster(old_plane.kubectl, old_plane.lister, "upgraded")
    settings = {"namespace": "upgraded", "namespaces": "upgraded", "store_url": store_url}
    check_is_found(first)
    old = Operator(
        old_plane.kubeconfig,
        log=tmp_path / "old.log",
        program=(sys.executable, "-P", "-c", "from kais_operator import __main__; __main__.main()"),
        python_path=path_of(first),
        **settings,
    )
    try:
        old.wait_ready()
        cluster.apply(*objects())
        (ends,) = wait_for(
            lambda: cluster.items("pods", labels="kais.io/mission=ends"),
            subject="the first use runs",
        )
        cluster.finish_pod(ends, exit_code=0, message="done")
        wait_for(
            lambda: cluster.status("bpi", "ends").get("outcome") == "Succeeded", subject="it ends"
        )
        wait_for(lambda: len(cluster.items("jobs")) == 3, subject="three missions have begun")
        specs_before = wait_quiet(lambda: specs(cluster))
        templates_before = templates(cluster)
    finally:
        old.end()

    old_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    new = Operator(old_plane.kubeconfig, log=tmp_path / "new.log", **settings)
    try:
        new.wait_ready()
        wait_for(
            lambda: new.metric("kais_reconcile_total") > len(specs_before), subject="all is seen"
        )
        assert wait_quiet(lambda: specs(cluster)) == specs_before
        assert templates(cluster) == templates_before
        assert new.metric('kais_reconcile_total{kind="BlueprintInstance",result="error"}') == 0
        with Kubelet(cluster, lambda _: (0, "done")):
            wait_for(
                lambda: (
                    cluster.status("bpi", "goes-on").get("outcome") == "Succeeded"
                    and cluster.status("missions", "by-hand").get("outcome") == "Succeeded"
                ),
                subject="what had begun before the upgrade ends after it",
            )
        assert len(cluster.items("jobs")) == 3, "no attempt was made twice"
        assert len(cluster.items("bpr")) == 1, "no revision was made"
    finally:
        new.kill()
