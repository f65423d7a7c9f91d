"""The operator with the Roles that the chart makes for `namespaces`, and no other rights at all."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kais_cluster import errors, subprocesses
from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Start, wait_for
from tests.cluster.proxy import Proxy

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "charts/kais"
Body = dict[str, Any]


def rendered(helm: Path, *values: str, namespace: str) -> list[Body]:
    """Give the objects of the chart, as Helm itself renders it."""
    set_options = [part for value in values for part in ("--set", value)]
    text = subprocesses.run(
        [helm, "template", "kais", CHART, "--namespace", namespace, *set_options]
    )
    return [body for body in yaml.safe_load_all(text) if body]


def cluster_wide(bodies: list[Body]) -> set[tuple[str, str]]:
    return {(b["kind"], b["metadata"]["name"]) for b in bodies if b["kind"].startswith("Cluster")}


def test_only_token_reviews_are_cluster_wide_when_namespaces_are_named(helm: Path):
    bodies = rendered(helm, "namespaces={a,b}", namespace="home")
    kinds = ("ClusterRole", "ClusterRoleBinding")
    assert cluster_wide(bodies) == {(kind, "kais-knowledge") for kind in kinds}
    watched = [b["metadata"]["namespace"] for b in bodies if "watched" in b["metadata"]["name"]]
    assert sorted(watched) == ["a", "a", "b", "b"]
    (operator,) = (b for b in bodies if b["kind"] == "Deployment")
    env = operator["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "KAIS_WATCH_NAMESPACES", "value": "a,b"} in env


def test_nothing_is_cluster_wide_when_somebody_else_allows_token_reviews(helm: Path):
    values = ("namespaces={a}", "knowledge.tokenReviews.create=false")
    assert not cluster_wide(rendered(helm, *values, namespace="home"))


def test_all_of_the_cluster_is_watched_by_a_cluster_role(helm: Path):
    bodies = rendered(helm, namespace="home")
    assert ("ClusterRole", "kais-operator") in cluster_wide(bodies)
    assert not [b for b in bodies if "watched" in b["metadata"]["name"]]


PROXY = {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get", "create"]}


@pytest.mark.parametrize(
    ("namespaces", "role"),
    [
        ((), ("ClusterRole", "kais-operator", None)),
        (("namespaces={a}",), ("Role", "kais-operator-watched", "a")),
    ],
)
def test_only_an_operator_outside_of_the_cluster_gets_the_proxy_of_services(
    helm: Path, namespaces: tuple[str, ...], role: tuple[str, str, str | None]
):
    def with_proxy(*values: str) -> list[tuple[str, str, str | None]]:
        return [
            (body["kind"], body["metadata"]["name"], body["metadata"].get("namespace"))
            for body in rendered(helm, *namespaces, *values, namespace="home")
            if PROXY in (body.get("rules") or [])
        ]

    assert with_proxy("operator.replicas=0") == [role]
    for replicas in (1, 2, "null"):  # Kubernetes runs one replica by default
        assert with_proxy(f"operator.replicas={replicas}") == []


def kubeconfig_of(plane: ControlPlane, namespace: str, folder: Path) -> Path:
    """Write a kubeconfig that logs in as the operator's ServiceAccount and as nobody else."""
    config = json.loads(plane.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = plane.kubectl("create", "token", "kais-operator", "-n", namespace)
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token.strip()}}]
    path = folder / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def task(name: str) -> list[Body]:
    cell = {"mode": "Task", "container": {"image": "greeter:1"}}
    mission_spec = {"objective": "greet", "entrypoint": {"cell": "lead"}}
    spec = {"formation": {"cells": [{"name": "lead", "spec": cell}]}, "mission": mission_spec}
    head: Body = {"apiVersion": "kais.io/v1", "metadata": {"name": name}}
    return [
        {**head, "kind": "Blueprint", "spec": spec},
        {**head, "kind": "BlueprintInstance", "spec": {"blueprintRef": {"name": name}}},
    ]


def service(name: str) -> Body:
    cell = {"container": {"image": "web:1", "ports": [{"containerPort": 80}]}}
    spec = {
        "cells": [{"name": "web", "spec": {**cell, "mode": "Service"}}],
        "topology": {"type": "full_mesh"},
        "workspace": {},
    }
    head: Body = {"apiVersion": "kais.io/v1", "kind": "Formation", "metadata": {"name": name}}
    return {**head, "spec": spec}


