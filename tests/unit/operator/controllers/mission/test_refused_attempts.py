"""A quota that refuses what an attempt needs is the cluster's fault, and the outcome says so."""

from __future__ import annotations

from kais_operator import errors
from kais_operator.controllers.mission.observe import mission
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.manager.workqueue import Backoff
from tests.fakes import teams
from tests.fakes.teams import CELL, FORMATION, MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld


async def next_try_s(reconciler: Reconciler) -> float:
    """Reconcile, and return after how many seconds the queue does it again at the latest."""
    try:
        return await reconciler(MISSION) or 0.0
    except Backoff as exc:
        within_s = exc.within_s
    assert within_s is not None
    return within_s


async def refuse_until_it_ends(fake: FakeWorld, kind: str) -> str:
    """Refuse to create a kind at each try until the run has ended; return the message."""
    controllers = {"Mission": mission.CONTROLLER}
    reconciler = Reconciler(fake.world, controllers, OwnWriteFilter(), requeue=lambda _, __: None)
    message = f"{kind} is forbidden: exceeded quota"
    while "outcome" not in status(fake):
        fake.cluster.fail("create", errors.Forbidden(message), kind=kind)
        fake.clock.advance(min(await next_try_s(reconciler), 60))
        fake.cluster.stop_failing()
        if "outcome" not in status(fake):
            assert condition(fake, "Succeeded") == ("False", "ApplyFailed", message)
    return message


async def test_a_quota_that_refuses_the_second_job_until_the_timeout_is_no_timeout() -> None:
    completion = {"maxAttempts": 2, "timeout": "10m"}
    fake = await teams.started(teams.work(completion=completion))
    teams.fail(fake)
    message = await refuse_until_it_ends(fake, "Job")
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (
        f"attempt 2 did not start within the 10m for all attempts: {message}"
    )


async def test_a_quota_that_refuses_the_facts_of_an_attempt_is_in_the_outcome() -> None:
    fake = await teams.ready_world(teams.work(startDeadline="5m"))
    await teams.pass_(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    creating = teams.waiting("ContainerCreating", "")
    teams.pod(fake, status=creating, creationTimestamp=teams.stamp(fake))
    message = await refuse_until_it_ends(fake, "ConfigMap")
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == f"attempt 1 did not start within 5m: {message}"


async def test_a_quota_that_refuses_the_job_of_a_mission_that_was_suspended_is_in_the_outcome() -> (
    None
):
    suspended = {"annotations": {"kais.io/reconcile": "suspended"}}
    fake = await teams.ready_world(teams.work(startDeadline="5m", metadata=suspended))
    await teams.settle(fake)
    fake.clock.advance(600)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/reconcile": None}}})
    resumed_at = fake.clock.now()
    message = await refuse_until_it_ends(fake, "Job")
    assert (fake.clock.now() - resumed_at).total_seconds() >= 300
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == f"not started within 5m: {message}"


async def test_a_formation_that_is_gone_until_the_timeout_is_in_the_outcome() -> None:
    fake = await teams.started(teams.work(completion={"maxAttempts": 2, "timeout": "10m"}))
    teams.fail(fake)
    fake.cluster.remove(CELL)
    fake.cluster.remove(FORMATION)
    await teams.settle(fake)
    fake.clock.advance(601)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (
        "attempt 2 did not start within the 10m for all attempts: Formation/demo/team does not "
        "exist; create it"
    )
