"""Additions to the objects of a service cell, against a real API server's defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.processes import Cluster, Start, wait_for
from tests.cluster.test_service_cells import lone, wait_condition

pytestmark = pytest.mark.cluster


def patch(cluster: Cluster, kind: str, spec: dict[str, Any]) -> None:
    cluster.kubectl("patch", kind, "solo", "--type=strategic", "-p", json.dumps({"spec": spec}))


def read(cluster: Cluster, kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(cluster.kubectl("get", kind, "solo", "-o", "json"))
    return document


def test_what_is_added_to_a_workload_is_taken_away_and_defaults_are_not(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.kubectl("rollout", "restart", "deployment/solo")
    initial_spec = read(cluster, "deployment")["spec"]
    sidecar = {"name": "proxy", "image": "proxy:1", "securityContext": {"privileged": True}}
    preload = {"name": "cell", "env": [{"name": "LD_PRELOAD", "value": "/evil.so"}]}
    pod = {
        "hostNetwork": True,
        "initContainers": [{"name": "init", "image": "init:1"}],
        "containers": [sidecar, preload],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
    patch(cluster, "deployment", {"template": {"spec": pod}})
    patch(cluster, "service", {"type": "LoadBalancer"})
    wait_for(
        lambda: (
            read(cluster, "deployment")["spec"] == initial_spec
            and read(cluster, "service")["spec"]["type"] == "ClusterIP"
        ),
        subject="the additions are taken away",
    )
    assert (
        "kubectl.kubernetes.io/restartedAt" in initial_spec["template"]["metadata"]["annotations"]
    )
    events = cluster.items("events")
    messages = [e["message"] for e in events if e["reason"] == "AdditionRemoved"]
    assert any("hostNetwork" in m and "containers[proxy]" in m for m in messages), messages
    assert any("spec.type" in message for message in messages), messages
    removed = "kais.io/removed-additions"
    for kind in ("deployment", "service"):
        assert read(cluster, kind)["metadata"]["annotations"][removed].startswith("1 ")


FORGED = {"labels": {"kais.io/spec-hash": "forged"}}


def forge(cluster: Cluster, kind: str, spec: dict[str, Any]) -> None:
    """Replace parts of a spec, and the label that tells an older rendering, in one write."""
    body = json.dumps({"metadata": FORGED, "spec": spec})
    cluster.kubectl("patch", kind, "solo", "--type=merge", "-p", body)


def test_alternatives_of_a_declared_field_are_removed_under_a_forged_label(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    initial_state = read(cluster, "deployment")
    pod = initial_state["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volume, *volumes = pod["volumes"]
    variable, *variables = (item for item in container["env"] if "value" in item)
    by_field = {"fieldRef": {"fieldPath": "metadata.uid"}}
    reference = {"name": variable["name"], "valueFrom": by_field}
    probe = container["readinessProbe"] | {"tcpSocket": None, "exec": {"command": ["sh"]}}
    templates = {
        "volume": {"volumes": [{"name": volume["name"], "hostPath": {"path": "/"}}, *volumes]},
        "variable": {"containers": [{**container, "env": [reference, *variables]}]},
        "probe": {"containers": [{**container, "readinessProbe": probe}]},
    }
    specs = {subject: {"template": {"spec": spec}} for subject, spec in templates.items()}
    specs["strategy"] = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    for subject, spec in specs.items():
        forge(cluster, "deployment", spec)
        wait_for(
            lambda: (
                read(cluster, "deployment")["spec"] == initial_state["spec"]
                and read(cluster, "deployment")["metadata"]["labels"]
                == initial_state["metadata"]["labels"]
            ),
            subject=f"the {subject} is as declared",
        )
        # Three removals in a row begin a pause.
        cluster.kubectl("annotate", "deployment", "solo", "kais.io/removed-additions-")
    service = read(cluster, "service")["spec"]
    forge(cluster, "service", {"type": "ExternalName", "externalName": "elsewhere.example"})
    wait_for(
        lambda: (
            (matching_spec := read(cluster, "service")["spec"])["type"] == "ClusterIP"
            and "externalName" not in matching_spec
            and matching_spec["ports"] == service["ports"]
        ),
        subject="the Service is as declared",
    )