@pytest.fixture
def home(control_plane: ControlPlane, cluster: Cluster, helm: Path) -> str:
    """Make the operator's own namespace, with the chart's rights for the test's namespace."""
    name = f"{cluster.namespace}-home"
    control_plane.kubectl("create", "namespace", name)
    rights = [
        body
        for body in rendered(helm, f"namespaces={{{cluster.namespace}}}", namespace=name)
        if body["kind"] in ("Role", "RoleBinding", "ServiceAccount")
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": rights}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    return name


def test_a_watched_namespace_that_was_deleted_does_not_stop_an_uninstall(
    control_plane: ControlPlane, cluster: Cluster, helm: Path, tmp_path: Path
) -> None:
    home, gone = f"{cluster.namespace}-home", f"{cluster.namespace}-gone"
    for name in (home, gone):
        control_plane.kubectl("create", "namespace", name)
    values = f"namespaces={{{gone},{cluster.namespace}}}"
    kinds = ("Role", "RoleBinding", "ServiceAccount")
    rights = [b for b in rendered(helm, values, namespace=home) if b["kind"] in kinds]
    listed = {"apiVersion": "v1", "kind": "List", "items": rights}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    scope = {"apiVersion": "kais.io/v1", "kind": "KnowledgeScope", "spec": {"level": "realm"}}
    cluster.apply({**scope, "metadata": {"name": "all", "finalizers": ["kais.io/finalizer"]}})
    control_plane.kubectl("delete", "namespace", gone, "--wait=true")
    env = {
        "KUBECONFIG": str(kubeconfig_of(control_plane, home, tmp_path)),
        "KAIS_OPERATOR_NAMESPACE": home,
        "KAIS_WATCH_NAMESPACES": f"{gone},{cluster.namespace}",
    }
    command = [sys.executable, "-m", "kais_operator.uninstall_hook", "kais-operator", "a=b"]
    hook = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=150, check=False
    )
    assert hook.returncode == 0, hook.stderr
    assert f"Namespace/{gone}: skipped; it was deleted, or" in hook.stdout
    assert f"KnowledgeScope/{cluster.namespace}/all: finalizer removed" in hook.stdout


def test_uses_and_service_cells_work_with_roles_alone(
    control_plane: ControlPlane, cluster: Cluster, home: str, start: Start, tmp_path: Path
):
    config = kubeconfig_of(control_plane, home, tmp_path)
    operator = start(kubeconfig=config, home=home)
    operator.wait_ready()
    cluster.apply(*task("greeting"), service("site"))
    pods = wait_for(lambda: cluster.items("pods", labels="kais.io/mission"), subject="a pod")
    cluster.finish_pod(pods[0], exit_code=0, message="hello")
    wait_for(
        lambda: cluster.status("missions", "greeting").get("outcome") == "Succeeded",
        subject="the mission succeeds",
    )
    wait_for(lambda: cluster.items("deployments"), subject="a Deployment of the service cell")
    wait_for(
        lambda: cluster.status("blueprints", "greeting").get("succeeded") == 1,
        subject="the Blueprint counts its use",
    )
    kinds = ("services", "configmaps", "persistentvolumeclaims", "serviceaccounts")
    managed = "app.kubernetes.io/managed-by=kais"
    assert all(cluster.items(kind, labels=managed) for kind in kinds)
    cluster.kubectl("delete", "missions,bpi,fm", "--all", "--timeout=60s")
    assert "forbidden" not in operator.log.read_text().lower()
    with pytest.raises(errors.CommandFailed, match="no"):
        control_plane.kubectl("auth", "can-i", "list", "pods", "-A", "--kubeconfig", str(config))


