"""A real API server that refuses to open the gate of a pod: the Mission says so, and continues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kais_cluster import errors
from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
MIND = {"provider": "openai", "model": "m", "systemPrompt": "Work.", "baseUrl": "http://models/v1"}
GROUP = "admissionregistration.k8s.io/v1"
PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["pods"],
}
OPENED = "!has(object.spec.schedulingGates)"


def bodies_of(kind: str, namespace: str) -> list[Body]:
    """Return what refuses pods without a gate in a namespace: a rule, or a webhook that is away."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    name = f"{namespace}.guard.example"
    metadata = {"name": name}
    if kind == "ValidatingWebhookConfiguration":
        webhook = {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [PODS],
            "namespaceSelector": selector,
            "matchConditions": [{"name": "opened", "expression": OPENED}],
        }
        return [{"apiVersion": GROUP, "kind": kind, "metadata": metadata, "webhooks": [webhook]}]
    rule = {"expression": "false", "message": "no pod may be opened"}
    policy: Body = {
        "matchConstraints": {"resourceRules": [PODS]},
        "matchConditions": [{"name": "opened", "expression": OPENED}],
        "validations": [rule],
    }
    binding: Body = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    return [
        {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": policy},
        {"apiVersion": GROUP, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
    ]


@pytest.fixture(params=["ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration"])
def guard(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[list[Body]]:
    bodies = bodies_of(request.param, cluster.namespace)
    cluster.apply(*bodies)
    yield bodies
    lift(cluster, bodies)


def lift(cluster: Cluster, bodies: list[Body]) -> None:
    for body in bodies:
        cluster.kubectl("delete", body["kind"], body["metadata"]["name"], "--ignore-not-found")


def is_refused(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("run", "probe", "--image=probe:1", "--dry-run=server")
    except errors.CommandFailed:
        return True
    return False


def test_refusal_is_a_condition_within_seconds_and_the_run_continues_after_it(
    cluster: Cluster, start: Start, guard: list[Body]
) -> None:
    wait_for(lambda: is_refused(cluster), subject="the guard works")
    start().wait_ready()
    cells = [{"name": "lead", "spec": {"mode": "Task", "mind": MIND}}]
    team = {"apiVersion": "kais.io/v1", "kind": "Formation", "metadata": {"name": "team"}}
    work = {"apiVersion": "kais.io/v1", "kind": "Mission", "metadata": {"name": "work"}}
    spec = {"formationRef": "team", "objective": "work", "budget": {"maxCost": 0.4}}
    cluster.apply({**team, "spec": {"cells": cells}}, {**work, "spec": spec})
    (pod,) = wait_for(lambda: cluster.items("pods"), subject="a pod that waits")

    def refused() -> Body | None:
        condition = cluster.condition("missions", "work", "Started")
        return condition if condition.get("reason") == "ApplyFailed" else None

    message = wait_for(refused, subject="the condition", within_s=60)["message"]
    name = f"Pod/{cluster.namespace}/{pod['metadata']['name']}"
    gate = "its scheduling gate kais.io/cost-limit could not be removed"
    assert message.startswith(f"{name} waits, because {gate}: ")
    assert f"{cluster.namespace}.guard.example" in message

    lift(cluster, guard)
    wait_for(
        lambda: not cluster.items("pods")[0]["spec"].get("schedulingGates"),
        subject="the gate is opened",
        within_s=90,
    )
    wait_for(
        lambda: cluster.condition("missions", "work", "Started")["reason"] == "WaitingForPods",
        subject="the refusal goes",
    )
