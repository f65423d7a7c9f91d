"""Jobs that someone deleted: no second pod beside the first, no lost report, no time twice."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from kais import agent_results, labels
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, FailureClass
from kais_operator.controllers.mission.observe import mission as missions
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "m", "systemPrompt": "help"}


async def mission_with_job(task: Body | None = None, **mission: Any) -> FakeWorld:
    """Start a mission for a mind under a limit, or for another task."""
    cells = [{"name": "lead", "spec": task or {"mode": "Task", "mind": MIND}}]
    spec = {"budget": {"maxCost": 0.5}, "completion": {"timeout": "10m"}, **mission}
    fake = fake_world(teams.team(cells=cells), teams.work(**spec))
    await teams.settle_team(fake)
    await teams.settle(fake)
    return fake


async def working(task: Body | None = None, **mission: Any) -> tuple[FakeWorld, ObjectRef]:
    """Start a mission whose pod works."""
    fake = await mission_with_job(task, **mission)
    return fake, await start_pod(fake, "a")


async def start_pod(fake: FakeWorld, uid: str, attempt: int = 1) -> ObjectRef:
    pod = teams.gated_pod(fake, uid, attempt)
    await teams.settle(fake)
    fake.cluster.set_status(pod, teams.running())
    await teams.settle(fake)
    return pod


def end_pod(fake: FakeWorld, pod: ObjectRef, *, cost: str, phase: str = "Failed") -> None:
    """End a terminating pod with the report of its mind."""
    usage = AgentUsage(turns=1, cost=Decimal(cost))
    result = AgentResult(usage=usage, failure=AgentFailure(FailureClass.INTERRUPTED, "SIGTERM"))
    message = agent_results.serialize(result, limit_bytes=4096)
    ended = {"terminated": {"exitCode": 75, "reason": "Error", "message": message}}
    fake.cluster.set_status(pod, {"phase": phase, **teams.container(ended)})


def attempts_of(fake: FakeWorld) -> str:
    return str(fake.cluster.read(MISSION)["metadata"]["annotations"].get(labels.ATTEMPTS))


@pytest.mark.parametrize("phase", ["Failed", "Running"])
@pytest.mark.parametrize("operator", ["the same", "another"])
async def test_report_of_a_pod_that_outlives_its_job_counts(phase: str, operator: str) -> None:
    fake, first = await working()
    teams.delete_job(fake, first)
    await teams.settle(fake)
    end_pod(fake, first, cost="0.2", phase=phase)
    await teams.settle(fake)
    fake.cluster.vanish(first)
    await teams.settle(restarted(fake) if operator == "another" else fake)
    assert (status(fake)["cost"], status(fake).get("estimatedCost")) == (0.2, None)
    second = teams.gated_pod(fake, "b")
    await teams.settle(fake)
    assert fake.cluster.read(second)["metadata"]["annotations"][labels.MAX_COST] == "0.3"


async def test_report_of_a_pod_that_outlives_its_job_counts_if_the_run_ends() -> None:
    fake, first = await working()
    teams.delete_job(fake, first)
    end_pod(fake, first, cost="0.2")
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {labels.ABORT: "enough"}}})
    await teams.settle(restarted(fake))
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("Cancelled", 0.2)


async def test_all_that_a_pod_may_cost_counts_until_it_reports() -> None:
    """Other missions would reserve what it spends meanwhile."""
    fake, first = await working()
    teams.delete_job(fake, first)
    await teams.settle(fake)
    assert (status(fake)["cost"], status(fake)["estimatedCost"]) == (0.5, 0.5)


async def test_pod_of_another_mission_reports_nothing() -> None:
    """It has the label, and no record."""
    fake, first = await working()
    teams.delete_job(fake, first)
    other = fake.cluster.read(first)
    other["metadata"] |= {"name": "other", "uid": "z"}
    fake.cluster.put(other)
    end_pod(fake, ObjectRef("Pod", "demo", "other"), cost="0.1")
    await teams.settle(fake)
    assert (status(fake)["cost"], '"z"' in attempts_of(fake)) == (0.5, False)


async def test_pod_whose_gate_was_opened_and_that_never_started_costs_nothing() -> None:
    fake = await mission_with_job()
    first = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    teams.delete_job(fake, first)
    await teams.settle(fake)
    fake.cluster.set_status(first, {"phase": "Failed"})
    await teams.settle(fake)
    assert "cost" not in status(fake)


TASKS = {"a mind": None, "an image": teams.task()}
TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@TASK
@pytest.mark.parametrize("operator", ["the same", "another"])
async def test_no_second_job_starts_while_a_pod_of_the_first_works(
    task: Body | None, operator: str
) -> None:
    fake, first = await working(task)
    teams.delete_job(fake, first)
    fake = restarted(fake) if operator == "another" else fake
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert condition(fake, "Started")[2] == "Pod/demo/pod-a has not ended yet"
    assert (status(fake)["attempt"], status(fake)["startedAt"]) == (1, "2026-03-01T12:00:00Z")
    fake.cluster.vanish(first)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


async def test_no_job_starts_while_a_pod_of_an_earlier_mission_of_that_name_works() -> None:
    fake, first = await working(teams.task())
    fake.cluster.edit(MISSION, {"metadata": {"finalizers": []}})
    fake.cluster.remove(MISSION)
    teams.delete_job(fake, first)
    fake.cluster.put(teams.work())
    await teams.settle(restarted(fake))
    assert fake.cluster.refs("Job") == []
    fake.cluster.vanish(first)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


@TASK
async def test_no_second_job_starts_while_an_orphaned_pod_of_the_first_works(
    task: Body | None,
) -> None:
    fake, pod = await working(task)
    teams.orphan(fake, pod)
    await teams.settle(restarted(fake))
    assert fake.cluster.refs("Job") == []
    assert condition(fake, "Started")[2] == "Pod/demo/pod-a has not ended yet"
    fake.cluster.set_status(pod, {"phase": "Failed"})
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


async def test_orphaned_pod_whose_gate_nobody_opens_holds_no_attempt_back() -> None:
    fake = await mission_with_job()
    pod = teams.gated_pod(fake, "a")
    teams.orphan(fake, pod)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


async def test_orphaned_gated_pod_of_an_earlier_mission_of_that_name_holds_nothing_back() -> None:
    fake = await mission_with_job()
    pod = teams.gated_pod(fake, "a")
    fake.cluster.edit(MISSION, {"metadata": {"finalizers": []}})
    fake.cluster.remove(MISSION)
    teams.orphan(fake, pod)
    fake.cluster.put(teams.work(budget={"maxCost": 0.5}))
    await teams.settle(restarted(fake))
    assert fake.cluster.refs("Job") == [teams.job_ref()]


LABELLED = {labels.MISSION: "doctor", labels.MANAGED_BY: labels.MANAGER}
OWNERS = {
    "nothing": [],
    "a ReplicaSet": [{"kind": "ReplicaSet", "name": "doctor-a1", "uid": "r", "controller": True}],
    "another Job": [{"kind": "Job", "name": "doctor", "uid": "j", "controller": True}],
}


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
async def test_pod_of_somebody_else_with_the_label_of_a_mission_holds_nothing_back(
    owners: list[Body],
) -> None:
    metadata = {"name": "mine", "namespace": "demo", "uid": "m", "labels": LABELLED}
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": owners},
        "status": teams.running(),
    }
    fake = fake_world(teams.team(), teams.work(), foreign)
    await teams.settle_team(fake)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


@TASK
async def test_job_of_somebody_else_with_the_name_of_the_deleted_one_is_named(
    task: Body | None,
) -> None:
    fake, pod = await working(task)
    foreign = fake.cluster.read(teams.job_ref())
    teams.delete_job(fake, pod)
    fake.cluster.vanish(pod)
    for changed in ("uid", "ownerReferences", "labels"):
        foreign["metadata"].pop(changed)
    fake.cluster.put(foreign)
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "NameTaken"


def pod_limit_s(fake: FakeWorld) -> int:
    return int(
        fake.cluster.read(teams.job_ref())["spec"]["template"]["spec"]["activeDeadlineSeconds"]
    )


@TASK
async def test_jobs_that_replace_a_deleted_one_share_its_time(task: Body | None) -> None:
    fake, pod = await working(task)
    for number, left_s in enumerate((6 * 60, 2 * 60)):
        fake.clock.advance(4 * 60)
        teams.delete_job(fake, pod)
        if task is None:
            end_pod(fake, pod, cost="0")
        await teams.settle(fake)
        fake.cluster.vanish(pod)
        await teams.settle(restarted(fake))
        assert pod_limit_s(fake) == left_s
        pod = await start_pod(fake, f"pod-{number}")
    fake.clock.advance(2 * 60 + 30)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert status(fake)["startedAt"] == "2026-03-01T12:00:00Z"


@TASK
async def test_pod_of_a_new_job_has_all_its_time_to_start(task: Body | None) -> None:
    fake, pod = await working(task, completion={"timeout": "1h"}, startDeadline="5m")
    fake.clock.advance(30 * 60)
    teams.delete_job(fake, pod)
    fake.cluster.vanish(pod)
    await teams.settle(fake)
    fake.clock.advance(4 * 60)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"


@TASK
async def test_run_ends_with_its_time_when_its_job_was_deleted(task: Body | None) -> None:
    fake, pod = await working(task)
    fake.clock.advance(9 * 60 + 45)
    teams.delete_job(fake, pod)
    await teams.settle(fake)
    fake.clock.advance(20)
    await teams.settle(fake)
    assert "outcome" not in status(fake)  # the pod may report
    if task is None:
        end_pod(fake, pod, cost="0.2")
    fake.cluster.vanish(pod) if task is not None else None
    await teams.settle(restarted(fake))
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("TimedOut", 1)
    assert status(fake).get("cost") == (0.2 if task is None else None)
    assert condition(fake, "Succeeded")[2] == (
        "the 10m for all attempts ran out before attempt 1, whose Job is gone, started again"
    )
    (entry,) = status(fake)["history"]
    assert (entry["attempt"], entry["startedAt"]) == (1, "2026-03-01T12:00:00Z")
    assert condition(fake, "Started")[:2] == ("True", "Started")


@pytest.mark.parametrize(("held_back", "next_look_s"), [(True, 10), (False, 5)])
async def test_run_that_waits_for_a_last_report_is_not_read_every_second(
    held_back: bool, next_look_s: int
) -> None:
    """The grace period of its pod may be hours, and each reconcile reads from the API server."""
    fake, pod = await working()
    fake.clock.advance(9 * 60 + 45)
    teams.delete_job(fake, pod)
    if held_back:
        suspended = {labels.RECONCILE: labels.RECONCILE_SUSPENDED}
        fake.cluster.edit(MISSION, {"metadata": {"annotations": suspended}})
    await teams.settle(fake)
    fake.clock.advance(20)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    seen = await missions.CONTROLLER.observe(fake.world, MISSION)
    assert seen is not None
    plan = missions.CONTROLLER.decide(seen.observed, fake.clock.now())
    assert plan.requeue_after == timedelta(seconds=next_look_s)


@pytest.mark.parametrize("checks", [[], [{"name": "named", "type": "response"}]], ids=len)
async def test_start_of_an_attempt_is_one_patch(checks: list[Body]) -> None:
    fake = await mission_with_job(teams.task(), completion={"checks": checks})
    pod = teams.gated_pod(fake, "a")
    await teams.settle(fake)
    fake.cluster.writes.clear()
    fake.cluster.set_status(pod, teams.running())
    await teams.settle(fake)
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "message": "done"}}
    fake.cluster.set_status(pod, {"phase": "Succeeded", **teams.container(ended)})
    await teams.settle(fake)
    assert fake.cluster.writes.count(("patch", MISSION)) == 1