def test_a_use_that_was_updated_runs_again_with_roles_alone(
    control_plane: ControlPlane, cluster: Cluster, home: str, start: Start, tmp_path: Path
):
    operator = start(kubeconfig=kubeconfig_of(control_plane, home, tmp_path), home=home)
    operator.wait_ready()
    blueprint, use = task("greeting")
    cluster.apply(blueprint, use)
    first = finished_run(cluster)
    blueprint["spec"]["mission"]["objective"] = "greet again"
    cluster.apply(blueprint)
    wait_for(
        lambda: cluster.status("blueprints", "greeting").get("servedRevision") == 2,
        subject="revision 2 serves",
    )
    patch = {
        "metadata": {"annotations": {"kais.io/rerun": "n1"}},
        "spec": {"blueprintRef": {"revision": 2}},
    }
    cluster.kubectl("patch", "bpi", "greeting", "--type=merge", "-p", json.dumps(patch))
    wait_for(
        lambda: cluster.status("missions", "greeting").get("runId", first) != first,
        subject="the mission is recreated for the next run",
    )
    assert finished_run(cluster) != first
    mission = cluster.get("missions", "greeting") or {}
    assert mission["spec"]["objective"] == "greet again"
    assert "forbidden" not in operator.log.read_text().lower()


def finished_run(cluster: Cluster) -> str:
    """Have the pod of the mission succeed, and give the run that ended so."""
    pods = wait_for(
        lambda: [p for p in cluster.items("pods", labels="kais.io/mission") if is_open(p)],
        subject="a pod",
    )
    cluster.finish_pod(pods[0], exit_code=0, message="hello")
    status = wait_for(
        lambda: (
            mission_status
            if (mission_status := cluster.status("missions", "greeting")).get("outcome")
            == "Succeeded"
            else None
        ),
        subject="the mission succeeds",
    )
    return str(status["runId"])


def is_open(pod: Body) -> bool:
    phase = pod.get("status", {}).get("phase")
    return phase not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


def test_calls_for_a_store_that_is_away_are_kept_at_home(
    control_plane: ControlPlane, cluster: Cluster, home: str, start: Start, tmp_path: Path
):
    config = kubeconfig_of(control_plane, home, tmp_path)
    operator = start(kubeconfig=config, home=home, store_url="http://127.0.0.1:9")
    operator.wait_ready()
    scope = {"level": "realm", "deletionPolicy": "Delete"}
    head: Body = {"apiVersion": "kais.io/v1", "kind": "KnowledgeScope", "metadata": {"name": "all"}}
    cluster.apply({**head, "spec": scope})
    wait_for(
        lambda: (cluster.get("knowledgescopes", "all") or {})["metadata"].get("finalizers"),
        subject="the scope is held",
    )
    cluster.kubectl("delete", "knowledgescopes", "all", "--wait=false")
    selector = "kais.io/role=outbox"
    wait_for(
        lambda: "kais-outbox-" in control_plane.kubectl("get", "cm", "-n", home, "-l", selector),
        subject="the call is in the outbox",
    )
    assert "forbidden" not in operator.log.read_text().lower()


@pytest.fixture
def team(control_plane: ControlPlane, cluster: Cluster) -> str:
    """Name the second namespace of an operator."""
    name = f"{cluster.namespace}-team"
    control_plane.kubectl("create", "namespace", name)
    return name


def give_rights(plane: ControlPlane, helm: Path, home: str, *namespaces: str) -> None:
    """Apply the rights of the chart for these namespaces; home has to exist."""
    value = f"namespaces={{{','.join(namespaces)}}}"
    rights = [
        body
        for body in rendered(helm, value, namespace=home)
        if body["kind"] in ("Role", "RoleBinding", "ServiceAccount")
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": rights}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(listed))


def absence(team: str) -> str:
    return f"namespace {team}: every list is forbidden"


def wait_served(plane: ControlPlane, namespace: str, name: str) -> None:
    """Apply a Blueprint, and wait until the operator has made a revision of it."""
    blueprint = json.dumps(task(name)[0])
    plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=blueprint)
    path = "jsonpath={.status.servedRevision}"
    wait_for(
        lambda: plane.kubectl("get", "blueprint", name, "-n", namespace, "-o", path),
        subject=f"the Blueprint {name} is served",
    )


def errors_in(log: str) -> list[str]:
    """Give the warnings and errors of lists and watches."""
    loggers = ("kais_operator.informer", "kais_operator.manager.kopf_watches", "kopf", "asyncio")
    return [
        record["message"]
        for record in map(json.loads, log.splitlines())
        if record["level"] in ("warning", "error") and record["logger"].startswith(loggers)
    ]


