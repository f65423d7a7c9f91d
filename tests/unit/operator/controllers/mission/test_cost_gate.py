"""The pods of one attempt: each waits for what the pods before it left of the limit on costs."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from kais import agent_results, labels
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, FailureClass
from kais_operator import errors
from kais_operator.controllers.mission.decide import cost_gate
from kais_operator.controllers.mission.observe import mission as missions
from kais_operator.planning import children
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

GATE = "kais.io/cost-limit"
MIND = {"provider": "openai", "model": "m", "systemPrompt": "help"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


async def started(**mission: Any) -> FakeWorld:
    cells = [{"name": "lead", "spec": {"mode": "Task", "mind": MIND}}]
    fake = fake_world(
        teams.team(cells=cells), teams.work(**{"budget": {"maxCost": 0.5}, **mission})
    )
    await teams.settle_team(fake)
    await teams.settle(fake)
    return fake


def gates(fake: FakeWorld, ref: ObjectRef) -> list[str]:
    return [gate["name"] for gate in fake.cluster.read(ref)["spec"].get("schedulingGates") or ()]


def max_cost(fake: FakeWorld, ref: ObjectRef) -> str:
    return str(fake.cluster.read(ref)["metadata"]["annotations"]["kais.io/max-cost"])


def is_open(fake: FakeWorld, ref: ObjectRef) -> bool:
    return not gates(fake, ref)


def message_of(cost: str, failure: FailureClass | None = FailureClass.INTERRUPTED) -> str:
    reason = AgentFailure(failure, "SIGTERM") if failure is not None else None
    usage = AgentUsage(turns=1, cost=Decimal(cost))
    return agent_results.serialize(AgentResult(usage=usage, failure=reason), limit_bytes=4096)


def evict(fake: FakeWorld, ref: ObjectRef, *, cost: str) -> None:
    """End a pod as an eviction does, with the report of the runtime."""
    ended = {"terminated": {"exitCode": 75, "reason": "Error", "message": message_of(cost)}}
    phase = {"phase": "Failed", "conditions": [DISRUPTED]}
    fake.cluster.set_status(ref, {**phase, **teams.container(ended)})


async def with_working_pod(**mission: Any) -> tuple[FakeWorld, ObjectRef]:
    fake = await started(**mission)
    first = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    assert is_open(fake, first)
    fake.cluster.set_status(first, teams.running())
    await teams.settle(fake)
    return fake, first


async def test_pods_under_a_limit_are_gated_and_read_it_from_their_annotation() -> None:
    fake = await started()
    template = fake.cluster.read(teams.job_ref())["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": GATE}]
    assert template["metadata"]["annotations"] == {"kais.io/max-cost": "0.5"}
    (variable,) = (
        each for each in template["spec"]["containers"][0]["env"] if each["name"] == "KAIS_MAX_COST"
    )
    field = {"fieldPath": "metadata.annotations['kais.io/max-cost']"}
    assert variable == {"name": "KAIS_MAX_COST", "valueFrom": {"fieldRef": field}}


@pytest.mark.parametrize("task", ["a mind without limits", "an image"])
async def test_other_pods_have_no_gate(task: str) -> None:
    if task == "an image":
        fake = await teams.started(teams.work(budget={"maxCost": 0.5}))
    else:
        fake = await started(budget=None)
    template = fake.cluster.read(teams.job_ref())["spec"]["template"]
    assert "schedulingGates" not in template["spec"]
    assert "annotations" not in template["metadata"]


async def test_first_pod_starts_with_all_that_the_attempt_may_cost() -> None:
    fake = await started()
    pod = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    assert (gates(fake, pod), max_cost(fake, pod)) == ([], "0.5")


async def test_gates_of_others_stay() -> None:
    fake = await started()
    pod = teams.gated_pod(fake, "a")
    other = {"name": "kueue.x-k8s.io/admission"}
    fake.cluster.edit(pod, {"spec": {"schedulingGates": [other, {"name": GATE}]}})
    await teams.settle(fake)
    assert gates(fake, pod) == ["kueue.x-k8s.io/admission"]


@pytest.mark.parametrize("seen", ["while it is there", "when it is gone", "by another operator"])
async def test_pod_that_replaces_an_evicted_one_gets_what_that_left(seen: str) -> None:
    fake, first = await with_working_pod()
    evict(fake, first, cost="0.2")
    if seen != "while it is there":
        await teams.settle(fake)
        fake.cluster.remove(first)
    second = teams.gated_pod(fake, "b")
    await teams.settle(restarted(fake) if seen == "by another operator" else fake)
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0.3")


async def test_all_pods_of_an_attempt_are_added_up() -> None:
    fake, first = await with_working_pod()
    evict(fake, first, cost="0.2")
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    evict(fake, second, cost="0.25")
    third = teams.gated_pod(fake, "c")
    await teams.settle(fake)
    assert (gates(fake, third), max_cost(fake, third)) == ([], "0.05")
    teams.end_job(fake, condition="Complete")
    ended = {
        "terminated": {"exitCode": 0, "reason": "Completed", "message": message_of("0.05", None)}
    }
    fake.cluster.set_status(third, {"phase": "Succeeded", **teams.container(ended)})
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("Succeeded", 0.5)
    assert "estimatedCost" not in status(fake)


async def test_pod_waits_while_an_earlier_one_may_still_spend() -> None:
    fake, first = await with_working_pod()
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert gates(fake, second) == [GATE]
    evict(fake, first, cost="0.1")
    await teams.settle(fake)
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0.4")


async def test_run_ends_when_an_evicted_pod_has_spent_the_limit() -> None:
    fake, first = await with_working_pod()
    evict(fake, first, cost="0.5")
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert gates(fake, second) == [GATE]
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("BudgetExceeded", 0.5)
    assert "estimatedCost" not in status(fake)
    _, reason, message = condition(fake, "Succeeded")
    assert reason == "BudgetExceeded"
    assert message == (
        "attempt 1: the pod that replaces a disrupted one was not started: its earlier pods have "
        "spent the $0.5 that it may cost; budget.maxCost of the mission had $0.5 left for this run"
    )
    assert teams.job_ref() not in fake.cluster.refs("Job")


async def test_run_ends_when_the_report_of_an_evicted_pod_is_lost() -> None:
    fake, first = await with_working_pod()
    fake.cluster.remove(first)
    second = teams.gated_pod(fake, "b")
    await teams.settle(restarted(fake))
    assert gates(fake, second) == [GATE]
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("BudgetExceeded", 0.5)
    assert status(fake)["estimatedCost"] == 0.5
    assert (
        "the report of an earlier pod is lost, so all of the $0.5 that it may cost counts as spent"
        in condition(fake, "Succeeded")[2]
    )


async def test_pod_whose_gate_was_opened_and_that_nobody_saw_again_counts() -> None:
    """The operator stopped between the two; only the record says that there was a pod."""
    fake = await started()
    first = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    fake.cluster.remove(first)
    second = teams.gated_pod(fake, "b")
    await teams.settle(restarted(fake))
    assert gates(fake, second) == [GATE]
    assert status(fake)["outcome"] == "BudgetExceeded"


async def test_pod_is_recorded_before_its_gate_is_opened() -> None:
    fake = await started()
    pod = teams.gated_pod(fake, "a")
    fake.cluster.fail("patch", errors.ClusterUnavailable("killed"), kind="Pod")
    with pytest.raises(errors.ClusterUnavailable):
        await teams.settle(fake)
    attempts = fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/attempts"]
    assert '"pods":{"a":null}' in attempts
    assert gates(fake, pod) == [GATE]
    await teams.settle(restarted(fake))
    assert (gates(fake, pod), max_cost(fake, pod)) == ([], "0.5")


async def test_task_under_a_limit_takes_one_patch_more() -> None:
    fake = await started()
    writes = len(fake.cluster.writes)
    pod = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    fake.cluster.set_status(pod, teams.running())
    await teams.settle(fake)
    patches = [ref.kind for verb, ref in fake.cluster.writes[writes:] if verb == "patch"]
    assert patches == ["Mission", "Pod"]


async def test_gate_stays_closed_if_the_pod_cannot_be_recorded() -> None:
    fake = await started()
    pod = teams.gated_pod(fake, "a")
    fake.cluster.fail("patch", errors.Conflict("changed"), kind="Mission")
    with pytest.raises(errors.Conflict):
        await teams.pass_(fake)
    assert gates(fake, pod) == [GATE]


UNKNOWN = {"exitCode": 137, "reason": "ContainerStatusUnknown"}


@pytest.mark.parametrize("seen", ["waiting", "without containers", "an unknown end"])
async def test_pod_that_was_evicted_before_its_task_started_costs_nothing(seen: str) -> None:
    fake = await started()
    first = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    waiting = teams.container({"waiting": {"reason": "ContainerCreating"}})
    unknown = teams.container({"terminated": UNKNOWN})
    containers = {"waiting": waiting, "an unknown end": unknown}.get(seen, {})
    fake.cluster.set_status(first, {"phase": "Failed", "conditions": [DISRUPTED], **containers})
    await teams.settle(fake)
    fake.cluster.remove(first)
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0.5")


async def test_pod_whose_container_the_kubelet_lost_counts() -> None:
    fake, first = await with_working_pod()
    unknown = teams.container({"terminated": UNKNOWN})
    unknown["containerStatuses"][0]["lastState"] = {"terminated": UNKNOWN}
    fake.cluster.set_status(first, {"phase": "Failed", "conditions": [DISRUPTED], **unknown})
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert gates(fake, second) == [GATE]
    assert (status(fake)["outcome"], status(fake)["estimatedCost"]) == ("BudgetExceeded", 0.5)


async def test_attempt_whose_pod_never_started_costs_nothing() -> None:
    fake = await started(completion={"maxAttempts": 1})
    pod = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    fake.cluster.set_status(pod, teams.waiting("ImagePullBackOff", "not found"))
    teams.end_job(fake, condition="Failed", reason="DeadlineExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"]
    assert "cost" not in status(fake)


async def test_budget_of_a_mind_that_used_nothing_is_not_without_effect() -> None:
    """The cell is not read any more when the run is recorded."""
    fake, first = await with_working_pod()
    failure = AgentFailure(FailureClass.MODEL_UNAUTHORIZED, "HTTP 401")
    message = agent_results.serialize(AgentResult(failure=failure), limit_bytes=4096)
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    fake.cluster.set_status(first, {"phase": "Failed", **teams.container(ended)})
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert condition(fake, "Recorded")[0] == "True"
    assert "without effect" not in condition(fake, "Started")[2]


async def test_budget_of_0_allows_free_models_in_every_pod() -> None:
    fake, first = await with_working_pod(budget={"maxCost": 0})
    evict(fake, first, cost="0")
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0")


async def test_pod_that_is_being_deleted_is_not_started() -> None:
    fake = await started()
    pod = teams.gated_pod(fake, "a")
    finalizers = ["batch.kubernetes.io/job-tracking"]
    deleted = {"deletionTimestamp": teams.stamp(fake), "finalizers": finalizers}
    fake.cluster.edit(pod, {"metadata": deleted})
    await teams.settle(fake)
    assert gates(fake, pod) == [GATE]
    attempts = fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/attempts"]
    assert '"a":null' not in attempts
    assert '"pods":{"a":' in attempts


async def test_job_of_an_earlier_version_keeps_its_limit_in_the_variable() -> None:
    fake = await started()
    job = fake.cluster.read(teams.job_ref())
    template = job["spec"]["template"]
    del template["spec"]["schedulingGates"], template["metadata"]["annotations"]
    environment = template["spec"]["containers"][0]["env"]
    environment[:] = [each for each in environment if each["name"] != "KAIS_MAX_COST"]
    environment.append({"name": "KAIS_MAX_COST", "value": "0.5"})
    fake.cluster.put(job)
    first = teams.gated_pod(fake, "a")
    fake.cluster.set_status(first, teams.running())
    await teams.settle(fake)
    fake.cluster.remove(first)
    teams.succeed(fake, message_of("0.05", None))
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("Succeeded", 0.5)
    assert status(fake)["estimatedCost"] == 0.45


def test_job_with_a_changed_limit_allows_no_costs() -> None:
    job: Body = {"spec": {"template": {"metadata": {}, "spec": {}}}}
    assert cost_gate.limit_of(job) is None
    cost_gate.close(job, Decimal("0.5"))
    assert cost_gate.limit_of(job) == Decimal("0.5")
    job["spec"]["template"]["metadata"]["annotations"]["kais.io/max-cost"] = "much"
    assert cost_gate.limit_of(job) == 0


async def test_time_without_an_operator_does_not_count_as_time_to_start() -> None:
    """Only the operator can open the gate."""
    fake, first = await with_working_pod(completion={"timeout": "2h"}, startDeadline="5m")
    evict(fake, first, cost="0.2")
    second = teams.gated_pod(fake, "b")
    fake.clock.advance(10 * 60)
    await teams.settle(restarted(fake))
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0.3")
    fake.clock.advance(4 * 60)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(2 * 60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"


async def test_recorded_pod_that_is_deleted_behind_its_gate_costs_nothing() -> None:
    fake = await started()
    first = teams.gated_pod(fake, "a")
    fake.cluster.fail("patch", errors.ClusterUnavailable("killed"), kind="Pod")
    with pytest.raises(errors.ClusterUnavailable):
        await teams.settle(fake)
    finalizers = ["batch.kubernetes.io/job-tracking"]
    deleted = {"deletionTimestamp": teams.stamp(fake), "finalizers": finalizers}
    fake.cluster.edit(first, {"metadata": deleted})
    second = teams.gated_pod(fake, "b")
    await teams.settle(restarted(fake))
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0.5")


async def test_run_whose_gate_nobody_opened_in_its_time_did_not_time_out() -> None:
    fake = await started(completion={"timeout": "10m"})
    teams.gated_pod(fake, "a")
    fake.clock.advance(11 * 60)
    await teams.settle(restarted(fake))
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert (
        "attempt 1 did not start within the 10m for all attempts" in condition(fake, "Succeeded")[2]
    )
    assert "cost" not in status(fake)


def annotate(fake: FakeWorld, name: str, value: str | None) -> None:
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {name: value}}})


def counted(fake: FakeWorld) -> str | None:
    """What the cell has cost in all."""
    usage = fake.cluster.read(teams.CELL)["metadata"]["annotations"].get(labels.CELL_USAGE)
    return str(json.loads(usage)["cost"]) if usage is not None else None


def reserved(fake: FakeWorld) -> list[tuple[str, str]]:
    """What each run has spent and reserved of the budget of its team."""
    entries = fake.cluster.read(teams.FORMATION)["metadata"]["annotations"][labels.RESERVATIONS]
    return [(spent, rest) for *_, spent, rest in json.loads(entries)["runs"]]


async def team_with_limit() -> FakeWorld:
    """A mission of a team whose missions share a limit on costs."""
    cells = [{"name": "lead", "spec": {"mode": "Task", "mind": MIND}}]
    fake = fake_world(teams.team(cells=cells, budget={"maxTotalCost": 0.5}), teams.work())
    await teams.settle_team(fake)
    return fake


async def with_open_gate() -> tuple[FakeWorld, ObjectRef]:
    """Such a mission, whose first pod may start."""
    fake = await team_with_limit()
    await teams.settle(fake)
    pod = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    return fake, pod


@pytest.mark.parametrize("end", ["aborted", "deleted", "late"])
async def test_lost_report_counts_when_no_pod_follows(end: str) -> None:
    """The operator stopped before the pod vanished; the run ends before another pod is created."""
    fake, first = await with_working_pod(completion={"timeout": "10m"})
    fake.cluster.set_status(teams.job_ref(), {"startTime": teams.stamp(fake)})
    fake.cluster.remove(first)
    if end == "aborted":
        annotate(fake, "kais.io/abort", "enough")
    elif end == "deleted":
        fake.cluster.remove(MISSION)
    else:
        fake.clock.advance(11 * 60)
    await teams.settle(restarted(fake))
    assert counted(fake) == "0.5"


@pytest.mark.parametrize("container", ["lost by the kubelet", "on a node that is gone"])
async def test_lost_report_of_a_pod_that_ended_counts_when_no_pod_follows(container: str) -> None:
    """The pod still exists, but nothing reports for it any more."""
    fake, first = await with_working_pod(completion={"timeout": "10m"})
    lost = teams.running()
    if container == "lost by the kubelet":
        lost = teams.container({"terminated": UNKNOWN})
        lost["containerStatuses"][0]["lastState"] = {"terminated": UNKNOWN}
    fake.cluster.set_status(first, {**lost, "phase": "Failed", "conditions": [DISRUPTED]})
    fake.clock.advance(11 * 60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert counted(fake) == "0.5"


async def test_pod_that_worked_before_an_operator_saw_it_counts() -> None:
    """A person removed its gate by hand."""
    fake = await started()
    first = teams.gated_pod(fake, "a")
    fake.cluster.edit(first, {"spec": {"schedulingGates": None}})
    lost = teams.container({"terminated": UNKNOWN})
    lost["containerStatuses"][0]["lastState"] = {"terminated": UNKNOWN}
    fake.cluster.set_status(first, {**lost, "phase": "Failed", "conditions": [DISRUPTED]})
    second = teams.gated_pod(fake, "b")
    await teams.settle(restarted(fake))
    assert gates(fake, second) == [GATE]
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("BudgetExceeded", 0.5)


async def test_pod_that_an_abort_ends_counts_with_what_it_reported() -> None:
    """To count all that each aborted run had reserved would empty the budget of its team."""
    fake, _ = await with_working_pod()
    annotate(fake, "kais.io/abort", "enough")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert "cost" not in status(fake)


@pytest.mark.parametrize("report", ["lost", "seen"])
@pytest.mark.parametrize("end", ["aborted", "deleted"])
async def test_pods_of_a_job_that_someone_deleted_count_if_no_job_follows(
    end: str, report: str
) -> None:
    fake, first = await with_working_pod()
    if report == "seen":
        evict(fake, first, cost="0.2")
        await teams.settle(fake)
    fake.cluster.remove(first)
    fake.cluster.remove(teams.job_ref())
    if end == "aborted":
        annotate(fake, "kais.io/abort", "enough")
    else:
        fake.cluster.remove(MISSION)
    await teams.settle(restarted(fake))
    assert counted(fake) == ("0.2" if report == "seen" else "0.5")


async def test_pods_of_a_job_that_someone_deleted_count_while_the_run_is_suspended() -> None:
    """Other missions would reserve what the run has spent."""
    fake, first = await with_open_gate()
    evict(fake, first, cost="0.2")
    await teams.settle(fake)
    annotate(fake, "kais.io/reconcile", "suspended")
    fake.cluster.remove(first)
    fake.cluster.remove(teams.job_ref())
    await teams.settle(fake)
    assert reserved(fake) == [("0.2", "0")]
    annotate(fake, "kais.io/reconcile", None)
    await teams.settle(fake)
    assert reserved(fake) == [("0.2", "0.3")]
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert (gates(fake, second), max_cost(fake, second)) == ([], "0.3")


@pytest.mark.parametrize("pods", [{"x": {"cost": "100"}}, {"x": None}], ids=["cost", "lost"])
async def test_cost_that_a_user_adds_to_the_record_raises_no_limit(pods: dict[str, Body]) -> None:
    """The user removes it before the gate subtracts it."""
    fake = await team_with_limit()
    annotate(fake, "kais.io/reconcile", "suspended")
    await teams.settle(fake)
    counts = dict.fromkeys(("input", "output", "turns", "toolCalls"), 0)
    rest = {**counts, "estimated": "0", "priced": True}
    usages = {uid: usage and {**usage, **rest} for uid, usage in pods.items()}
    at = {"startedAt": teams.stamp(fake), "finishedAt": None}
    record = {"number": 1, "state": "Running", **at, "pods": usages, "reserved": "100"}
    annotate(fake, "kais.io/attempts", json.dumps([record]))
    annotate(fake, "kais.io/reconcile", None)
    await teams.settle(fake)
    annotate(fake, "kais.io/attempts", None)
    pod = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    assert (gates(fake, pod), max_cost(fake, pod)) == ([], "0.5")


async def test_lost_report_of_a_deleted_job_counts_with_what_that_had_reserved() -> None:
    """The limits leave more now, but no pod could spend it."""
    fake, first = await with_open_gate()
    fake.cluster.edit(teams.FORMATION, {"spec": {"budget": {"maxTotalCost": 2}}})
    fake.cluster.remove(first)
    fake.cluster.remove(teams.job_ref())
    await teams.settle(fake)
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert gates(fake, second) == [GATE]
    assert (status(fake)["outcome"], counted(fake)) == ("BudgetExceeded", "0.5")


async def test_lost_report_counts_while_the_run_is_suspended() -> None:
    fake, first = await with_open_gate()
    annotate(fake, "kais.io/reconcile", "suspended")
    fake.cluster.remove(first)
    await teams.settle(fake)
    assert status(fake)["cost"] == 0.5
    fake.cluster.remove(teams.job_ref())
    await teams.settle(fake)
    assert reserved(fake) == [("0.5", "0")]


async def test_pods_of_a_job_that_someone_deleted_count_for_a_later_attempt() -> None:
    fake, first = await with_working_pod(completion={"maxAttempts": 2})
    failed = message_of("0.1", FailureClass.MODEL_UNAVAILABLE)
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": failed}}
    fake.cluster.set_status(first, {"phase": "Failed", **teams.container(ended)})
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    second = teams.gated_pod(fake, "b", 2)
    await teams.settle(fake)
    evict(fake, second, cost="0.2")
    await teams.settle(fake)
    fake.cluster.remove(second)
    fake.cluster.remove(teams.job_ref(2))
    await teams.settle(restarted(fake))
    third = teams.gated_pod(fake, "c", 2)
    await teams.settle(fake)
    assert (gates(fake, third), max_cost(fake, third)) == ([], "0.2")


async def requeue_after(fake: FakeWorld) -> timedelta | None:
    seen = await missions.CONTROLLER.observe(fake.world, MISSION)
    assert seen is not None
    return missions.CONTROLLER.decide(seen.observed, fake.clock.now()).requeue_after


@pytest.mark.parametrize("age", [60, 360], ids=["young", "old"])
async def test_run_waits_for_the_pod_of_a_job_that_someone_deleted(age: int) -> None:
    """The start deadline counts from the end of the pod's grace period."""
    fake, first = await with_working_pod(completion={"timeout": "10m"})
    fake.clock.advance(age)
    teams.delete_job(fake, first)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    assert condition(fake, "Started")[2] == "Pod/demo/pod-a has not ended yet"
    assert await requeue_after(fake) == children.RETRY_INTERVAL
    evict(fake, first, cost="0.2")
    fake.cluster.vanish(first)
    await teams.settle(restarted(fake))
    assert (status(fake)["attempt"], status(fake).get("outcome")) == (1, None)
    assert teams.job_ref() in fake.cluster.refs("Job")


async def test_run_ends_if_the_pod_of_a_deleted_job_stays() -> None:
    """Its node may be gone."""
    fake, first = await with_working_pod(completion={"timeout": "20m"})
    fake.clock.advance(360)
    teams.delete_job(fake, first)
    fake.clock.advance(30 + 5 * 60 - 1)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(1)
    await teams.settle(fake)
    assert (status(fake)["outcome"], counted(fake)) == ("InfrastructureFailed", "0.5")
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1, whose Job is gone, did not start again in time: "
        "Pod/demo/pod-a has not ended yet"
    )
