"""The API server answers each create of a Job with 500, as it does if a webhook is away."""

from __future__ import annotations

import json

import pytest

from kais_operator import errors
from kais_operator.controllers.mission.observe import mission
from kais_operator.kubernetes import api_errors
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.manager.workqueue import Backoff
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld

WORDS = 'Internal error occurred: failed calling webhook "guard.example": connection refused'
POST = "POST /apis/batch/v1/namespaces/demo/jobs"
MESSAGE = f"{POST}: {WORDS}"


def answer(code: int = 500) -> errors.ClusterError:
    body = json.dumps({"kind": "Status", "reason": "InternalError", "message": WORDS}).encode()
    return api_errors.from_status(code, body, operation=POST, is_write=True)


def reconciler_of(fake: FakeWorld) -> Reconciler:
    controllers = {"Mission": mission.CONTROLLER}
    return Reconciler(fake.world, controllers, OwnWriteFilter(), requeue=lambda _, __: None)


@pytest.fixture
async def fake() -> FakeWorld:
    return await teams.ready_world(teams.work(startDeadline="5m"))


async def fails(fake: FakeWorld, reconciler: Reconciler, error: errors.ClusterError) -> Backoff:
    fake.cluster.fail("create", error, kind="Job")
    with pytest.raises(Backoff) as caught:
        await reconciler(MISSION)
    return caught.value


async def next_try_s(reconciler: Reconciler) -> float:
    """Reconcile, and return after how many seconds the queue does it again at the latest."""
    try:
        return await reconciler(MISSION) or 0.0
    except Backoff as exc:
        within_s = exc.within_s
    assert within_s is not None
    return within_s


async def fails_until_it_ends(fake: FakeWorld, reconciler: Reconciler) -> float:
    """Try again whenever the queue would at the latest; return after how many seconds it ended."""
    started_at = fake.clock.now()
    while "outcome" not in status(fake):
        fake.cluster.fail("create", answer(), kind="Job")
        fake.clock.advance(min(await next_try_s(reconciler), 60))
        fake.cluster.stop_failing()
    return (fake.clock.now() - started_at).total_seconds()


async def test_the_second_failure_in_a_row_is_a_condition_with_the_api_servers_words(
    fake: FakeWorld,
) -> None:
    reconciler = reconciler_of(fake)
    await fails(fake, reconciler, answer())
    assert "status" not in fake.cluster.read(MISSION)
    await fails(fake, reconciler, answer())
    for type_ in ("Started", "Succeeded"):
        assert condition(fake, type_) == ("False", "ApplyFailed", MESSAGE)


async def test_a_mission_whose_job_is_never_created_ends_after_its_start_deadline(
    fake: FakeWorld,
) -> None:
    reconciler = reconciler_of(fake)
    await fails(fake, reconciler, answer())
    await fails(fake, reconciler, answer())
    seconds = await fails_until_it_ends(fake, reconciler)
    assert 300 <= seconds <= 305
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == f"not started within 5m: {MESSAGE}"


async def test_a_mission_starts_when_the_webhook_is_back_in_time(fake: FakeWorld) -> None:
    reconciler = reconciler_of(fake)
    for _ in range(3):
        await fails(fake, reconciler, answer())
        fake.clock.advance(60)
    await reconciler(MISSION)
    assert fake.cluster.refs("Job") == [job_ref()]
    assert condition(fake, "Started")[1] == "WaitingForPods"


async def test_an_api_server_that_was_down_for_the_start_deadline_ends_no_mission(
    fake: FakeWorld,
) -> None:
    reconciler = reconciler_of(fake)
    down = errors.ClusterUnavailable(f"{POST}: no answer from the API server")
    await fails(fake, reconciler, down)
    await fails(fake, reconciler, down)
    assert "status" not in fake.cluster.read(MISSION)
    fake.clock.advance(600)
    await fails(fake, reconciler, answer())
    await fails(fake, reconciler, answer())
    await reconciler(MISSION)
    assert fake.cluster.refs("Job") == [job_ref()]


async def test_writes_that_begin_to_fail_after_the_start_deadline_get_as_long_again(
    fake: FakeWorld,
) -> None:
    reconciler = reconciler_of(fake)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/reconcile": "suspended"}}})
    await reconciler(MISSION)
    fake.clock.advance(3600)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/reconcile": None}}})
    seconds = await fails_until_it_ends(fake, reconciler)
    assert 300 <= seconds <= 305
    assert condition(fake, "Succeeded")[2] == f"not started within 5m: {MESSAGE}"
