"""A namespace that is deleted goes within a minute, whatever is away meanwhile; no run stays open.

Without a node nobody ends pods, so the missions here have none yet: their Jobs wait for a quota.
"""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.running import Cluster, Operator, free_port, wait_for
from tests.fakes import teams

pytestmark = pytest.mark.cluster
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-pods"},
    "spec": {"hard": {"count/pods": "0"}},
}


def every_kind() -> list[dict[str, Any]]:
    """Give objects of each kind that a user writes; revisions and children are made of them."""
    cell = {"name": "lead", "spec": teams.task()}
    service = {"mode": "Service", "container": {"image": "w:1", "ports": [{"containerPort": 80}]}}
    told = {"objective": "explain", "entrypoint": {"cell": "lead"}}
    made = (
        teams.team(),
        teams.work(),
        teams.scope(deletionPolicy="Delete"),
        teams.thing("Cell", "alone", spec=service),
        teams.thing("Blueprint", "plan", spec={"formation": {"cells": [cell]}, "mission": told}),
        teams.thing("BlueprintInstance", "use", spec={"blueprintRef": {"name": "plan"}}),
    )
    return [{**one, "metadata": {"name": one["metadata"]["name"]}} for one in made]


def runs(store_url: str, namespace: str) -> list[dict[str, Any]]:
    url = f"{store_url}/v1/runs?namespace={namespace}"
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own service
        return list(json.load(answer)["runs"])


def all_ended(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return found if all(run.get("outcome") for run in found) else []


@pytest.mark.parametrize("store", ["there", "away"])
@pytest.mark.parametrize("operator", ["up", "down, then up"])
def test_a_namespace_with_every_kind_and_missions_under_way_goes_within_a_minute(
    control_plane: ControlPlane,
    cluster: Cluster,
    store_url: str,
    tmp_path: Path,
    operator: str,
    store: str,
) -> None:
    home = f"{cluster.namespace}-home"
    control_plane.kubectl("create", "namespace", home)

    def start(url: str, name: str) -> Operator:
        made = Operator(
            control_plane.kubeconfig,
            namespace=home,
            namespaces="",
            store_url=url,
            log=tmp_path / f"{name}.log",
        )
        made.wait_ready()
        return made

    away = f"http://127.0.0.1:{free_port()}"
    running = start(store_url, "first")
    try:
        cluster.apply(QUOTA)
        cluster.apply(*every_kind())
        wait_for(lambda: cluster.get("jobs", "doctor-a1"), what="the first attempt")
        use = "the first attempt of the use"
        wait_for(lambda: cluster.get("jobs", "use-a1"), what=use, within_s=60)
        wait_for(lambda: cluster.items("bpr"), what="a revision")
        wait_for(lambda: cluster.items("deployments"), what="the service cell's Deployment")
        if operator != "up" or store == "away":
            running.end()
        if operator == "up" and store == "away":
            running = start(away, "second")
        control_plane.kubectl("delete", "namespace", cluster.namespace, "--wait=false")
        if operator != "up":
            time.sleep(3)
            blocked = cluster.get("missions", "doctor")
            assert blocked is not None
            assert blocked["metadata"]["finalizers"] == ["kais.io/finalizer"]
            wait_for(
                lambda: "kais.io/finalizer" in _words(control_plane, cluster.namespace),
                what="the namespace names what it waits for",
            )
            running = start(away if store == "away" else store_url, "second")
        began = time.monotonic()
        wait_for(
            lambda: not _is_there(control_plane, cluster.namespace),
            what="the namespace is gone",
            within_s=60,
        )
        assert time.monotonic() - began < 60
        if store == "away":
            outbox = control_plane.kubectl("get", "configmaps", "-n", home, "-o", "name")
            assert "kais-outbox-" in outbox
            running.end()
            running = start(store_url, "third")
        ended = wait_for(
            lambda: all_ended(runs(store_url, cluster.namespace)),
            what=f"both runs' ends are recorded: {runs(store_url, cluster.namespace)}",
        )
        assert [run["outcome"] for run in ended] == ["Cancelled", "Cancelled"]
    finally:
        running.kill()


def _words(control_plane: ControlPlane, namespace: str) -> str:
    told = json.loads(control_plane.kubectl("get", "namespace", namespace, "-o", "json"))
    return json.dumps(told["status"].get("conditions"))


def _is_there(control_plane: ControlPlane, namespace: str) -> bool:
    return f"namespace/{namespace}" in control_plane.kubectl("get", "ns", "-o", "name").split()
