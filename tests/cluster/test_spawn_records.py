"""Spawn limits without the admission policy: who deletes or replaces a Cell evades none of them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster


def cell(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Cell",
        "metadata": {"name": name},
        "spec": {"mode": "Task", "container": {"image": "x"}, **spec},
    }


def wait_applied(cluster: Cluster, name: str, reason: str) -> None:
    wait_for(
        lambda: cluster.condition("cells", name, "Applied").get("reason") == reason,
        what=f"Cell {name} has Applied with the reason {reason}",
    )


def create(cluster: Cluster, body: dict[str, Any], reason: str) -> None:
    """Create a Cell and wait for its verdict and for the next second, in which others are younger.

    The API server counts ages in seconds.
    """
    name = body["metadata"]["name"]
    cluster.apply(body)
    wait_applied(cluster, name, reason)
    stored = cluster.get("cells", name)
    assert stored is not None
    created = datetime.fromisoformat(stored["metadata"]["creationTimestamp"]).timestamp()
    wait_for(
        lambda: time.time() >= created + 1,  # noqa: TID251 (compared with the API server's clock)
        what="the next second",
    )


def test_neither_deletion_nor_replacement_of_a_cell_ends_its_spawn_limits(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    root = cell("root", apiAccess=True, recursion={"maxDescendants": 1})
    create(cluster, root, "Applied")
    create(cluster, cell("child", apiAccess=True), "Applied")
    cluster.kubectl("delete", "cells.kais.io", "root")
    create(cluster, cell("orphan"), "SpawnRefused")
    cluster.kubectl("delete", "serviceaccount", "root")  # no garbage collector runs here
    wider = cell("root", apiAccess=True, recursion={"maxDescendants": 9})
    cluster.kubectl("delete", "cells.kais.io", "orphan")
    create(cluster, wider, "Applied")
    assert (
        "spawn limits ignore the change of recursion"
        in (cluster.condition("cells", "root", "Ready")["message"])
    )
    create(cluster, cell("second"), "SpawnRefused")
    cluster.kubectl("annotate", "serviceaccount", "kais-user", "limits.kais.io/root-")
    wait_applied(cluster, "second", "Applied")
