"""The operator as a process against a real API server: runs end to end, restarts, leads and stops.

There is no node: the Job controller makes pods, and the tests say what a kubelet would say of them.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Operator, Process, Start, free_port, wait_for
from tests.cluster.proxy import Proxy

pytestmark = pytest.mark.cluster

KAIS_KINDS = (
    "blueprints",
    "blueprintrevisions",
    "blueprintinstances",
    "formations",
    "cells",
    "missions",
)
CHILDREN = ("jobs", "configmaps", "serviceaccounts")


def formation(name: str) -> dict[str, Any]:
    cell = {"mode": "Task", "container": {"image": "greeter:1", "command": ["greet"]}}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name},
        "spec": {"cells": [{"name": "lead", "spec": cell}]},
    }


def mission(name: str, formation: str, **completion: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Mission",
        "metadata": {"name": name},
        "spec": {
            "formationRef": formation,
            "objective": "greet $(CELL_NAME) and $$(X)",
            "entrypoint": {"cell": "lead"},
            "completion": {"maxAttempts": 2, **completion},
        },
    }


def blueprint(name: str) -> dict[str, Any]:
    spec = mission("m", "f")["spec"]
    del spec["formationRef"]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": name},
        "spec": {
            "parameters": [{"name": "who", "type": "string", "default": "world"}],
            "formation": formation("f")["spec"],
            "mission": {**spec, "objective": "greet {{ who }}"},
        },
    }


def instance(name: str, blueprint: str, **parameters: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "metadata": {"name": name},
        "spec": {"blueprintRef": {"name": blueprint}, "parameters": parameters},
    }


def pod_of(cluster: Cluster, mission: str, *, attempt: int = 1) -> dict[str, Any]:
    """Wait for the pod that the Job controller made for an attempt."""
    selector = f"kais.io/mission={mission},job-name={mission}-a{attempt}"
    return wait_for(
        lambda: cluster.items("pods", labels=selector), subject=f"a pod of {mission}-a{attempt}"
    )[0]


def wait_outcome(cluster: Cluster, name: str, outcome: str) -> dict[str, Any]:
    wait_for(
        lambda: (
            cluster.status("missions", name).get("outcome") == outcome
            and cluster.condition("missions", name, "Recorded").get("status") == "True"
        ),
        subject=f"mission {name} ends as {outcome} and is recorded",
    )
    return cluster.status("missions", name)


def test_a_hand_written_mission_runs_to_its_outcome(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(formation("team"), mission("greet", "team"))
    pod = pod_of(cluster, "greet")
    env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
    assert env["KAIS_MISSION"] == "greet"
    assert env["KNOWLEDGE_SCOPE"] == f"realm:{cluster.namespace}/formation:team/cell:lead-0"
    cluster.finish_pod(pod, exit_code=0, message="hello there")
    status = wait_outcome(cluster, "greet", "Succeeded")
    assert status["result"] == "hello there"
    assert status["knowledge"]["injected"] == 0
    assert cluster.status("formations", "team")["display"]["cells"] == "1/1"


def test_a_failed_attempt_is_followed_by_the_next(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(formation("team"), mission("greet", "team"))
    cluster.finish_pod(pod_of(cluster, "greet"), exit_code=1, message="lost the words")
    cluster.finish_pod(pod_of(cluster, "greet", attempt=2), exit_code=1, message="again")
    status = wait_outcome(cluster, "greet", "Failed")
    assert status["attempt"] == 2
    condition = cluster.condition("missions", "greet", "Succeeded")
    assert (condition["status"], condition["reason"]) == ("False", "TaskFailed")


def test_a_mission_ends_in_time_without_any_event(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(formation("team"), mission("slow", "team", timeout="4s"))
    status = wait_outcome(cluster, "slow", "TimedOut")
    assert status["attempt"] == 1


def test_a_use_of_a_blueprint_counts_once_and_its_second_look_writes_nothing(
    cluster: Cluster, start: Start
):
    operator = start()
    operator.wait_ready()
    cluster.apply(blueprint("hello"), instance("one", "hello", who="Ada"))
    cluster.finish_pod(pod_of(cluster, "one"), exit_code=0, message="hello Ada")
    assert wait_outcome(cluster, "one", "Succeeded")["result"] == "hello Ada"
    assert (cluster.get("missions", "one") or {})["spec"]["objective"] == "greet Ada"
    wait_for(
        lambda: cluster.status("blueprints", "hello").get("succeeded") == 1,
        subject="the Blueprint shows its use",
        within_s=4,
    )
    assert cluster.status("blueprints", "hello")["usageCount"] == 1
    assert cluster.status("blueprintinstances", "one")["outcome"] == "Succeeded"
    restarted_writes_nothing(cluster, start, operator)


def restarted_writes_nothing(cluster: Cluster, start: Start, operator: Operator) -> None:
    initial_settled_versions = settled_versions(cluster)
    assert operator.end() == 0
    restarted_operator = start(name="again")
    restarted_operator.wait_ready()
    wait_for(
        lambda: restarted_operator.metric("kais_reconcile_total") >= len(KAIS_KINDS),
        subject="all was looked at",
    )
    time.sleep(2)
    assert restarted_operator.metric('kais_reconcile_total{kind="Mission",result="error"}') == 0
    assert cluster.versions(*KAIS_KINDS, *CHILDREN) == initial_settled_versions


def settled_versions(cluster: Cluster) -> dict[str, str]:
    """Wait until nothing has changed for longer than the statistics take."""
    while True:
        initial_versions = cluster.versions(*KAIS_KINDS, *CHILDREN)
        time.sleep(7)
        if cluster.versions(*KAIS_KINDS, *CHILDREN) == initial_versions:
            return initial_versions


def test_an_idle_operator_writes_nothing_but_leases(
    cluster: Cluster, start: Start, control_plane: ControlPlane
):
    operator = start()
    operator.wait_ready()
    cluster.apply(formation("team"), blueprint("hello"))
    wait_for(
        lambda: cluster.condition("formations", "team", "Ready").get("status") == "True",
        subject="the formation is ready",
    )
    settled_versions(cluster)
    lines = len(control_plane.audit_log.read_text().splitlines())
    time.sleep(10)
    new = control_plane.audit_log.read_text().splitlines()[lines:]
    writes = [w for w in map(written, new) if w and w[1] == cluster.namespace]
    assert {resource for resource, _ in writes} <= {"leases"}


def written(line: str) -> tuple[str, str] | None:
    """Give resource and namespace of a write in the audit log."""
    entry = json.loads(line)
    if entry["verb"] in ("get", "list", "watch"):
        return None
    target = entry.get("objectRef") or {}
    return target.get("resource", ""), target.get("namespace", "")


def test_a_killed_operator_leaves_one_job_to_the_next(cluster: Cluster, start: Start):
    operator = start()
    operator.wait_ready()
    cluster.apply(formation("team"), mission("greet", "team"))
    pod = pod_of(cluster, "greet")
    operator.kill()
    cluster.finish_pod(pod, exit_code=0, message="hello")
    restarted_operator = start(name="again")
    restarted_operator.wait_ready()
    status = wait_outcome(cluster, "greet", "Succeeded")
    assert status["attempt"] == 1
    assert [job["metadata"]["name"] for job in cluster.items("jobs")] == ["greet-a1"]


def test_a_lost_lease_stops_the_writes_and_the_process_leads_again(cluster: Cluster, start: Start):
    operator = start()
    operator.wait_ready()
    take_lease(cluster, "somebody-else")
    wait_for(lambda: not operator.leads(), subject="the old leader notices")
    cluster.apply(formation("team"))
    time.sleep(5)
    assert cluster.items("cells") == []
    assert operator.ask("/readyz") == (200, "ready\n")
    take_lease(cluster, None)
    wait_for(lambda: cluster.items("cells"), subject="the same process leads again")


def take_lease(cluster: Cluster, holder: str | None) -> None:
    patch = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 60}}
    cluster.kubectl("patch", "lease", "kais-operator", "--type=merge", "-p", json.dumps(patch))


def test_a_paused_leader_writes_nothing_when_it_wakes(cluster: Cluster, start: Start):
    first = start()
    first.wait_ready()
    first.signal(signal.SIGSTOP)
    second = start(name="second")
    wait_for(second.leads, subject="the second leads")
    first.signal(signal.SIGCONT)
    wait_for(lambda: not first.leads(), subject="the first stands by")
    cluster.apply(formation("team"))
    wait_for(lambda: cluster.items("cells"), subject="the second works")
    assert "standing by" in first.log.read_text()
    assert second.leads()


def test_an_operator_that_is_told_to_stop_gives_up_its_lease(cluster: Cluster, start: Start):
    operator = start()
    operator.wait_ready()
    assert operator.end() == 0
    lease = cluster.get("leases", "kais-operator") or {}
    assert not lease["spec"].get("holderIdentity")
    assert "Traceback" not in operator.log.read_text()


def test_the_lease_is_free_at_once_though_a_pass_waits_for_the_store(
    cluster: Cluster, start: Start
):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        operator = start(store_url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        operator.wait_ready()
        cluster.apply(*[formation(f"team-{i}") for i in range(20)])
        wait_for(lambda: len(cluster.items("cells")) == 20, subject="cells that must be registered")
        operator.signal(signal.SIGTERM)
        wait_for(
            lambda: (
                not (cluster.get("leases", "kais-operator") or {})["spec"].get("holderIdentity")
            ),
            subject="the Lease is free",
            within_s=3,
        )
        wait_for(lambda: operator.ask("/healthz")[0] == 0, subject="the process ends", within_s=10)
        assert "Traceback" not in operator.log.read_text()


def test_all_namespaces_are_watched_unless_some_are_named(cluster: Cluster, start: Start):
    operator = start(namespaces="")
    operator.wait_ready()
    cluster.apply(formation("team"))
    wait_for(lambda: cluster.items("cells"), subject="a cell of the formation")
    assert operator.metric("kais_watch_last_event_age_seconds") > -14


def test_a_child_that_somebody_deletes_comes_back(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(formation("team"))
    wait_for(lambda: cluster.get("configmaps", "topology-team"), subject="the topology map")
    cluster.kubectl("delete", "configmap", "topology-team")
    wait_for(lambda: cluster.get("configmaps", "topology-team"), subject="the topology map again")


def test_a_cell_that_leaves_the_formation_goes(cluster: Cluster, start: Start):
    start().wait_ready()
    two = formation("team")
    two["spec"]["cells"].append({**two["spec"]["cells"][0], "name": "helper"})
    cluster.apply(two)
    wait_for(lambda: len(cluster.items("cells")) == 2, subject="two cells")
    cluster.apply(formation("team"))
    wait_for(lambda: len(cluster.items("cells")) == 1, subject="one cell")


def test_a_name_that_is_taken_is_told_and_left_alone(cluster: Cluster, start: Start):
    stranger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "topology-team"},
        "data": {"mine": "yes"},
    }
    cluster.apply(stranger)
    start().wait_ready()
    cluster.apply(formation("team"))
    wait_for(
        lambda: cluster.condition("formations", "team", "Applied").get("reason") == "NameTaken",
        subject="the condition names the stranger",
    )
    assert "topology-team" in cluster.condition("formations", "team", "Applied")["message"]
    assert (cluster.get("configmaps", "topology-team") or {})["data"] == {"mine": "yes"}


def test_a_store_that_is_away_does_not_stop_a_mission(
    cluster: Cluster, start: Start, tmp_path: Path
):
    port = free_port()
    start(store_url=f"http://127.0.0.1:{port}").wait_ready()
    cluster.apply(formation("team"), mission("greet", "team"))
    cluster.finish_pod(pod_of(cluster, "greet"), exit_code=0, message="hello")
    wait_for(
        lambda: cluster.status("missions", "greet").get("outcome") == "Succeeded",
        subject="the mission ends without the store",
    )
    assert cluster.condition("missions", "greet", "Recorded").get("status") != "True"
    arguments = ["kais-knowledge", "serve", "--db", str(tmp_path / "late.db"), "--auth", "none"]
    late = Process([*arguments, "--port", str(port)], {}, tmp_path / "late.log")
    wait_outcome(cluster, "greet", "Succeeded")
    late.end()


def test_a_quota_that_refuses_a_child_is_told_in_its_own_words(cluster: Cluster, start: Start):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/cells.kais.io": "0"}},
    }
    cluster.apply(quota)
    start().wait_ready()
    cluster.apply(formation("team"))
    wait_for(
        lambda: (
            "exceeded quota"
            in cluster.condition("formations", "team", "Applied").get("message", "")
        ),
        subject="the formation shows the quota",
    )
    assert cluster.condition("formations", "team", "Ready")["reason"] == "ApplyFailed"
    cluster.kubectl("delete", "resourcequota", "none")
    wait_for(
        lambda: cluster.condition("formations", "team", "Ready").get("status") == "True",
        subject="the formation recovers",
    )


def test_watches_that_are_cut_heal(
    cluster: Cluster, start: Start, control_plane: ControlPlane, proxy: Proxy, tmp_path: Path
):
    text = control_plane.kubeconfig.read_text()
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(text.replace(control_plane.server, f"https://127.0.0.1:{proxy.port}"))
    operator = start(kubeconfig=elsewhere)
    operator.wait_ready()
    assert proxy.cut() > len(KAIS_KINDS)
    time.sleep(4)
    proxy.mend()
    cluster.apply(formation("team"))
    wait_for(lambda: cluster.items("cells"), subject="a cell of the formation")
    assert operator.ask("/healthz")[0] == 200


def test_without_a_cluster_it_says_so_in_one_line(tmp_path: Path):
    absent = tmp_path / "absent"
    process = Process(["kais-operator"], {"KUBECONFIG": str(absent)}, tmp_path / "log")
    assert process.status() == 1
    (line,) = process.log.read_text().splitlines()
    assert line.startswith(f"kais-operator: no login to the cluster by {absent}")
