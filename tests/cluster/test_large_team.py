"""The largest team that a formation may be, made by an operator that serves others meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kais.resources.formation import MAX_CELLS
from tests.cluster.conftest import ControlPlane, started_control_plane
from tests.cluster.processes import Cluster, Operator, Start, wait_for

pytestmark = pytest.mark.cluster

CELL = {"mode": "Task", "container": {"image": "greeter:1"}}
TEMPLATES = 10
WITHIN_S = 900
SILENT_S = 60
"""The probe of the chart restarts an operator that has not answered for so long."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Keep a thousand cells away from the operators of other files."""
    with started_control_plane() as plane:
        yield plane


def formation(name: str, *, templates: int, replicas: int) -> dict[str, Any]:
    cells = [{"name": f"w{i}", "replicas": replicas, "spec": CELL} for i in range(templates)]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name},
        "spec": {"cells": cells, "topology": {"type": "full_mesh"}},
    }


def is_ready(cluster: Cluster, name: str) -> bool:
    return cluster.condition("formations", name, "Ready").get("status") == "True"


@pytest.mark.timeout(WITHIN_S + 300)
def test_the_largest_team_becomes_ready_while_others_are_served(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(formation("large", templates=TEMPLATES, replicas=MAX_CELLS // TEMPLATES))
    wait_for(
        lambda: cluster.get("configmaps", "topology-large"), subject="the large team is being made"
    )
    cluster.apply(formation("small", templates=1, replicas=1))
    wait_for(lambda: is_ready(cluster, "small"), subject="the small team is ready")
    assert not is_ready(cluster, "large"), "the small team did not wait for the large one"
    wait_until_large_is_ready(cluster, operator)
    data = cluster.get("configmaps", "topology-large")["data"]
    assert list(data) == ["topology.json"]
    assert len(cluster.items("cells", labels="kais.io/formation=large")) == MAX_CELLS
    assert cluster.status("formations", "large")["display"]["cells"] == "1000/1000"


def wait_until_large_is_ready(cluster: Cluster, operator: Operator) -> None:
    """Probe the operator until the team is ready: one whose loop stands still is not alive."""
    answered_at = time.monotonic()

    def look() -> bool:
        nonlocal answered_at
        status, text = operator.ask("/healthz")
        if status == 200:
            answered_at = time.monotonic()
        assert time.monotonic() - answered_at < SILENT_S, (status, text)
        return is_ready(cluster, "large")

    wait_for(look, subject="the large team is ready", within_s=WITHIN_S)
