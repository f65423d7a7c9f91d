"""The review team with minds on real pods: peers, a critic, facts, and a shorter second run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installed import Body, Installed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]  # three missions, one after the other
EXAMPLE = Path(__file__).parent.parent / "examples/code-review-team"
FIRST = [
    "lead asks about safety",
    "safety reviews",
    "lead asks for tests",
    "tests reviews",
    "lead remembers",
    "lead answers",
    "critic misses a fix",
    "lead adds the fix",
    "critic approves",
]
SECOND = [
    "lead knows the risk and asks for tests",
    "tests reviews",
    "lead knows the risk and answers",
    "critic approves",
]


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("review-minds")


def use(cluster: Installed, namespace: str, *arguments: str) -> Body:
    """Use the Blueprint by the command; return the status of its settled Mission."""
    completed = cluster.kais(
        "blueprint", "use", "code-review-minds", "-n", namespace, "-o", "json", *arguments
    )
    assert completed.stdout, completed.stderr
    name = json.loads(completed.stdout)["name"]
    mission = cluster.finished_mission(name, namespace, timeout_s=400)
    status: Body = mission["status"]
    return status


def calls(cluster: Installed, namespace: str) -> list[Any]:
    """The journal of the scripted model, read by the API server's proxy."""
    path = f"/api/v1/namespaces/{namespace}/services/models:8080/proxy/journal"
    return list(json.loads(cluster.kubectl("get", "--raw", path)))


def test_the_second_review_takes_fewer_turns_unless_it_gets_no_knowledge(
    cluster: Installed, namespace: str
) -> None:
    files = ("-f", str(EXAMPLE / "minds.yaml"), "-f", str(EXAMPLE / "scripted-model.yaml"))
    cluster.kubectl("apply", "-n", namespace, *files)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "kais-openai", key, "-n", namespace)
    cluster.kubectl(
        "wait", "-n", namespace, "--for=condition=Ready", "--timeout=170s", "pod/models"
    )

    first = use(cluster, namespace)
    after_first = len(calls(cluster, namespace))
    second = use(cluster, namespace)
    after_second = len(calls(cluster, namespace))
    control = use(cluster, namespace, "--set", "useKnowledge=false")
    journal = [call["rule"] for call in calls(cluster, namespace)]

    outcomes = [status["outcome"] for status in (first, second, control)]
    assert outcomes == ["Succeeded"] * 3, (first, second, control)
    assert first["result"].endswith("Verdict: changes requested")
    assert [status["attempt"] for status in (first, second, control)] == [2, 1, 2]
    reason = "rejected in review by critic-0: The finding about eval has no fix."
    assert [status["history"][0]["result"] for status in (first, control)] == [reason] * 2
    approved = {
        "status": "Approved", "by": "critic-0",
        "feedback": "Each finding has its line and its fix.",
    }  # fmt: skip
    assert [status["review"] for status in (first, second, control)] == [approved] * 3
    assert journal[:after_first] == FIRST
    assert journal[after_first:after_second] == SECOND
    assert journal[after_second:] == FIRST
    assert second["turns"] < first["turns"] == control["turns"]
    assert second["tokens"]["input"] < first["tokens"]["input"] == control["tokens"]["input"]
    assert second["cost"] < first["cost"] == control["cost"]
