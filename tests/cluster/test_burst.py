"""Many uses at once: how often each object is looked at, and that a restart changes none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane, started_control_plane
from tests.cluster.processes import Cluster, Operator, Start, wait_for

# How often an object is reconciled depends on how far apart its children report, so nothing else
# runs on the machine while they are counted.
pytestmark = [pytest.mark.cluster, pytest.mark.alone]

USES = 100
KINDS = ("blueprintinstances", "formations", "cells", "blueprints", "blueprintrevisions")
CHILDREN = ("deployments", "services", "serviceaccounts", "configmaps")
CELL = {"mode": "Service", "container": {"image": "none:1", "ports": [{"containerPort": 80}]}}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Run a control plane of its own: the instances would burden later tests."""
    with started_control_plane() as plane:
        yield plane


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


def test_a_burst_takes_few_looks_and_a_restart_writes_nothing(cluster: Cluster, start: Start):
    operator = start()
    operator.wait_ready()
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
    again = start(name="again")
    again.wait_ready()
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
