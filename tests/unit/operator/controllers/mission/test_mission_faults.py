"""Missions whose object, Job or time went wrong: nothing stays open, nothing is blamed wrongly."""

from typing import Any

from kais_operator.apply import apply_failed_status
from kais_operator.controllers.mission.observe import mission
from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.outbox_names import kept_as
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld

FORBIDDEN = 'POST /jobs: jobs.batch "doctor-a1" is forbidden: exceeded quota: none'


async def broken() -> FakeWorld:
    """A mission with an open run whose spec another version, or nobody, understands."""
    fake = await teams.started()
    fake.cluster.edit(MISSION, {"spec": {"completion": {"timeout": "soon"}}})
    return fake


def outcomes(fake: FakeWorld) -> list[str | None]:
    return [run.outcome for run in fake.knowledge.runs.values()]


async def test_an_unreadable_mission_that_is_deleted_does_not_leave_its_run_open() -> None:
    fake = await broken()
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert outcomes(fake) == ["Cancelled"]


async def test_an_unreadable_mission_says_so_and_keeps_its_run() -> None:
    fake = await broken()
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[:2] == ("False", "Invalid")
    assert outcomes(fake) == [None]


async def test_an_unreadable_mission_waits_for_the_store_and_then_writes_its_end_down() -> None:
    fake = await broken()
    fake.knowledge.away = True
    fake.cluster.remove(MISSION)
    for _ in range(3):
        await teams.pass_(fake)
    assert MISSION in fake.cluster.refs()
    fake.clock.advance(30)
    for _ in range(2):
        await teams.pass_(fake)
    assert MISSION not in fake.cluster.refs()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.away = False
    ref = ObjectRef("Outbox", "kais-system", kept_as(run_id))
    await fake.step(outbox.CONTROLLER, ref)
    assert outcomes(fake) == ["Cancelled"]
    assert ObjectRef("ConfigMap", "kais-system", kept_as(run_id)) not in fake.cluster.refs()


async def test_an_unreadable_mission_whose_run_the_store_does_not_have_is_let_go() -> None:
    fake = await broken()
    fake.knowledge.runs.clear()
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert outcomes(fake) == []


async def refused_pass(fake: FakeWorld) -> None:
    """One pass in which the API server refuses the Job, with what the shell makes of it."""
    observation = await mission.CONTROLLER.observe(fake.world, MISSION)
    assert observation is not None
    assert observation.body is not None
    plan = mission.CONTROLLER.decide(observation.observed, fake.clock.now())
    refusal: Any = apply_failed_status.with_refusal(
        plan.status, observation.body, message=FORBIDDEN, now=fake.clock.now()
    )
    fake.cluster.edit(MISSION, {"status": refusal})
    fake.world.write_refusals.note(MISSION, FORBIDDEN)


async def test_a_job_that_a_quota_refuses_is_the_clusters_fault_after_the_start_deadline() -> None:
    fake = await teams.ready_world(teams.work(startDeadline="1m"))
    await teams.pass_(fake)
    fake.cluster.vanish(job_ref())
    await refused_pass(fake)
    assert condition(fake, "Started") == ("False", "ApplyFailed", FORBIDDEN)
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (f"not started within 1m: {FORBIDDEN}")


async def test_a_quota_that_is_widened_in_time_lets_the_mission_start() -> None:
    fake = await teams.ready_world()
    await teams.pass_(fake)
    fake.cluster.vanish(job_ref())
    await refused_pass(fake)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    assert condition(fake, "Started")[1] == "WaitingForPods"
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    assert condition(fake, "Started")[0] == "True"


def left_by_the_kubelet(state: Body) -> Body:
    return {
        "phase": "Failed",
        "reason": "DeadlineExceeded",
        "message": "Pod was active on the node longer than the specified deadline",
        **teams.container(state),
    }


async def test_an_image_never_pulled_is_no_timeout_when_the_operator_was_away() -> None:
    fake = await teams.started()
    pulling = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling "x:1"'}}
    teams.pod(fake, status=left_by_the_kubelet(pulling))
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    fake.clock.advance(3600)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1: the task was not started before the time for all "
        'attempts ran out: ImagePullBackOff: Back-off pulling "x:1"; push the image to a registry'
        " that the nodes read, or `kais cluster load` it"
    )


async def test_a_container_that_the_kubelet_never_started_is_no_work_that_failed() -> None:
    fake = await teams.started()
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    teams.pod(fake, status=left_by_the_kubelet(unknown))
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1: the task was not started before the time for all attempts ran out"
    )


async def test_work_that_the_kubelet_ended_at_the_deadline_is_a_timeout() -> None:
    fake = await teams.started()
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    teams.pod(fake, status=left_by_the_kubelet(killed))
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    fake.clock.advance(3600)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"


async def test_a_job_that_met_its_own_deadline_had_no_pod_on_a_node() -> None:
    fake = await teams.started()
    teams.end_job(fake, condition="Failed", reason="DeadlineExceeded")
    fake.clock.advance(3600)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"


async def test_a_job_of_an_older_version_that_met_its_deadline_timed_out() -> None:
    fake = await teams.started()
    pod = {"activeDeadlineSeconds": None}
    fake.cluster.edit(job_ref(), {"spec": {"template": {"spec": pod}}})
    teams.end_job(fake, condition="Failed", reason="DeadlineExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"


async def test_a_pod_that_its_node_evicted_while_it_was_checked_is_not_the_works_fault() -> None:
    tests = {"name": "tests", "type": "command", "command": "make"}
    fake = await teams.started(teams.work(completion={"checks": [tests]}))
    ref = teams.checked_pod(fake, checks={0: teams.check_ended(fake, 137)}, phase="Failed")
    fake.cluster.edit(ref, {"status": {"reason": "Evicted", "message": "low on memory"}})
    teams.end_job(fake, condition="Failed")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == ("attempt 1: Evicted: low on memory")
