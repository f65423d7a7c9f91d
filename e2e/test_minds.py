"""A cell with a mind on real pods: a scripted model, tools, facts, usage and cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installed import OPERATOR, Body, Installed, conditions
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e
EXAMPLE = Path(__file__).parent.parent / "examples/log-explainer"


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("minds")


@pytest.fixture
def limited_namespace(cluster: Installed) -> Iterator[str]:
    """A namespace for one test with a mind that `start_limited` starts."""
    yield from cluster.fresh_namespace("limited")


@pytest.fixture(scope="module")
def model(cluster: Installed, namespace: str) -> str:
    """The scripted model of the example, and its Blueprint."""
    manifests = ("-f", str(EXAMPLE / "blueprint.yaml"), "-f", str(EXAMPLE / "scripted-model.yaml"))
    cluster.kubectl("apply", "-n", namespace, *manifests)
    ready = ("--for=condition=Ready", "--timeout=170s", "pod/models")
    cluster.kubectl("wait", "-n", namespace, *ready)
    return "models"


def use(cluster: Installed, namespace: str, *arguments: str) -> Body:
    """Use the Blueprint by the command, and return its settled Mission."""
    completed = cluster.kais(
        "blueprint", "use", "log-explainer", "-n", namespace, "-o", "json", *arguments
    )
    assert completed.stdout, completed.stderr
    return cluster.finished_mission(json.loads(completed.stdout)["name"], namespace, timeout_s=400)


def calls(cluster: Installed, namespace: str) -> list[Any]:
    """The journal of the scripted model, read by the API server's proxy."""
    path = f"/api/v1/namespaces/{namespace}/services/models:8080/proxy/journal"
    return list(json.loads(cluster.kubectl("get", "--raw", path)))


def test_a_mind_works_and_the_second_run_starts_from_what_the_first_learned(
    cluster: Installed, namespace: str, model: str
) -> None:
    refused = use(cluster, namespace)
    assert refused["status"]["outcome"] == "Failed"
    assert refused["status"]["attempt"] == 1, "a wrong key is not tried again"
    assert "model-unauthorized" in conditions(refused)["Succeeded"]["message"]
    assert "kais-openai/apiKey" in conditions(refused)["Succeeded"]["message"]

    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "kais-openai", key, "-n", namespace)
    calls_before = len(calls(cluster, namespace))
    first = use(cluster, namespace)["status"]
    middle = len(calls(cluster, namespace))
    mission = use(cluster, namespace)
    second_run, second = mission["metadata"]["name"], mission["status"]
    journal = calls(cluster, namespace)

    assert (first["outcome"], second["outcome"]) == ("Succeeded", "Succeeded")
    assert first["result"] == "The disk /data was full; delete old segments of the index."
    assert first["checks"] == [{"name": "explanation", "status": "Passed"}]
    assert (first["turns"], first["toolCalls"]) == (4, 3)
    assert first["tokens"] == {"input": 2900, "output": 180}
    assert (first["cost"], first["display"]["cost"]) == (0.00362, "$0.0036")
    assert second["knowledge"]["injected"] >= 1
    assert (second["turns"], second["toolCalls"]) == (2, 1)
    assert second["tokens"] == {"input": 1500, "output": 80}
    assert second["cost"] == 0.00182
    assert [call["rule"] for call in journal[calls_before:middle]] == [
        "recalls",
        "writes",
        "remembers",
        "answers",
    ]
    assert [call["rule"] for call in journal[middle:]] == [
        "knows the cause and writes",
        "knows the cause and answers",
    ]
    for call in journal[middle:]:
        system = "".join(
            message["content"]
            for message in call["request"]["messages"]
            if message["role"] in ("system", "developer")
        )
        assert "/data was full" not in system, "knowledge never enters the instructions"

    (artifact,) = second["artifacts"]
    assert artifact["path"] == "/workspace/shared/explanation.md"
    cell = cluster.get("cell", f"{second_run}-explainer-0", namespace)
    assert cell is not None
    assert (cell["status"]["totalCost"], cell["status"]["totalTokens"]) == (0.00182, 1580)
    wait_until(
        lambda: (cluster.get("formation", second_run, namespace) or {})["status"]["display"],
        lambda display: display["cost"] == "$0.0018",
        description="the cost of the team",
    )
    with cluster.store(namespace) as store:
        run = store.get_run(second["runId"])
    assert (run.cost, run.tokens) == (0.00182, 1580)
    assert run.counters["turns"] == 2


