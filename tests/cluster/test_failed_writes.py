"""A webhook that is away fails each create of a workload: the objects say so, and a run ends."""

from __future__ import annotations

from typing import Any

import pytest

from kais_cluster import errors
from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
WORKLOADS = {
    "apiGroups": ["apps", "batch"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments", "jobs"],
}


def webhook_of(namespace: str) -> Body:
    name = f"{namespace}.policy.example"
    webhook = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [WORKLOADS],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def is_failing(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("create", "deployment", "probe", "--image=probe:1", "--dry-run=server")
    except errors.CommandFailed:
        return True
    return False


def kind(kind_: str, name: str, spec: Body) -> Body:
    return {"apiVersion": "kais.io/v1", "kind": kind_, "metadata": {"name": name}, "spec": spec}


def test_cell_and_mission_say_which_webhook_is_away_and_the_start_deadline_ends_the_run(
    cluster: Cluster, start: Start
) -> None:
    webhook = webhook_of(cluster.namespace)
    name = webhook["metadata"]["name"]
    cluster.apply(webhook)
    try:
        wait_for(lambda: is_failing(cluster), subject="the webhook fails")
        start().wait_ready()
        container = {"image": "worker:1"}
        lead = {"name": "lead", "spec": {"mode": "Task", "container": container}}
        work = {"formationRef": "team", "objective": "work", "startDeadline": "20s"}
        cluster.apply(
            kind("Cell", "server", {"mode": "Service", "container": container}),
            kind("Formation", "team", {"cells": [lead]}),
            kind("Mission", "work", work),
        )
        for plural, object_name, type_ in (
            ("cells", "server", "Applied"),
            ("missions", "work", "Started"),
        ):

            def failed(plural: str = plural, name_: str = object_name, type_: str = type_) -> str:
                condition = cluster.condition(plural, name_, type_)
                return condition["message"] if condition.get("reason") == "ApplyFailed" else ""

            message = wait_for(failed, subject=f"the condition of {object_name}", within_s=30)
            assert f'failed calling webhook "{name}"' in message
        wait_for(
            lambda: cluster.status("missions", "work").get("outcome") == "InfrastructureFailed",
            subject="the end of the run",
            within_s=60,
        )
        message = cluster.condition("missions", "work", "Succeeded")["message"]
        assert message.startswith("not started within 20s: POST ")
        assert f'failed calling webhook "{name}"' in message
    finally:
        cluster.kubectl("delete", webhook["kind"], name)
    wait_for(
        lambda: cluster.condition("cells", "server", "Applied").get("status") == "True",
        subject="the Cell continues",
        within_s=90,
    )
