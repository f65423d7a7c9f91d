"""What the API server refuses a Job's pod stands on its Mission within seconds, and goes again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
QUOTA: Body = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"pods": "0"}},
}


def kind(name: str, kind_: str, spec: Body) -> Body:
    return {"apiVersion": "kais.io/v1", "kind": kind_, "metadata": {"name": name}, "spec": spec}


def started(cluster: Cluster) -> Body:
    return cluster.condition("missions", "greeting", "Started")


def test_a_quota_that_refuses_the_pod_is_told_within_seconds_and_goes(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cell = {"name": "lead", "spec": {"mode": "Task", "container": {"image": "greeter:1"}}}
    mission = {"formationRef": "team", "objective": "greet", "entrypoint": {"cell": "lead"}}
    cluster.apply(QUOTA, kind("team", "Formation", {"cells": [cell]}))
    wait_for(
        lambda: "used" in (cluster.get("resourcequotas", "none") or {}).get("status", {}),
        subject="the quota counts",
    )
    cluster.apply(kind("greeting", "Mission", mission))
    wait_for(lambda: cluster.items("jobs"), subject="the Job of the mission")
    fields = wait_for(
        lambda: started(cluster) if started(cluster).get("reason") == "PodNotCreated" else None,
        subject="the quota's words on the mission",
        within_s=30,
    )
    assert fields["message"].startswith("Job greeting-a1 has no pod: Error creating: pods ")
    assert (
        "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"
        in (fields["message"])
    )
    cluster.kubectl("delete", "resourcequota", "none")
    pods = wait_for(
        lambda: cluster.items("pods", labels="kais.io/mission"), subject="a pod", within_s=90
    )
    cluster.finish_pod(pods[0], exit_code=0, message="hello")
    wait_for(lambda: started(cluster).get("status") == "True", subject="the refusal goes")
