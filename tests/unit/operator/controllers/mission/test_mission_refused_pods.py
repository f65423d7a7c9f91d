"""A Job whose pod the API server refuses: its words reach the Mission, and go when it has a pod."""

from __future__ import annotations

import pytest

from kais_operator.controllers.mission.decide import attempt_pods
from kais_operator.planning.plan import ObjectRef
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld

QUOTA = (
    'Error creating: pods "doctor-a1-{}" is forbidden: exceeded quota: none, requested: pods=1, '
    "used: pods=0, limited: pods=0"
)
EVICTED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on memory.",
    "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    ],
}
MESSAGE = f"Job doctor-a1 has no pod: {QUOTA.format('…')}"


def refuse(fake: FakeWorld, suffix: str, reason: str = "FailedCreate") -> None:
    """Tell of it as the Job controller does."""
    job = fake.cluster.read(job_ref())
    times = dict.fromkeys(("firstTimestamp", "lastTimestamp"), teams.stamp(fake))
    fake.cluster.tell_event(
        job, type="Warning", reason=reason, message=QUOTA.format(suffix), **times
    )


async def test_the_api_servers_refusal_of_a_pod_is_on_the_mission_within_seconds() -> None:
    fake = await teams.started()
    refuse(fake, "x7k2p")
    plan = await teams.pass_(fake)
    assert plan.requeue_after.total_seconds() <= 2
    fake.clock.advance(plan.requeue_after.total_seconds())
    await teams.settle(fake)
    assert condition(fake, "Started") == ("False", "PodNotCreated", MESSAGE)
    assert condition(fake, "Succeeded")[1:] == ("PodNotCreated", MESSAGE)
    messages = [(e["type"], e["reason"]) for e in fake.cluster.events if e["message"] == MESSAGE]
    assert messages == [("Warning", "PodNotCreated")]


async def test_a_refusal_that_is_repeated_for_another_pod_name_writes_nothing() -> None:
    fake = await teams.started()
    fake.clock.advance(2)
    refuse(fake, "x7k2p")
    await teams.settle(fake)
    initial_count = len(fake.cluster.writes)
    fake.clock.advance(30)
    refuse(fake, "q9m4t")
    await teams.settle(fake)
    assert len(fake.cluster.writes) == initial_count


async def test_a_job_without_a_pod_is_looked_at_less_often_as_time_passes() -> None:
    fake = await teams.started()
    delays = []
    for _ in range(6):
        plan = await teams.settle(fake)
        delays.append(plan.requeue_after.total_seconds())
        fake.clock.advance(delays[-1])
    assert delays == sorted(delays)
    fake.clock.advance(200)
    assert (await teams.settle(fake)).requeue_after.total_seconds() == 30


async def test_the_refusal_goes_when_the_pod_is_there() -> None:
    fake = await teams.started()
    fake.clock.advance(2)
    refuse(fake, "x7k2p")
    await teams.settle(fake)
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    assert condition(fake, "Started")[:2] == ("True", "Started")


async def test_a_pod_that_is_refused_until_the_deadline_ends_the_mission_with_the_words() -> None:
    fake = await teams.started()
    fake.clock.advance(2)
    refuse(fake, "x7k2p")
    await teams.settle(fake)
    fake.clock.advance(300)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (f"attempt 1 did not start within 5m: {MESSAGE}")


async def test_another_event_about_the_job_is_no_refusal() -> None:
    fake = await teams.started()
    refuse(fake, "x7k2p", reason="SuccessfulCreate")
    fake.clock.advance(2)
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "WaitingForPods"


async def running() -> FakeWorld:
    """An attempt with a pod, after one that the API server refused."""
    fake = await teams.started(teams.work(completion={"timeout": "4h"}))
    fake.cluster.set_status(job_ref(), {"startTime": teams.stamp(fake)})
    refuse(fake, "a2b3c")
    fake.clock.advance(2)
    refuse(fake, "created", reason="SuccessfulCreate")
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    return fake


