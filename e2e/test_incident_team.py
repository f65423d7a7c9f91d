"""The incident team on real pods: MCP servers, an approval, a repair, and a shorter second run."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installed import Body, Installed
from e2e.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]  # three missions, one after the other
EXAMPLE = Path(__file__).parent.parent / "examples/incident-team"
FIRST = [
    "lead asks about pods",
    "pods looks",
    "pods answers",
    "lead asks about changes",
    "changes looks",
    "changes answers",
    "lead repairs",
    "lead remembers",
    "lead answers",
]
SECOND = [
    "lead knows the limit and asks about pods",
    "pods looks",
    "pods answers",
    "lead knows the limit and repairs",
    "lead knows the limit and answers",
]
FILES = ("rbac.yaml", "cluster-tools.yaml", "shop.yaml", "scripted-model.yaml", "blueprint.yaml")
READY = ("--for=condition=Available", "--timeout=170s")


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("incidents")


@pytest.fixture(scope="module", autouse=True)
def example(cluster: Installed, namespace: str) -> None:
    """Apply the example: its keys, rights, MCP servers, scripted model and Blueprint."""
    for secret, key in (
        ("cluster-reader", f"key={secrets.token_hex(16)}"),
        ("cluster-fixer", f"key={secrets.token_hex(16)}"),
        ("kais-openai", "apiKey=scripted-key"),
    ):
        literal = f"--from-literal={key}"
        cluster.kubectl("create", "secret", "generic", secret, "-n", namespace, literal)
    for file in FILES:
        cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLE / file))
    servers = ("deployment/cluster-reader", "deployment/cluster-fixer")
    cluster.kubectl("wait", "-n", namespace, *READY, *servers)


def break_shop(cluster: Installed, namespace: str) -> None:
    """Apply the deployment with too little memory, and wait until the kernel killed its pod."""
    cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLE / "shop.yaml"))

    def is_killed(pods: list[Body]) -> bool:
        return any(
            "OOMKilled" in json.dumps([status.get("state"), status.get("lastState")])
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
            for status in pod["status"].get("containerStatuses", ())
        )

    wait_until(
        lambda: cluster.list("pod", namespace, "app=shop"),
        is_killed,
        description="a pod of the shop that was killed out of memory",
        timeout_s=170,
    )


def repair(cluster: Installed, namespace: str, *arguments: str, decision: str = "approve") -> Body:
    """Use the Blueprint, decide about the call, and return the status of the settled Mission."""
    completed = cluster.kais(
        *("blueprint", "use", "incident-team", "-n", namespace, "--no-wait", "-o", "json"),
        *arguments,
    )
    assert completed.stdout, completed.stderr
    name = json.loads(completed.stdout)["metadata"]["name"]

    def waiting() -> list[Body]:
        listed = cluster.kais("approvals", "list", "-n", namespace, "-o", "json")
        return [call for call in json.loads(listed.stdout)["items"] if call["mission"] == name]

    (call,) = wait_until(waiting, bool, description="a call that waits", timeout_s=400)
    assert call["tool"] == "fixer__set_memory_limit"
    assert json.loads(call["arguments"]) == {
        "deployment": "shop", "container": "app", "memory_mi": 256,
    }  # fmt: skip
    assert limit(cluster, namespace) == "64Mi", "nothing is changed before the approval"
    decided = cluster.kais(
        "approvals", decision, call["call"], "-n", namespace, "--reason", "as agreed"
    )
    assert decided.returncode == 0, decided.stderr
    status: Body = cluster.finished_mission(name, namespace, timeout_s=400)["status"]
    return status


def limit(cluster: Installed, namespace: str) -> str:
    shop = cluster.get("deployment", "shop", namespace) or {}
    (container,) = shop["spec"]["template"]["spec"]["containers"]
    return str(container["resources"]["limits"]["memory"])


def rules(cluster: Installed, namespace: str) -> list[Any]:
    """The rules that answered, in the journal of the scripted model."""
    path = f"/api/v1/namespaces/{namespace}/services/models:8080/proxy/journal"
    return [call["rule"] for call in json.loads(cluster.kubectl("get", "--raw", path))]


def test_an_approved_repair_is_done_and_the_second_incident_takes_fewer_turns(
    cluster: Installed, namespace: str
) -> None:
    break_shop(cluster, namespace)
    first = repair(cluster, namespace)
    after_first = len(rules(cluster, namespace))
    assert (first["outcome"], limit(cluster, namespace)) == ("Succeeded", "256Mi"), first
    assert first["result"].endswith("Repaired: yes")
    (approval,) = first["approvals"]
    whoami = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert (approval["outcome"], approval["by"]) == ("approved", cluster.kubectl(*whoami))
    cluster.kubectl("wait", "-n", namespace, *READY, "deployment/shop")

    break_shop(cluster, namespace)
    second = repair(cluster, namespace)
    after_second = len(rules(cluster, namespace))
    assert (second["outcome"], limit(cluster, namespace)) == ("Succeeded", "256Mi"), second

    break_shop(cluster, namespace)
    control = repair(cluster, namespace, "--set", "useKnowledge=false")
    assert control["outcome"] == "Succeeded", control

    journal = rules(cluster, namespace)
    assert journal[:after_first] == FIRST
    assert journal[after_first:after_second] == SECOND
    assert journal[after_second:] == FIRST
    assert second["turns"] < first["turns"] == control["turns"]
    assert second["tokens"]["input"] < first["tokens"]["input"] == control["tokens"]["input"]


def test_a_rejected_repair_leaves_the_deployment_as_it_is(
    cluster: Installed, namespace: str
) -> None:
    break_shop(cluster, namespace)
    status = repair(cluster, namespace, "--set", "useKnowledge=false", decision="reject")
    assert status["outcome"] == "Failed", status
    assert status["result"].endswith("Repaired: no")
    assert limit(cluster, namespace) == "64Mi"