def test_a_pod_of_a_mind_keeps_to_the_restricted_standard_and_shows_no_key(
    cluster: Installed, namespace: str, model: str
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, label, "--overwrite")
    completed = use(cluster, namespace, "--set", "budget=0")

    assert completed["status"]["outcome"] == "BudgetExceeded"
    assert completed["status"]["attempt"] == 1
    pod_manifest = cluster.kubectl(
        "get", "pods,missions,cells,configmaps", "-n", namespace, "-o", "yaml",
        "-l", "kais.io/cell",
    )  # fmt: skip
    assert "scripted-key" not in pod_manifest
    pods = cluster.list("pod", namespace, "kais.io/cell")
    assert pods
    assert {pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods} == {True}
    cell = wait_until(
        lambda: conditions(cluster.list("cell", namespace)[0]),
        lambda cell_conditions: cell_conditions.get("Ready", {}).get("status") == "True",
        description="a ready cell",
    )
    assert cell["Ready"]["reason"] == "Standby"


STEADY = """
apiVersion: kais.io/v1
kind: Cell
metadata: {name: steady}
spec:
  mind:
    provider: openai
    model: scripted-1
    baseUrl: http://slow:8080/v1
    credentialsRef: {name: steady, key: apiKey}
    systemPrompt: You explain errors in logs.
"""
WORK = """
apiVersion: kais.io/v1
kind: Mission
metadata: {name: steady-work}
spec:
  cellRef: steady
  objective: Why is the indexer down?
  completion:
    timeout: 5m
    checks: [{name: cause, type: response, successPattern: disk}]
"""
SLOW = """
    rules:
      - name: thinks for a while
        when: {turn: 1}
        reply:
          text: The disk /data was full.
          delay_s: 15
          usage: {input: 700, output: 60}
"""


def slow_model(cluster: Installed, namespace: str) -> None:
    """A model server that takes its time, as `slow`."""
    script_server(cluster, namespace, "slow", SLOW)


def journal_of(cluster: Installed, namespace: str, name: str) -> list[Any]:
    """The calls of a model server."""
    path = f"/api/v1/namespaces/{namespace}/services/{name}:8080/proxy/journal"
    return list(json.loads(cluster.kubectl("get", "--raw", path)))


def script_server(cluster: Installed, namespace: str, server: str, rules: str) -> None:
    """The model server of the example with another script and name."""
    manifest = (EXAMPLE / "scripted-model.yaml").read_text()
    head, rest = manifest.split("    rules:\n", 1)
    script = head + rules.lstrip("\n") + "---\n" + rest.split("\n---\n", 1)[1]
    for name in ("name: models", "app: models"):
        script = script.replace(name, name.replace("models", server))
    script = script.replace(f"- name: {server}\n      image", "- name: models\n      image")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=script)
    ready = ("--for=condition=Ready", "--timeout=170s", f"pod/{server}")
    cluster.kubectl("wait", "-n", namespace, *ready)


TEAM = """
apiVersion: kais.io/v1
kind: Formation
metadata: {name: reviewed}
spec:
  topology: {type: full_mesh}
  cells:
    - name: worker
      spec: {mind: &mind {provider: openai, model: scripted-1, baseUrl: "http://slow:8080/v1",
             credentialsRef: {name: reviewed, key: apiKey}, systemPrompt: You explain.}}
    - name: critic
      spec: {mind: *mind}
---
apiVersion: kais.io/v1
kind: Mission
metadata: {name: reviewed}
spec:
  formationRef: reviewed
  objective: Why does the mailer refuse letters?
  entrypoint: {cell: worker}
  completion:
    timeout: 10m
    review: {enabled: true, reviewer: critic, criteria: "Does it name the queue?"}
"""
VERDICTS = """
    rules:
      - name: rejects
        when: {system: You review the work, lacks: [out-7]}
        reply:
          text: '{"verdict": "reject", "reasons": "Which queue?"}'
          usage: {input: 300, output: 20}
      - name: approves
        when: {system: You review the work}
        reply:
          text: '{"verdict": "approve", "reasons": "It names the queue."}'
          usage: {input: 300, output: 20}
      - name: is told which queue
        when: {contains: ["Which queue?"]}
        reply: {text: The queue out-7 was full., usage: {input: 500, output: 40}}
      - name: forgets the queue
        reply: {text: A queue was full., usage: {input: 400, output: 30}}
"""


