"""Missions of a cell with a mind: its pod, its answer, its usage and its failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from agent_runtime import settings
from kais import agent_results, labels
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, Artifact, FailureClass
from kais_operator import errors
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import errors as knowledge_errors
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "m", "systemPrompt": "help"}
USAGE = AgentUsage(
    input_tokens=1200, output_tokens=80, turns=3, tool_calls=2, cost=Decimal("0.00152")
)


async def started(*, mind: Body | None = None, **mission: Any) -> FakeWorld:
    spec = {"mode": "Task", "mind": {**MIND, **(mind or {})}}
    fake = fake_world(teams.team(cells=[{"name": "lead", "spec": spec}]), teams.work(**mission))
    await teams.settle_team(fake)
    await teams.settle(fake)
    return fake


def report(answer: str = "", *, failure: FailureClass | None = None, **usage: Any) -> str:
    reported_usage = AgentUsage(**usage) if usage else USAGE
    reason = AgentFailure(failure, "words of the runtime") if failure is not None else None
    result = AgentResult(answer=answer, usage=reported_usage, failure=reason)
    return agent_results.serialize(result, limit_bytes=4096)


def task_pod(fake: FakeWorld, attempt: int = 1) -> Body:
    spec: Body = fake.cluster.read(teams.job_ref(attempt))["spec"]["template"]["spec"]
    return spec


def max_cost(fake: FakeWorld, attempt: int = 1, mission: str = "doctor") -> str:
    template = fake.cluster.read(teams.job_ref(attempt, mission))["spec"]["template"]
    return str(template["metadata"]["annotations"]["kais.io/max-cost"])


def variables(container: Body) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


async def test_the_pod_of_a_mind_runs_the_runtime_with_its_key_in_a_file() -> None:
    fake = await started()
    pod = task_pod(fake)
    (task,) = pod["containers"]
    environment = variables(task)
    assert task["image"] == "kais/agent:1"
    assert environment["KAIS_MODEL_URL"] == "http://models:8080/v1"
    assert environment["KAIS_MODEL_KEY_FILE"] == "/etc/kais/credentials/apiKey"
    assert environment["KAIS_MODEL_SECRET"] == "kais-openai/apiKey"  # noqa: S105
    assert environment["KAIS_AGENT_STATE"] == "/var/lib/kais-agent"
    assert environment["KAIS_PRICES"] == '{"openai/*": {"input": "1", "output": "4"}}'
    assert environment["KAIS_RESULT_BYTES"] == "4096"
    assert "KAIS_MAX_COST" not in environment
    mounts = {mount["mountPath"]: mount for mount in task["volumeMounts"]}
    assert mounts["/etc/kais/credentials"]["readOnly"] is True
    assert "readOnly" not in mounts["/var/lib/kais-agent"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["kais-credentials"]["secret"] == {
        "secretName": "kais-openai",
        "optional": True,
        "defaultMode": 0o440,
    }
    assert task["securityContext"]["readOnlyRootFilesystem"] is True
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["fsGroup"]) == (
        True,
        65532,
    )


async def test_a_mind_names_its_secret_and_its_instructions() -> None:
    fake = await started(
        mind={
            "systemPrompt": None,
            "baseUrl": "http://house:1/v1",
            "credentialsRef": {"name": "house", "key": "token"},
            "instructionsFrom": {"configMap": "prompts", "key": "lead.md"},
        }
    )
    pod = task_pod(fake)
    environment = variables(pod["containers"][0])
    assert environment["KAIS_MODEL_KEY_FILE"] == "/etc/kais/credentials/token"
    assert environment["KAIS_MODEL_SECRET"] == "house/token"  # noqa: S105
    assert environment["KAIS_INSTRUCTIONS_FILE"] == "/etc/kais/instructions/lead.md"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["kais-credentials"]["secret"]["secretName"] == "house"
    assert volumes["kais-instructions"]["configMap"] == {"name": "prompts", "optional": True}


async def test_checks_get_neither_the_key_nor_the_state_of_the_runtime() -> None:
    checks = [
        {"name": "built", "type": "command", "argv": ["true"]},
        {"name": "files", "type": "fileExists", "paths": ["/workspace/shared/a"]},
    ]
    fake = await started(completion={"checks": checks, "maxAttempts": 1})
    pod = task_pod(fake)
    (task,) = pod["initContainers"]
    assert variables(task)["KAIS_RESULT_BYTES"] == "4096"
    assert "/etc/kais/credentials" in {mount["mountPath"] for mount in task["volumeMounts"]}
    built, files = pod["containers"]
    assert (built["image"], files["image"]) == ("kais/agent:1", "kais/operator:1")
    assert not [name for name in variables(built) if name.startswith("KAIS_MODEL")]
    for container in (built, files):
        paths = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert paths.isdisjoint({"/etc/kais/credentials", "/var/lib/kais-agent"})


async def test_the_messages_of_many_containers_share_what_the_kubelet_keeps() -> None:
    checks = [{"name": f"c{n}", "type": "command", "argv": ["true"]} for n in range(5)]
    fake = await started(completion={"checks": checks})
    assert variables(task_pod(fake)["initContainers"][0])["KAIS_RESULT_BYTES"] == "2048"


async def test_the_runtime_accepts_its_share_of_the_messages_with_the_most_checks() -> None:
    checks = [{"name": f"c{n}", "type": "command", "argv": ["true"]} for n in range(50)]
    fake = await started(completion={"checks": checks})
    task = variables(task_pod(fake)["initContainers"][0])
    assert settings.from_environment(task).result_bytes == agent_results.MIN_BYTES == 240


async def test_an_answer_becomes_the_result_and_its_usage_the_status_and_the_ledger() -> None:
    fake = await started()
    teams.succeed(fake, report("Port 8443."))
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["result"]) == ("Succeeded", "Port 8443.")
    assert mission_status["resultTruncated"] is False
    assert mission_status["tokens"] == {"input": 1200, "output": 80}
    assert (mission_status["turns"], mission_status["toolCalls"], mission_status["cost"]) == (
        3,
        2,
        0.00152,
    )
    assert mission_status["display"]["cost"] == "$0.0015"
    (run,) = fake.knowledge.runs.values()
    assert (run.cost, run.tokens) == (0.00152, 1280)
    assert run.counters == {
        "injected": 0,
        "inputTokens": 1200,
        "outputTokens": 80,
        "turns": 3,
        "toolCalls": 2,
    }


async def test_files_of_a_mind_are_listed_by_name_size_and_path() -> None:
    fake = await started()
    files = (Artifact("shared/report.md", 120), Artifact("private/n\x1bote", 7), Artifact("", 1))
    result = AgentResult(answer="done", artifacts=files)
    teams.succeed(fake, agent_results.serialize(result, limit_bytes=4096))
    await teams.settle(fake)
    assert status(fake)["artifacts"] == [
        {"name": "report.md", "sizeBytes": 120, "path": "/workspace/shared/report.md"},
        {"name": "note", "sizeBytes": 7, "path": "/workspace/private/note"},
    ]


async def test_the_usage_of_all_attempts_counts() -> None:
    fake = await started(completion={"maxAttempts": 2}, budget={"maxCost": 0.01})
    assert max_cost(fake) == "0.01"
    teams.fail(fake, report(failure=FailureClass.MODEL_UNAVAILABLE), code=75)
    await teams.settle(fake)
    assert (status(fake)["turns"], status(fake)["cost"]) == (3, 0.00152)
    second = variables(task_pod(fake, 2)["containers"][0])
    assert max_cost(fake, 2) == "0.00848"
    assert second["KAIS_FEEDBACK"] == "words of the runtime"
    teams.succeed(fake, report("done"), attempt=2)
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["turns"], mission_status["cost"]) == (
        "Succeeded",
        6,
        0.00304,
    )
    assert "(without effect" not in condition(fake, "Started")[2]


@pytest.mark.parametrize(
    ("tokens", "cost", "turns", "counted"),
    [(10**15, "1E+9", 6, 999_999_999), (10**40, "1E+300", 3, 1200)],
    ids=["bounded", "refused"],
)
async def test_an_impossible_usage_loses_neither_the_attempts_nor_the_outcome(
    tokens: int, cost: str, turns: int, counted: int
) -> None:
    fake = await started(completion={"maxAttempts": 2})
    value = {
        "kais.io/agent": 1,
        "usage": {"inputTokens": tokens, "turns": 3, "cost": cost},
        "artifacts": [{"path": "shared/a", "bytes": tokens}],
        "failure": {"class": "model-unavailable", "message": "away"},
    }
    message = json.dumps(value)
    teams.fail(fake, message, code=75)
    await teams.settle(fake)
    assert status(fake)["attempt"] == 2
    teams.succeed(fake, report("done"), attempt=2)
    await teams.settle(fake)
    for ref in (*fake.cluster.refs("Pod"), *fake.cluster.refs("Job")):
        fake.cluster.remove(ref)
    fake.cluster.edit(MISSION, {"status": {}})
    await teams.settle(restarted(fake))
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["attempt"], mission_status["turns"]) == (
        "Succeeded",
        2,
        turns,
    )
    assert mission_status["tokens"]["input"] == counted
    assert condition(fake, "Succeeded")[2] == "attempt 2: the task succeeded"


FINAL = {
    FailureClass.MODEL_UNAUTHORIZED: "Failed",
    FailureClass.TOOL_LOOP: "Failed",
    FailureClass.INVALID_CONFIGURATION: "Failed",
    FailureClass.BUDGET: "BudgetExceeded",
}


@pytest.mark.parametrize(("failure", "outcome"), FINAL.items())
async def test_a_failure_that_would_only_repeat_ends_the_run(
    failure: FailureClass, outcome: str
) -> None:
    fake = await started(completion={"maxAttempts": 3})
    teams.fail(fake, report(failure=failure), code=failure.exit_status)
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["attempt"], mission_status["turns"]) == (
        outcome,
        1,
        3,
    )
    _, reason, message = condition(fake, "Succeeded")
    end = f"attempt 1: the agent gave no answer ({failure}): words of the runtime"
    assert message == (end if reason == outcome else f"{outcome}: {end}")
    assert len(fake.cluster.refs("Job")) == 1


async def test_a_run_without_a_price_shows_no_cost() -> None:
    fake = await started()
    teams.succeed(fake, report("done", input_tokens=5, turns=1, is_priced=False))
    await teams.settle(fake)
    mission_status = status(fake)
    assert "cost" not in mission_status
    assert (mission_status["tokens"], mission_status["display"]["cost"]) == (
        {"input": 5, "output": 0},
        "?",
    )
    (run,) = fake.knowledge.runs.values()
    assert (run.cost, run.tokens) == (None, 5)


async def test_usage_outlives_the_pods_of_the_run() -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    await teams.settle(fake)
    for ref in (*fake.cluster.refs("Pod"), *fake.cluster.refs("Job")):
        fake.cluster.remove(ref)
    fake.cluster.edit(MISSION, {"status": {}})
    await teams.settle(fake)
    assert (status(fake)["turns"], status(fake)["cost"]) == (3, 0.00152)


async def test_a_killed_runtime_reports_nothing_and_the_next_attempt_follows() -> None:
    fake = await started(completion={"maxAttempts": 2})
    teams.fail(fake, "", code=137)
    await teams.settle(fake)
    assert "turns" not in status(fake)
    assert len(fake.cluster.refs("Job")) == 2


async def test_killed_pod_counts_its_last_report_and_the_reservation_in_it() -> None:
    fake = await started(completion={"maxAttempts": 2})
    usage = {"turns": 1, "cost": Decimal("0.03"), "estimated_cost": Decimal("0.02")}
    teams.fail(fake, report(**usage), code=137, reason="OOMKilled")
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["cost"], mission_status["estimatedCost"]) == (0.03, 0.02)
    assert mission_status["display"]["cost"] == "~$0.0300"
    assert "used more memory than its limit" in mission_status["history"][0]["result"]


@pytest.mark.parametrize("seen", ["no pod", "a pod that nobody saw end", "a pod on a lost node"])
async def test_lost_pod_counts_what_was_reserved_for_its_attempt(seen: str) -> None:
    fake = await started(budget={"maxCost": 0.25}, completion={"maxAttempts": 2})
    held = {"uid": "a", "finalizers": ["batch.kubernetes.io/job-tracking"]}
    ref = teams.pod(fake, status=teams.running(), **({"uid": "a"} if seen == "no pod" else held))
    await teams.settle(fake)
    never_seen = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    if seen == "no pod":
        fake.cluster.remove(ref)
    elif seen == "a pod that nobody saw end":
        ended = teams.container(never_seen)
        ended["containerStatuses"][0]["lastState"] = never_seen  # it used to run
        teams.pod(fake, status={"phase": "Failed", **ended})
    else:
        deleted = "2026-03-01T11:00:00Z"
        teams.pod(fake, status=teams.running(), deletionTimestamp=deleted)
    if seen != "a pod on a lost node":
        fail_without_pod(fake)
    await teams.settle(restarted(fake))
    mission_status = status(fake)
    assert (mission_status["cost"], mission_status["estimatedCost"]) == (0.25, 0.25)
    assert mission_status["outcome"] == "InfrastructureFailed"
    await teams.settle_team(fake)
    assert status(fake, teams.CELL)["totalCost"] == 0.25


def fail_without_pod(fake: FakeWorld) -> None:
    """Let the Job count a failed pod, and end."""
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    job_status = {**fake.cluster.read(teams.job_ref())["status"], "failed": 1}
    fake.cluster.set_status(teams.job_ref(), job_status)


@pytest.mark.parametrize(
    "seen",
    ["no pod was created", "its container never ran", "its image was not pulled", "no limit"],
)
async def test_attempt_that_reserved_or_may_have_spent_nothing_costs_nothing(seen: str) -> None:
    budget = None if seen == "no limit" else {"maxCost": 0.25}
    fake = await started(budget=budget, completion={"maxAttempts": 1})
    if seen == "its container never ran":
        error = {"terminated": {"exitCode": 128, "reason": "StartError"}}
        teams.pod(fake, status={"phase": "Failed", **teams.container(error)})
    elif seen == "its image was not pulled":
        ref = teams.pod(fake, status=teams.waiting("ImagePullBackOff", "not found"))
        await teams.settle(fake)
        fake.cluster.remove(ref)
    elif seen == "no limit":
        ref = teams.pod(fake, status=teams.running())
        await teams.settle(fake)
        fake.cluster.remove(ref)
    if seen == "no pod was created":
        teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    else:
        fail_without_pod(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"]
    assert "cost" not in status(fake)


async def test_evicted_pod_is_paid_for_after_it_is_gone() -> None:
    fake = await started(budget={"maxCost": 0.5})
    ref = evicted_pod(fake, report(failure=FailureClass.INTERRUPTED, cost=Decimal("0.2")))
    await teams.settle(fake)
    fake.cluster.remove(ref)
    await teams.settle(restarted(fake))
    teams.pod(fake, status=teams.running(), uid="b")
    await teams.settle(fake)
    message = report("done", cost=Decimal("0.05"))
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "message": message}}
    teams.pod(fake, status={"phase": "Succeeded", **teams.container(ended)}, uid="b")
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["cost"]) == ("Succeeded", 0.25)
    assert "estimatedCost" not in mission_status


async def test_evicted_pod_whose_end_nobody_saw_costs_what_was_reserved() -> None:
    fake = await started(budget={"maxCost": 0.5})
    ref = teams.pod(fake, status=teams.running(), uid="a")
    await teams.settle(fake)
    fake.cluster.remove(ref)
    teams.succeed(fake, report("done", cost=Decimal("0.05")))
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["cost"]) == ("Succeeded", 0.5)
    assert mission_status["estimatedCost"] == 0.45


async def test_pod_is_read_afresh_if_its_job_is_seen_to_end_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = await started(budget={"maxCost": 0.25})
    ref = teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    cached, list_fresh = fake.cluster.read(ref), fake.cluster.list

    async def lagging(
        kind: str, namespace: str | None, *, labels: str = "", fresh: bool = True
    ) -> Sequence[Body]:
        if kind == "Pod" and not fresh:
            return [cached]
        return await list_fresh(kind, namespace, labels=labels, fresh=fresh)

    monkeypatch.setattr(fake.cluster, "list", lagging)
    teams.succeed(fake, report("done"))
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["result"]) == ("Succeeded", "done")
    assert mission_status["cost"] == 0.00152
    assert "estimatedCost" not in mission_status


async def test_success_whose_pod_nobody_saw_costs_what_was_reserved() -> None:
    fake = await started(budget={"maxCost": 0.25})
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["cost"]) == ("Succeeded", 0.25)
    assert mission_status["estimatedCost"] == 0.25


async def test_job_that_is_deleted_while_its_pod_works_starts_anew() -> None:
    fake = await started()
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    for ref in (*fake.cluster.refs("Pod"), *fake.cluster.refs("Job")):
        fake.cluster.remove(ref)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


async def test_the_cost_of_a_run_is_added_to_its_cell_and_its_formation_once() -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    await teams.settle(fake)
    await teams.settle_team(fake)
    for _ in range(2):  # also by an operator that remembers nothing
        mission_status = status(fake, teams.CELL)
        assert (mission_status["totalCost"], mission_status["totalTokens"]) == (0.00152, 1280)
        assert mission_status["display"]["cost"] == "$0.0015"
        team = status(fake, teams.FORMATION)
        assert (team["totalCost"], team["display"]["cost"]) == (0.00152, "$0.0015")
        assert team["cells"][0]["cost"] == 0.00152
        fake = restarted(fake)
        await teams.settle(fake)
        await teams.settle_team(fake)
    run_id = status(fake)["runId"]
    annotations = fake.cluster.read(MISSION)["metadata"]["annotations"]
    assert annotations["kais.io/usage-counted"] == run_id


async def test_a_mind_that_runs_out_of_time_is_paid_for() -> None:
    fake = await started(completion={"timeout": "5m"})
    teams.pod(fake, status=teams.running())
    fake.clock.advance(301)
    await teams.settle(fake)
    assert "outcome" not in status(fake), "the kubelet ends the pod now, and the runtime reports"
    message = report(failure=FailureClass.INTERRUPTED)
    ended = {"terminated": {"exitCode": 75, "reason": "Error", "message": message}}
    phase = {"phase": "Failed", "reason": "DeadlineExceeded"}
    teams.pod(fake, status={**phase, **teams.container(ended)})
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    await teams.settle_team(fake)
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("TimedOut", 0.00152)
    assert status(fake, teams.CELL)["totalCost"] == 0.00152


async def test_a_mind_that_does_not_end_times_out_all_the_same() -> None:
    fake = await started(completion={"timeout": "5m"})
    teams.pod(fake, status=teams.running())
    fake.clock.advance(330)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert fake.cluster.refs("Job") == []


async def test_a_disrupted_pod_of_a_mind_is_paid_for_too() -> None:
    fake = await started()
    evicted_pod(fake, report(failure=FailureClass.INTERRUPTED))
    teams.succeed(fake, report("done"))
    await teams.settle(fake)
    mission_status = status(fake)
    assert (mission_status["outcome"], mission_status["result"]) == ("Succeeded", "done")
    assert (mission_status["turns"], mission_status["cost"]) == (6, 0.00304)


def evicted_pod(fake: FakeWorld, message: str) -> ObjectRef:
    """Create a pod that a node evicted, with its report."""
    ended = {"terminated": {"exitCode": 75, "reason": "Error", "message": message}}
    evicted = {"type": "DisruptionTarget", "status": "True"}
    pod_status = {"phase": "Failed", "reason": "Evicted", "conditions": [evicted]}
    return teams.pod(
        fake,
        name="evicted",
        uid="a",
        status={**pod_status, **teams.container(ended)},
        creationTimestamp="2026-03-01T11:59:00Z",
    )


async def test_a_run_is_counted_once_if_the_operator_stops_between_the_two_writes() -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    while "kais.io/outcome" not in fake.cluster.read(MISSION)["metadata"]["annotations"]:
        await teams.pass_(fake)
    fake.cluster.fail("patch", errors.ClusterUnavailable("killed"), kind="Mission")
    with pytest.raises(errors.ClusterUnavailable):
        await teams.pass_(fake)
    assert "kais.io/usage" in fake.cluster.read(teams.CELL)["metadata"]["annotations"]
    assert "kais.io/usage-counted" not in fake.cluster.read(MISSION)["metadata"]["annotations"]
    fake = restarted(fake)
    await teams.settle(fake)
    await teams.settle_team(fake)
    assert status(fake, teams.CELL)["totalCost"] == 0.00152


@pytest.mark.parametrize("call", ["put_run", "get_run"])
async def test_a_counted_run_is_marked_although_the_ledger_refuses_it(call: str) -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    while "kais.io/outcome" not in fake.cluster.read(MISSION)["metadata"]["annotations"]:
        await teams.pass_(fake)
    fake.knowledge.refusals[call] = knowledge_errors.KnowledgeUnavailable("no disk")
    await teams.pass_(fake)
    metadata = fake.cluster.read(MISSION)["metadata"]
    assert "kais.io/usage-counted" in metadata["annotations"]
    assert metadata["finalizers"] == [labels.FINALIZER]
    del fake.knowledge.refusals[call]
    await teams.settle(fake)
    assert condition(fake, "Recorded")[:2] == ("True", "Recorded")
    assert not fake.cluster.read(MISSION)["metadata"]["finalizers"]


async def test_a_run_whose_cell_is_gone_is_recorded_all_the_same() -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    for _ in range(8):
        if "kais.io/outcome" in fake.cluster.read(MISSION)["metadata"]["annotations"]:
            break
        await teams.pass_(fake)
    fake.cluster.remove(teams.CELL)
    await teams.settle(fake)
    assert condition(fake, "Recorded")[:2] == ("True", "Recorded")


async def test_a_deletion_does_not_wait_for_a_cost_that_nobody_may_record() -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    while "kais.io/outcome" not in fake.cluster.read(MISSION)["metadata"]["annotations"]:
        await teams.pass_(fake)
    fake.cluster.remove(MISSION)
    fake.world.write_refusals.note(MISSION, "cells is forbidden")
    await teams.pass_(fake)
    assert MISSION not in fake.cluster.refs("Mission")
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.cost) == ("Succeeded", 0.00152)


async def test_a_cost_is_recorded_before_a_deletion_although_writes_failed_just_now() -> None:
    fake = await started()
    teams.succeed(fake, report("done"))
    while "kais.io/outcome" not in fake.cluster.read(MISSION)["metadata"]["annotations"]:
        await teams.pass_(fake)
    fake.cluster.remove(MISSION)
    for _ in range(2):
        fake.world.write_refusals.note_failure(MISSION, "no etcd leader", at=fake.clock.now())
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs("Mission")
    await teams.settle_team(fake)
    assert status(fake, teams.CELL)["totalCost"] == 0.00152


async def test_the_next_run_is_held_to_what_the_cell_and_the_team_have_left() -> None:
    limits = {"resources": {"maxTotalCost": 1.0}}
    lead = {"mode": "Task", "mind": MIND, **limits}
    cells = [{"name": "lead", "spec": lead}, {"name": "critic", "spec": lead}]
    fake = fake_world(
        teams.team(cells=cells, budget={"maxTotalCost": 0.01}, topology={"type": "full_mesh"}),
        teams.work(entrypoint={"cell": "lead"}),
        teams.work("again", entrypoint={"cell": "lead"}),
    )
    await teams.settle_team(fake)
    await teams.settle(fake)
    first = variables(task_pod(fake)["containers"][0])
    assert max_cost(fake) == "0.005", "an equal share of each mind"
    assert "KAIS_COST_SPENT" not in first
    teams.succeed(fake, report("done"))
    await teams.settle(fake)
    again = ObjectRef("Mission", "demo", "again")
    fake.clock.advance(60)
    await teams.settle(fake, again)
    job = fake.cluster.read(teams.job_ref(1, "again"))
    second = variables(job["spec"]["template"]["spec"]["containers"][0])
    assert (second["KAIS_COST_SPENT"], second["KAIS_COST_SPENT_HOUR"]) == ("0.00152", "0.00152")
    assert max_cost(fake, 1, "again") == "0.00348"


async def test_budget_of_a_team_with_a_mind_has_no_remark() -> None:
    spec = {"mode": "Task", "mind": MIND}
    budget = {"maxTotalCost": 1.0, "maxCostPerHour": 0.5, "allocation": {"lead": "40%"}}
    fake = fake_world(teams.team(cells=[{"name": "lead", "spec": spec}], budget=budget))
    await teams.settle_team(fake)
    assert condition(fake, "Ready", teams.FORMATION)[2] == "1 of 1 cells are ready"
