"""A restart over many objects at rest writes nothing: neither to them nor beside them.

KAIS_SOAK_ROUNDS at 100 or above makes them 1,000.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import Cluster, Operator, Start, wait_for

pytestmark = pytest.mark.cluster

IS_SOAK = int(os.environ.get("KAIS_SOAK_ROUNDS", "10")) >= 100  # noqa: TID251 (how many)
USES = 200 if IS_SOAK else 40
KINDS = ("blueprintinstances", "formations", "cells", "missions", "jobs")
READS = ("get", "list", "watch")


def blueprint() -> dict[str, Any]:
    cell = {"name": "lead", "spec": {"mode": "Task", "container": {"image": "greeter:1"}}}
    fields = {"objective": "rest", "entrypoint": {"cell": "lead"}}
    spec = {"formation": {"cells": [cell]}, "mission": fields}
    return _object("Blueprint", "resting", spec)


def use(number: int) -> dict[str, Any]:
    return _object("BlueprintInstance", f"u{number}", {"blueprintRef": {"name": "resting"}})


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "kais.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def is_settled(cluster: Cluster) -> bool:
    missions = cluster.items("missions")
    return len(missions) == USES and all(
        any(
            c["type"] == "Recorded" and c["status"] == "True"
            for c in (mission.get("status") or {}).get("conditions") or ()
        )
        for mission in missions
    )


def wait_quiet(operator: Operator, *, for_s: float = 8) -> None:
    """Wait until no look was taken for a while."""
    initial_seconds = -1.0
    while (now := operator.metric("kais_reconcile_total")) != initial_seconds:
        initial_seconds = now
        time.sleep(for_s)


def writes(control_plane: ControlPlane, *, final_state: int, namespace: str) -> list[str]:
    """Name what was written in a namespace since a line of the audit log, but for Leases."""
    results = []
    for line in control_plane.audit_log.read_text().splitlines()[final_state:]:
        entry = json.loads(line)
        object_ref = entry.get("objectRef") or {}
        is_ours = (
            object_ref.get("namespace") == namespace and object_ref.get("resource") != "leases"
        )
        if is_ours and entry["verb"] not in READS:
            results.append(f"{entry['verb']} {object_ref['resource']}/{object_ref.get('name')}")
    return results


def test_a_restart_over_objects_at_rest_writes_nothing(
    cluster: Cluster, start: Start, control_plane: ControlPlane
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(blueprint(), *(use(number) for number in range(USES)))
    with Kubelet(cluster, lambda _: (0, "rested")) as kubelet:
        wait_for(lambda: is_settled(cluster), subject="all have ended", within_s=60 + 3 * USES)
    assert kubelet.problem is None
    # The last statistics are told half a minute after the first, at the latest.
    wait_for(
        lambda: cluster.status("blueprints", "resting").get("succeeded") == USES,
        subject="the Blueprint counts them all",
    )
    wait_quiet(operator)
    settled = cluster.versions("blueprints", "blueprintrevisions", *KINDS)
    assert len(settled) >= len(KINDS) * USES
    assert operator.end() == 0
    lines = len(control_plane.audit_log.read_text().splitlines())
    restarted_operator = start(name="again")
    restarted_operator.wait_ready()
    own_count = len(KINDS) - 1  # a Job is looked at with its Mission
    wait_for(
        lambda: restarted_operator.metric("kais_reconcile_total") >= own_count * USES,
        subject="all was looked at again",
        within_s=120,
    )
    wait_quiet(restarted_operator)
    assert restarted_operator.metric('kais_reconcile_total{kind="Mission",result="error"}') == 0
    assert writes(control_plane, final_state=lines, namespace=cluster.namespace) == []
    assert cluster.versions("blueprints", "blueprintrevisions", *KINDS) == settled
