"""The largest team that a formation may be, made by an operator that serves others meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from kais.resources.formation import MAX_CELLS
from tests.cluster.running import Cluster, Operator, Start, wait_for

pytestmark = pytest.mark.cluster

CELL = {"mode": "Task", "container": {"image": "greeter:1"}}
TEMPLATES = 10
WITHIN_S = 900
LAG_S = 2.0
"""Far below the liveness probe's patience; an operator that computed lists lagged for minutes."""


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


def test_the_largest_team_becomes_ready_while_others_are_served(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(formation("large", templates=TEMPLATES, replicas=MAX_CELLS // TEMPLATES))
    wait_for(
        lambda: cluster.get("configmaps", "topology-large"), what="the large team is being made"
    )
    cluster.apply(formation("small", templates=1, replicas=1))
    wait_for(lambda: is_ready(cluster, "small"), what="the small team is ready", within_s=60)
    lags = wait_until_large_is_ready(cluster, operator)
    data = cluster.get("configmaps", "topology-large")["data"]
    assert list(data) == ["topology.json"]
    assert len(cluster.items("cells", labels="kais.io/formation=large")) == MAX_CELLS
    assert cluster.status("formations", "large")["display"]["cells"] == "1000/1000"
    assert max(lags) < LAG_S


def wait_until_large_is_ready(cluster: Cluster, operator: Operator) -> list[float]:
    """Look at the loop's lag until the team is ready; the operator answers throughout."""
    lags: list[float] = []

    def look() -> bool:
        status, _ = operator.ask("/healthz")
        assert status == 200
        lags.append(operator.metric("kais_loop_lag_seconds"))
        return is_ready(cluster, "large")

    wait_for(look, what="the large team is ready", within_s=WITHIN_S)
    return lags