async def evicted(*, seconds: float = 3600, exit_code: int = 137) -> FakeWorld:
    """Evict the pod of an attempt after this time; the API server refuses the next one."""
    fake = await running()
    fake.clock.advance(seconds)
    end = {"terminated": {"exitCode": exit_code, "finishedAt": teams.stamp(fake)}}
    teams.pod(fake, status={**EVICTED, **teams.container(end)})
    refuse(fake, "x7k2p")
    await teams.settle(fake)
    return fake


@pytest.mark.parametrize("exit_code", [0, 137])
async def test_the_refusal_of_a_pod_that_replaces_an_evicted_one_is_on_the_mission(
    exit_code: int,
) -> None:
    fake = await evicted(exit_code=exit_code)
    assert condition(fake, "Succeeded") == ("Unknown", "PodNotCreated", MESSAGE)


async def test_a_refused_replacement_of_an_evicted_pod_has_a_start_deadline_of_its_own() -> None:
    fake = await evicted()
    fake.clock.advance(299)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(1)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == f"attempt 1 did not start within 5m: {MESSAGE}"


async def test_so_has_one_whose_evicted_pod_was_deleted_as_a_drain_does() -> None:
    fake = await running()
    fake.clock.advance(3600)
    fake.cluster.vanish(ObjectRef("Pod", "demo", "doctor-a1-xyz12"))
    refuse(fake, "x7k2p")
    for tried_again_after in (10, 289):
        await teams.settle(fake)
        fake.clock.advance(tried_again_after)
        refuse(fake, "q9m4t")
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    assert condition(fake, "Succeeded") == ("Unknown", "PodNotCreated", MESSAGE)
    fake.clock.advance(1)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == f"attempt 1 did not start within 5m: {MESSAGE}"


async def test_an_abort_ends_an_attempt_whose_evicted_pod_is_not_replaced() -> None:
    fake = await evicted()
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "now"}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert fake.cluster.refs("Job") == []


async def test_a_deleted_mission_whose_evicted_pod_is_not_replaced_goes_at_once() -> None:
    fake = await evicted()
    fake.cluster.remove(MISSION)
    for _ in range(5):
        await teams.pass_(fake)
    assert MISSION not in fake.cluster.refs()


async def test_an_attempt_goes_on_when_the_replacement_of_its_evicted_pod_is_admitted() -> None:
    fake = await evicted()
    fake.clock.advance(200)
    teams.pod(fake, status=teams.running(), name="second", creationTimestamp=teams.stamp(fake))
    await teams.settle(fake)
    assert condition(fake, "Succeeded") == ("Unknown", "Running", "attempt 1 of 3 is running")
    teams.pod(
        fake, status={"phase": "Succeeded", **teams.container({"terminated": {"exitCode": 0}})},
        name="second",
    )  # fmt: skip
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_an_evicted_pod_whose_job_has_ended_is_read_from_the_job() -> None:
    fake = await evicted()
    teams.end_job(fake, condition="Failed")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"


async def test_nobody_is_asked_about_a_job_that_has_its_pod() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.waiting("ContainerCreating", ""))
    fake.cluster.rights = tuple(
        type(r)(r.watched - {("", "events", "list")}, r.home) for r in fake.cluster.rights
    )
    fake.clock.advance(2)
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "WaitingForPods"


def test_an_event_of_anybody_without_a_message_says_nothing() -> None:
    job = {"metadata": {"name": "doctor-a1"}}
    assert attempt_pods.refusal(job, [{"reason": "FailedCreate"}]) is None


@pytest.mark.parametrize("length", [57, 58, 63])
def test_each_name_that_a_pod_is_tried_with_gives_the_same_message(length: int) -> None:
    """The API server keeps 58 characters of the Job's name and the hyphen, and adds five."""
    job = {"metadata": {"name": "d" * (length - 3) + "-a1"}}
    prefix = f"{job['metadata']['name']}-"[:58]
    refusals = {
        attempt_pods.refusal(
            job, [{"reason": "FailedCreate", "message": f'pods "{prefix}{suffix}" is forbidden'}]
        )
        for suffix in ("x7k2p", "q9m4t")
    }
    assert refusals == {attempt_pods.Refusal(f'pods "{prefix}…" is forbidden')}