def test_a_cell_reviews_the_work_and_its_rejection_opens_the_next_attempt(
    cluster: Installed, namespace: str
) -> None:
    script_server(cluster, namespace, "reviewed-models", VERDICTS)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "reviewed", key, "-n", namespace)
    manifest = TEAM.replace("http://slow:8080", "http://reviewed-models:8080")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    mission = cluster.finished_mission("reviewed", namespace, timeout_s=400)
    settled = mission["status"]

    assert (settled["outcome"], settled["attempt"]) == ("Succeeded", 2), settled
    verdict = {"status": "Approved", "feedback": "It names the queue.", "by": "critic-0"}
    assert settled["review"] == verdict
    assert settled["history"][0]["result"] == "rejected in review by critic-0: Which queue?"
    assert settled["tokens"] == {"input": 1500, "output": 110}
    rules = [call["rule"] for call in journal_of(cluster, namespace, "reviewed-models")]
    assert rules == ["forgets the queue", "rejects", "is told which queue", "approves"]
    critic = wait_until(
        lambda: (cluster.get("cell", "reviewed-critic-0", namespace) or {})["status"],
        lambda status: "totalTokens" in status,
        description="what the reviewer used",
    )
    assert critic["totalTokens"] == 640


GUARDED = """
apiVersion: kais.io/v1
kind: Formation
metadata: {name: guarded}
spec:
  topology: {type: full_mesh}
  budget: {maxCostPerHour: 0.05}
  cells:
    - name: fixer
      spec:
        mind: {provider: openai, model: scripted, baseUrl: "http://guarded-models:8080/v1",
               credentialsRef: {name: guarded, key: apiKey}, maxTokens: 100,
               systemPrompt: You repair.}
        tools: [{name: write_file, approval: {required: true}}]
---
apiVersion: kais.io/v1
kind: Mission
metadata: {name: guarded}
spec:
  formationRef: guarded
  objective: Repair the relay.
  entrypoint: {cell: fixer}
  completion: {timeout: 15m}
"""
LATER = """
apiVersion: kais.io/v1
kind: Mission
metadata: {name: guarded-later}
spec:
  formationRef: guarded
  objective: Repair the relay again.
  entrypoint: {cell: fixer}
"""
REPAIRS = """
    rules:
      - name: writes
        when: {turn: 1}
        reply:
          tool_calls: [{name: write_file, arguments: {path: shared/relay.conf, content: "on"}}]
          usage: {input: 500, output: 20}
      - name: costs more than was reserved
        when: {turn: 2}
        reply: {text: The relay is repaired., usage: {input: 60000, output: 20}}
"""


def test_a_call_waits_for_a_person_and_a_team_over_its_hour_is_paused(
    cluster: Installed, namespace: str
) -> None:
    script_server(cluster, namespace, "guarded-models", REPAIRS)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "guarded", key, "-n", namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=GUARDED)
    asking = wait_until(
        lambda: cluster.get("mission", "guarded", namespace),
        lambda body: bool((body or {}).get("status", {}).get("approvals")),
        description="a call that waits for an approval",
        timeout_s=400,
    )
    assert conditions(asking)["Succeeded"]["reason"] == "ApprovalRequired"
    listed = cluster.kais("approvals", "list", "-n", namespace, "-o", "json")
    (call,) = json.loads(listed.stdout)["items"]
    assert (call["mission"], call["tool"]) == ("guarded", "write_file")
    assert call["arguments"] == '{"content": "on", "path": "shared/relay.conf"}'
    assert len(journal_of(cluster, namespace, "guarded-models")) == 1, "the agent waits"

    options = ("-n", namespace, "--reason", "as agreed")
    approved = cluster.kais("approvals", "approve", call["call"], *options)
    assert approved.returncode == 0, approved.stderr
    settled = cluster.finished_mission("guarded", namespace, timeout_s=400)["status"]

    assert (settled["outcome"], settled["attempt"]) == ("Succeeded", 1), settled
    assert [file["path"] for file in settled["artifacts"]] == ["/workspace/shared/relay.conf"]
    (decided,) = settled["approvals"]
    whoami = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert (decided["outcome"], decided["by"]) == ("approved", cluster.kubectl(*whoami))
    assert (decided["reason"], decided["sha256"]) == ("as agreed", call["sha256"])

    paused = wait_until(
        lambda: (cluster.get("formation", "guarded", namespace) or {}).get("status", {}),
        lambda status: status.get("phase") == "Paused",
        description="the team over its hour",
    )
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=LATER)
    started = wait_until(
        lambda: conditions(cluster.get("mission", "guarded-later", namespace)).get("Started", {}),
        lambda condition: condition.get("reason") == "Paused",
        description="a mission that waits for the end of the pause",
    )
    assert paused["pausedUntil"] in started["message"]
    assert len(journal_of(cluster, namespace, "guarded-models")) == 2