def errors_about_namespaces(log: str) -> list[str]:
    """Give how these begin, without watches that are late, as on a busy machine."""
    late = "no watch reported its change"
    return [message.partition(",")[0] for message in errors_in(log) if late not in message]


def test_a_deleted_namespace_costs_only_itself_until_it_is_back(  # noqa: PLR0913, PLR0917 (fixtures)
    control_plane: ControlPlane,
    cluster: Cluster,
    home: str,
    team: str,
    helm: Path,
    start: Start,
    tmp_path: Path,
):
    give_rights(control_plane, helm, home, cluster.namespace, team)
    config = kubeconfig_of(control_plane, home, tmp_path)
    namespaces = f"{cluster.namespace},{team}"
    operator = start(kubeconfig=config, home=home, namespaces=namespaces)
    operator.wait_ready()
    wait_served(control_plane, team, "before")
    control_plane.kubectl("delete", "namespace", team, "--wait=true", "--timeout=120s")
    wait_for(
        lambda: absence(team) in operator.log.read_text(),
        subject="the operator leaves the namespace out",
    )
    wait_served(control_plane, cluster.namespace, "meanwhile")
    assert operator.ask("/readyz")[0] == 200
    operator.end()
    assert errors_about_namespaces(operator.log.read_text()) == [absence(team)]

    operator = start(name="restarted", kubeconfig=config, home=home, namespaces=namespaces)
    operator.wait_ready()
    wait_served(control_plane, cluster.namespace, "restarted")
    assert errors_about_namespaces(operator.log.read_text()) == [absence(team)]

    control_plane.kubectl("create", "namespace", team)
    time.sleep(2)
    assert operator.ask("/readyz")[0] == 200, "without its Role the namespace stays left out"
    give_rights(control_plane, helm, home, cluster.namespace, team)
    wait_served(control_plane, team, "returned")
    operator.wait_ready()
    log = operator.log.read_text()
    assert log.count(f"namespace {team} can be listed again and is watched") == 1
    assert log.count(absence(team)) == 1


BLUEPRINTS = {
    "apiGroups": ["kais.io"],
    "resources": ["blueprints"],
    "verbs": ["get", "create", "update", "patch", "delete"],
}


def test_the_watches_of_blueprints_are_back_after_a_right_was_missing_for_a_while(
    control_plane: ControlPlane,
    cluster: Cluster,
    home: str,
    start: Start,
    proxy: Proxy,
    tmp_path: Path,
):
    """kopf ends when it may not list a kind, and has to be started again."""
    config = kubeconfig_of(control_plane, home, tmp_path)
    behind_proxy = config.read_text().replace(
        control_plane.server, f"https://127.0.0.1:{proxy.port}"
    )
    config.write_text(behind_proxy)
    operator = start(kubeconfig=config, home=home)
    operator.wait_ready()
    wait_served(control_plane, cluster.namespace, "before")

    role = cluster.get("roles", "kais-operator-watched") or {}
    rules = [without_blueprints(rule) for rule in role["rules"]]
    set_rules(cluster, [*(r for r in rules if r["resources"]), BLUEPRINTS])
    proxy.cut()
    proxy.mend()
    ended = "kopf's watches ended and are restarted: "
    wait_for(lambda: operator.log.read_text().count(ended), subject="kopf ends")
    set_rules(cluster, role["rules"])
    operator.wait_ready()
    ended_count = operator.log.read_text().count(ended)
    wait_for(
        lambda: -1 < operator.metric('kais_watch_last_event_age_seconds{kind="Lease"}') < 30,
        subject="the watch heartbeat is received again",
    )
    wait_served(control_plane, cluster.namespace, "after")
    log = operator.log.read_text()
    assert log.count(ended) <= ended_count + 1, "kopf runs"
    assert "Blueprint/" not in "".join(m for m in errors_in(log) if "no watch reported" in m)
    assert operator.end() == 0


def without_blueprints(rule: Body) -> Body:
    return {**rule, "resources": [r for r in rule["resources"] if r != "blueprints"]}


def set_rules(cluster: Cluster, rules: list[Body]) -> None:
    patch = json.dumps({"rules": rules})
    cluster.kubectl("patch", "role", "kais-operator-watched", "--type=merge", "-p", patch)
