"""An API server that cannot be reached, and watches that fall silent without a word.

Whatever was created, changed or deleted meanwhile is found within 90 s.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Operator, Start, wait_for
from tests.cluster.proxy import Proxy

pytestmark = pytest.mark.cluster

AWAY_S = 90
HEALS_S = 90
WATCHES = 14
"""Fewer than the operator has: one for each kind."""
CELL = {"mode": "Task", "container": {"image": "greeter:1"}}


def formation(name: str, *cells: str) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name},
        "spec": {"cells": [{"name": cell, "spec": CELL} for cell in cells or ("lead",)]},
    }


def mission(name: str, formation: str) -> dict[str, Any]:
    spec = {"formationRef": formation, "objective": "greet", "entrypoint": {"cell": "lead"}}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Mission",
        "metadata": {"name": name},
        "spec": {**spec, "completion": {"maxAttempts": 1}},
    }


@pytest.fixture
def operator(
    start: Start, control_plane: ControlPlane, proxy: Proxy, tmp_path: Path, cluster: Cluster
) -> Operator:
    """Start an operator behind the proxy, with a team at rest and a mission under way."""
    text = control_plane.kubeconfig.read_text()
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(text.replace(control_plane.server, f"https://127.0.0.1:{proxy.port}"))
    started = start(kubeconfig=elsewhere)
    started.wait_ready()
    cluster.apply(*(formation(name) for name in ("stays", "changes", "goes")))
    cluster.apply(mission("under-way", "stays"))
    wait_for(lambda: len(cells(cluster)) == 3, subject="three cells")
    wait_for(lambda: cluster.items("pods"), subject="the mission's pod")
    wait_for(
        lambda: all(is_ready(cluster, name) for name in ("stays", "changes", "goes")),
        subject="the teams are ready",
    )
    return started


def cells(cluster: Cluster) -> set[str]:
    return {cell["metadata"]["name"] for cell in cluster.items("cells")}


def is_ready(cluster: Cluster, name: str) -> bool:
    return cluster.condition("formations", name, "Ready").get("status") == "True"


def change_everything(cluster: Cluster) -> None:
    """Create, change and delete what the operator looks after, and end its mission's pod."""
    cluster.apply(formation("comes"), formation("changes", "lead", "helper"), mission("m", "comes"))
    cluster.kubectl("delete", "formation", "goes", "--wait=false")
    cluster.kubectl("delete", "configmap", "topology-stays")
    cluster.kubectl("annotate", "cell", "stays-lead-0", "somebody=was-here")
    cluster.kubectl(
        *("patch", "cell", "stays-lead-0", "--type=merge", "-p"),
        json.dumps({"spec": {"container": {"image": "evil:1"}}}),
    )
    (pod,) = cluster.items("pods", labels="kais.io/mission=under-way")
    cluster.finish_pod(pod, exit_code=0, message="while nobody looked")


def is_healed(cluster: Cluster) -> str | None:
    """Say what is still as it was; None when everything was seen to."""
    image = ((cluster.get("cells", "stays-lead-0") or {}).get("spec") or {}).get("container")
    result = {
        "cells": cells(cluster)
        == {"stays-lead-0", "changes-lead-0", "changes-helper-0", "comes-lead-0"},
        "drift": (image or {}).get("image") == "greeter:1",
        "map": cluster.get("configmaps", "topology-stays") is not None,
        "gone": cluster.get("formations", "goes") is None,
        "ended": cluster.status("missions", "under-way").get("result") == "while nobody looked",
        "begun": cluster.get("jobs", "m-a1") is not None,
        "ready": is_ready(cluster, "comes"),
    }
    return next((subject for subject, is_so in result.items() if not is_so), None)


def wait_healed(cluster: Cluster) -> None:
    started_at = time.monotonic() + HEALS_S
    while (remainder := is_healed(cluster)) is not None:
        assert time.monotonic() < started_at, f"not within {HEALS_S} s: {remainder}"
        time.sleep(0.5)


def check_runs_once(cluster: Cluster) -> None:
    assert {job["metadata"]["name"] for job in cluster.items("jobs")} == {"under-way-a1", "m-a1"}


def test_an_api_server_that_was_away_for_90_s_is_caught_up_with(
    cluster: Cluster, operator: Operator, proxy: Proxy
) -> None:
    assert proxy.cut() > WATCHES
    change_everything(cluster)
    time.sleep(AWAY_S)
    assert operator.ask("/healthz") == (200, "the event loop turns\n")
    assert is_healed(cluster) is not None, "nobody could have seen to it"
    proxy.mend()
    wait_healed(cluster)
    check_runs_once(cluster)
    assert operator.ask("/readyz") == (200, "ready\n")


def test_watches_that_fall_silent_without_a_word_are_opened_again_and_miss_nothing(
    cluster: Cluster, operator: Operator, proxy: Proxy
) -> None:
    assert proxy.swallow() > WATCHES
    change_everything(cluster)
    wait_healed(cluster)
    check_runs_once(cluster)
    assert operator.ask("/readyz") == (200, "ready\n")
    assert operator.ask("/healthz")[0] == 200


def test_a_second_replica_takes_over_from_a_leader_that_was_killed_and_goes_on(
    cluster: Cluster, start: Start
) -> None:
    leader = start(name="leader")
    leader.wait_ready()
    second = start(name="second")
    wait_for(lambda: "standing by" in second.log.read_text(), subject="the second stands by")
    assert second.ask("/readyz") == (200, "ready\n")
    cluster.apply(formation("stays"), mission("under-way", "stays"))
    (pod,) = wait_for(lambda: cluster.items("pods"), subject="the mission's pod")
    leader.kill()
    killed_at = time.monotonic()
    cluster.finish_pod(pod, exit_code=0, message="done")
    cluster.apply(formation("comes"))
    wait_for(second.leads, subject="the second leads", within_s=30)
    wait_for(
        lambda: cluster.status("missions", "under-way").get("outcome"), subject="the end is told"
    )
    assert time.monotonic() - killed_at < 40
    assert cluster.status("missions", "under-way")["outcome"] == "Succeeded"
    wait_for(lambda: is_ready(cluster, "comes"), subject="the new team is ready")
    assert [job["metadata"]["name"] for job in cluster.items("jobs")] == ["under-way-a1"]