def evict(cluster: Installed, namespace: str, name: str) -> None:
    """Evict a pod as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


KILLED = """
apiVersion: kais.io/v1
kind: Cell
metadata: {name: killed}
spec:
  mode: Task
  mind: {provider: openai, model: scripted, baseUrl: "http://killed-models:8080/v1",
         credentialsRef: {name: killed, key: apiKey}, systemPrompt: You repair.}
  tools: [{name: write_file, approval: {required: true}}]
---
apiVersion: kais.io/v1
kind: Mission
metadata: {name: killed}
spec:
  cellRef: killed
  objective: Repair the relay.
  completion:
    timeout: 15m
    checks: [{name: written, type: fileExists, paths: [/workspace/shared/relay.conf]}]
"""


def test_a_call_of_a_task_waits_for_a_person_and_continues_in_the_pod_after_an_eviction(
    cluster: Installed, namespace: str
) -> None:
    script_server(cluster, namespace, "killed-models", REPAIRS)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "killed", key, "-n", namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=KILLED)

    def waiting() -> Body:
        status: Body = wait_until(
            lambda: (cluster.get("mission", "killed", namespace) or {}).get("status", {}),
            lambda status: bool(status.get("approvals")),
            description="a call that waits for an approval",
            timeout_s=400,
        )
        (call,) = status["approvals"]
        return dict(call)

    call = waiting()
    (pod,) = cluster.list("pod", namespace, "kais.io/mission=killed")
    evict(cluster, namespace, pod["metadata"]["name"])
    wait_until(
        lambda: journal_of(cluster, namespace, "killed-models"),
        lambda journal: len(journal) == 2,
        description="the new pod",
        timeout_s=400,
    )
    assert waiting()["call"] == call["call"]
    approved = cluster.kais("approvals", "approve", call["call"], "-n", namespace)
    assert approved.returncode == 0, approved.stderr
    settled = cluster.finished_mission("killed", namespace, timeout_s=400)["status"]

    assert (settled["outcome"], settled["attempt"]) == ("Succeeded", 1), settled
    assert settled["checks"] == [{"name": "written", "status": "Passed"}]
    (decided,) = settled["approvals"]
    whoami = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert (decided["outcome"], decided["by"]) == ("approved", cluster.kubectl(*whoami))
    assert (decided["call"], decided["sha256"]) == (call["call"], call["sha256"])
    rules = [each["rule"] for each in journal_of(cluster, namespace, "killed-models")]
    assert rules == ["writes", "writes", "costs more than was reserved"]


LIMITED = """
apiVersion: kais.io/v1
kind: Cell
metadata: {name: limited}
spec:
  mode: Task
  mind: {provider: openai, model: scripted, baseUrl: "http://limited-models:8080/v1",
         credentialsRef: {name: limited, key: apiKey}, maxTokens: 10000, systemPrompt: You repair.}
  tools: [{name: write_file, approval: {required: true}}]
---
apiVersion: kais.io/v1
kind: Mission
metadata: {name: limited}
spec:
  cellRef: limited
  objective: Repair the relay.
  budget: {maxCost: 0.1}
  completion: {timeout: 15m}
"""
HONEST = """
    rules:
      - name: writes
        when: {turn: 1}
        reply:
          tool_calls: [{name: write_file, arguments: {path: shared/relay.conf, content: "on"}}]
          usage: {input: 500, output: 9000}
      - name: answers
        when: {turn: 2}
        reply: {text: The relay is repaired., usage: {input: 500, output: 9000}}
