"""Jobs that someone deleted: no second pod beside the first, no lost report, no time twice."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from kais import agent_results, labels
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, FailureClass
from kais.resources.field_types import rfc3339
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


def delete_job(fake: FakeWorld, pod: ObjectRef, attempt: int = 1) -> None:
    """Do what a person and the garbage collector do; the pod has 30 s to end."""
    fake.cluster.remove(teams.job_ref(attempt))
    fake.cluster.edit(pod, {"metadata": {"finalizers": ["kubelet"]}})
    fake.cluster.remove(pod)
    ends_at = rfc3339(fake.clock.now() + timedelta(seconds=30))
    fake.cluster.edit(pod, {"metadata": {"deletionTimestamp": ends_at}})


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
    delete_job(fake, first)
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
    delete_job(fake, first)
    end_pod(fake, first, cost="0.2")
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {labels.ABORT: "enough"}}})
    await teams.settle(restarted(fake))
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("Cancelled", 0.2)


async def test_all_that_a_pod_may_cost_counts_until_it_reports() -> None:
    """Other missions would reserve what it spends meanwhile."""
    fake, first = await working()
    delete_job(fake, first)
    await teams.settle(fake)
    assert (status(fake)["cost"], status(fake)["estimatedCost"]) == (0.5, 0.5)


async def test_pod_of_another_mission_reports_nothing() -> None:
    """It has the label, and no record."""
    fake, first = await working()
    delete_job(fake, first)
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
    delete_job(fake, first)
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
    delete_job(fake, first)
    fake = restarted(fake) if operator == "another" else fake
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert condition(fake, "Started")[2] == "Pod/demo/pod-a has not ended yet"
    fake.cluster.vanish(first)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]


async def test_no_job_starts_while_a_pod_of_an_earlier_mission_of_that_name_works() -> None:
    fake, first = await working(teams.task())
    fake.cluster.edit(MISSION, {"metadata": {"finalizers": []}})
    fake.cluster.remove(MISSION)
    delete_job(fake, first)
    fake.cluster.put(teams.work())
    await teams.settle(restarted(fake))
    assert fake.cluster.refs("Job") == []
    fake.cluster.vanish(first)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [teams.job_ref()]
