"""Missions whose checks have patterns, while the renderer that looks for them is away."""

from datetime import timedelta
from typing import Any

from kais_operator import errors
from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld

TESTS = {
    "name": "tests", "type": "command", "command": "make", "timeoutSeconds": 60,
    "failPattern": "bad",
}  # fmt: skip
FILES = {"name": "report", "type": "fileExists", "paths": ["out/report.md"]}
MESSAGE = "the renderer does not answer: No such file or directory"


def checked(*checks: Body, **completion: Any) -> Body:
    return teams.work(completion={"checks": list(checks), **completion})


def checks_of(fake: FakeWorld) -> dict[str, str]:
    return {check["name"]: check["status"] for check in status(fake)["checks"]}


def leave(fake: FakeWorld) -> None:
    """Have the renderer fail every request from now on."""
    renderer: Any = fake.world.renderer
    renderer.fails = [errors.RendererUnavailable(MESSAGE) for _ in range(100)]


def come_back(fake: FakeWorld) -> None:
    renderer: Any = fake.world.renderer
    renderer.fails = []


async def without_renderer(**completion: Any) -> FakeWorld:
    """A world with a check whose log is there, and another that runs; the renderer is away."""
    fake = await teams.started(checked(TESTS, FILES, **completion))
    fake.containers.logs["check-0"] = "all is bad"
    leave(fake)
    teams.checked_pod(fake, checks={0: teams.check_ended(fake), 1: teams.check_running(fake)})
    return fake


async def test_a_check_whose_pattern_cannot_be_looked_for_is_judged_when_the_renderer_is_back() -> (
    None
):
    fake = await teams.started(checked(TESTS, maxAttempts=1))
    fake.containers.logs["check-0"] = "all is bad"
    leave(fake)
    teams.checked_pod(fake, checks={0: teams.check_ended(fake)}, phase="Succeeded")
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    assert checks_of(fake) == {"tests": "Pending"}
    fake.clock.advance(300)  # longer than the check may take
    plan = await teams.settle(fake)
    assert checks_of(fake) == {"tests": "Pending"}, "it ended in time"
    assert plan.requeue_after == timedelta(seconds=30)
    come_back(fake)
    await teams.settle(fake)
    assert checks_of(fake) == {"tests": "Failed"}


async def test_a_mission_says_that_its_checks_wait_for_the_renderer() -> None:
    fake = await without_renderer()
    plan = await teams.settle(fake)
    message = f"{MESSAGE}; the patterns of checks are evaluated when it does"
    assert condition(fake, "ChecksPassed") == (
        "Unknown",
        "RendererUnavailable",
        f"still to be evaluated: tests, report; {message}",
    )
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "RendererUnavailable",
        f"attempt 1 of 3 is being checked: {message}",
    )
    assert plan.requeue_after <= timedelta(seconds=30)
    come_back(fake)
    await teams.settle(fake)
    assert checks_of(fake) == {"tests": "Failed", "report": "Pending"}
    assert condition(fake, "Succeeded")[1] == "ChecksPending"


async def test_a_mission_is_aborted_while_the_renderer_is_away() -> None:
    fake = await without_renderer()
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert checks_of(fake) == {"tests": "Pending", "report": "Pending"}


async def test_a_mission_times_out_while_the_renderer_is_away() -> None:
    fake = await without_renderer(timeout="1m")
    fake.clock.advance(600)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"


async def test_a_mission_is_deleted_while_the_renderer_is_away() -> None:
    fake = await without_renderer()
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs("Mission"), "the finalizer is gone"
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "Cancelled"