"""
COST_OF_CALL = Decimal("0.0365")


def start_limited(cluster: Installed, namespace: str) -> None:
    """Start a mind under a limit, and wait until one of its calls waits for an approval."""
    script_server(cluster, namespace, "limited-models", HONEST)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "limited", key, "-n", namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=LIMITED)
    wait_until(
        lambda: (cluster.get("mission", "limited", namespace) or {}).get("status", {}),
        lambda status: bool(status.get("approvals")),
        description="a call that waits for an approval",
        timeout_s=400,
    )


def _limit_of(pod: Body) -> str:
    return str(pod["metadata"]["annotations"]["kais.io/max-cost"])


def test_pod_of_a_deleted_job_reports_before_the_next_one_starts(
    cluster: Installed, limited_namespace: str
) -> None:
    namespace = limited_namespace
    start_limited(cluster, namespace)
    cluster.kubectl("delete", "job", "limited-a1", "-n", namespace, "--wait=false")

    def pods(limit: Decimal) -> list[str]:
        """Return the phases of the pods with a limit."""
        listed = cluster.list("pod", namespace, "kais.io/mission=limited")
        limited = [pod for pod in listed if _limit_of(pod) == str(limit)]
        return [pod["status"]["phase"] for pod in limited]

    wait_until(
        lambda: pods(Decimal("0.1") - COST_OF_CALL),
        bool,
        description="a pod with what the first one left",
        timeout_s=400,
    )
    assert pods(Decimal("0.1")) in ([], ["Failed"])
    cluster.kubectl("annotate", "mission", "limited", "kais.io/abort=enough", "-n", namespace)
    settled = cluster.finished_mission("limited", namespace, timeout_s=400)["status"]
    assert (settled["cost"], settled.get("estimatedCost")) == (float(COST_OF_CALL), None)


def test_pods_of_an_attempt_together_keep_to_its_limit_when_one_is_evicted(
    cluster: Installed, limited_namespace: str
) -> None:
    namespace = limited_namespace
    start_limited(cluster, namespace)

    def pods() -> list[Body]:
        return cluster.list("pod", namespace, "kais.io/mission=limited")

    def limits() -> list[str]:
        return [_limit_of(pod) for pod in pods()]

    assert limits() == ["0.1"]
    evict(cluster, namespace, pods()[0]["metadata"]["name"])
    wait_until(
        lambda: journal_of(cluster, namespace, "limited-models"),
        lambda journal: len(journal) == 2,
        description="the new pod",
        timeout_s=400,
    )
    assert limits()[-1] == str(Decimal("0.1") - COST_OF_CALL)
    call = wait_until(
        lambda: json.loads(cluster.kais("approvals", "list", "-n", namespace, "-o", "json").stdout),
        lambda listed: [each["mission"] for each in listed["items"]] == ["limited"],
        description="the call of the new pod",
    )["items"][0]["call"]
    cluster.kais("approvals", "approve", call, "-n", namespace)
    settled = cluster.finished_mission("limited", namespace, timeout_s=400)["status"]

    spent = COST_OF_CALL * len(journal_of(cluster, namespace, "limited-models"))
    assert spent <= Decimal("0.1")
    assert (settled["outcome"], settled["attempt"]) == ("BudgetExceeded", 1), settled
    assert (settled["cost"], settled.get("estimatedCost")) == (float(spent), None)


@pytest.mark.alone
def test_an_operator_killed_in_mid_task_sends_an_agent_its_work_once(
    cluster: Installed, namespace: str, model: str
) -> None:
    slow_model(cluster, namespace)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "steady", key, "-n", namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=STEADY + "---" + WORK)

    def asked() -> list[Any]:
        path = f"/api/v1/namespaces/{namespace}/services/slow:8080/proxy/journal"
        return list(json.loads(cluster.kubectl("get", "--raw", path)))

    wait_until(
        lambda: (cluster.get("mission", "steady-work", namespace) or {}).get("status", {}),
        lambda status: status.get("attempt") == 1,
        description="the first attempt",
        timeout_s=120,
    )
    cluster.kill(OPERATOR)
    settled = cluster.finished_mission("steady-work", namespace, timeout_s=400)["status"]

    assert (settled["outcome"], settled["attempt"]) == ("Succeeded", 1), settled
    assert settled["result"] == "The disk /data was full."
    assert (settled["turns"], settled["tokens"]) == (1, {"input": 700, "output": 60})
    assert [call["rule"] for call in asked()] == ["thinks for a while"]
    cell = wait_until(
        lambda: (cluster.get("cell", "steady", namespace) or {})["status"],
        lambda status: "totalTokens" in status,
        description="what the cell used",
    )
    assert cell["totalTokens"] == 760
