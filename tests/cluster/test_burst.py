"""Many uses at once: how often each object is looked at, and that a restart changes none."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.running import Cluster, Operator, Process, free_port, wait_for

pytestmark = pytest.mark.cluster

USES = 100
KINDS = ("blueprintinstances", "formations", "cells", "blueprints", "blueprintrevisions")
CHILDREN = ("deployments", "services", "serviceaccounts", "configmaps")
CELL = {"mode": "Service", "container": {"image": "none:1", "ports": [{"containerPort": 80}]}}


def blueprint() -> dict[str, Any]:
    cells = [{"name": name, "spec": CELL} for name in ("left", "right")]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": "pair"},
        "spec": {"formation": {"cells": cells, "topology": {"type": "full_mesh"}}},
    }


def use(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "metadata": {"name": f"use-{number}"},
        "spec": {"blueprintRef": {"name": "pair"}},
    }


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Cluster:
    name = f"burst-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", name)
    return Cluster(control_plane.kubectl, name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("burst")


@pytest.fixture(scope="module")
def store_url(folder: Path) -> Iterator[str]:
    port = free_port()
    arguments = ["kais-knowledge", "serve", "--db", str(folder / "k.db"), "--host", "127.0.0.1"]
    service = Process([*arguments, "--port", str(port), "--auth", "none"], {}, folder / "store.log")
    yield f"http://127.0.0.1:{port}"
    service.end()


def start(cluster: Cluster, plane: ControlPlane, store_url: str, log: Path) -> Operator:
    operator = Operator(
        plane.kubeconfig,
        namespace=cluster.namespace,
        namespaces=cluster.namespace,
        store_url=store_url,
        log=log,
    )
    operator.wait_ready()
    return operator


def is_applied(body: dict[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Applied" and c["status"] == "True" for c in conditions)


def looks(operator: Operator, kind: str) -> float:
    return operator.metric(f'kais_reconcile_total{{kind="{kind}"')


def wait_quiet(operator: Operator) -> None:
    """Wait until no look was taken for four seconds."""
    before = -1.0
    while (now := operator.metric("kais_reconcile_total")) != before:
        before = now
        time.sleep(4)


def test_a_burst_takes_few_looks_and_a_restart_writes_nothing(
    cluster: Cluster, control_plane: ControlPlane, store_url: str, folder: Path
):
    operator = start(cluster, control_plane, store_url, folder / "first.log")
    cluster.apply(blueprint())
    wait_for(lambda: cluster.status("blueprints", "pair").get("servedRevision"), what="a revision")
    cluster.apply(*(use(number) for number in range(USES)))
    wait_for(
        lambda: (
            sum(map(is_applied, cluster.items("cells"))) == 2 * USES
            and sum(map(is_applied, cluster.items("blueprintinstances"))) == USES
            and sum(map(is_applied, cluster.items("formations"))) == USES
        ),
        what="everything is applied",
        within_s=240,
    )
    assert looks(operator, "BlueprintInstance") <= 3 * USES
    assert looks(operator, "Formation") <= 3 * USES
    assert looks(operator, "Cell") <= 3 * 2 * USES
    assert len(cluster.items("deployments")) == len(cluster.items("services")) == 2 * USES

    # The last numbers are told half a minute after the first, at the latest.
    wait_for(
        lambda: cluster.status("blueprints", "pair").get("usageCount") == USES,
        what="the Blueprint counts them all",
        within_s=60,
    )
    wait_quiet(operator)
    settled = cluster.bodies(*KINDS, *CHILDREN)
    assert operator.end() == 0
    again = start(cluster, control_plane, store_url, folder / "again.log")
    wait_for(
        lambda: again.metric("kais_reconcile_total") >= 4 * USES, what="all was looked at again"
    )
    wait_quiet(again)
    now = cluster.bodies(*KINDS, *CHILDREN)
    assert now.keys() == settled.keys()
    changed = {name: (settled[name], now[name]) for name in now if settled[name] != now[name]}
    assert not changed
    writes = [
        again.metric(f'kais_api_requests_total{{verb="{verb}"')
        for verb in ("create", "delete", "patch status")
    ]
    assert writes == [0, 0, 0]
    again.end()
