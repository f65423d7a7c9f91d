"""Missions of a cell that keeps running: rounds of checks inside its container."""

from collections.abc import Callable
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body
from tests.fakes import services, teams
from tests.fakes.services import SOLO, lone_service
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld

BUILT = {"name": "built", "type": "command", "argv": ["/app/check", "$(X)"], "timeoutSeconds": 20}
COVERED = {
    "name": "covered", "type": "coverage", "command": "cover", "jsonPath": "total", "value": 80,
}  # fmt: skip
FILES = {"name": "files", "type": "fileExists", "paths": ["/workspace/shared/a b"]}
POD = "Pod/demo/solo"


def checked(*checks: Body, **completion: Any) -> Body:
    return teams.work(
        formationRef=None, cellRef="solo", completion={"checks": list(checks), **completion}
    )


async def begun(*checks: Body, **completion: Any) -> FakeWorld:
    fake = await services.serving(lone_service(), checked(*checks, **completion))
    for _ in range(4):
        await teams.pass_(fake)
    return fake


async def test_each_check_is_run_once_in_the_container_of_the_cell() -> None:
    fake = await begun(BUILT, COVERED, FILES)
    await teams.pass_(fake)
    commands = {command.key.rpartition("/")[2]: command for command in fake.containers.started}
    assert len(fake.containers.started) == 3
    assert commands["built"].argv == ("/app/check", "$(X)"), "nobody expands it here"
    assert commands["built"].timeout_s == 20
    assert commands["covered"].argv == ("sh", "-c", "cover")
    assert commands["files"].argv[:2] == ("sh", "-c")
    assert commands["files"].argv[-1] == "/workspace/shared/a b"
    assert {command.container for command in fake.containers.started} == {"cell"}
    assert str(commands["built"].pod).startswith(POD)
    assert fake.cluster.refs("Job") == []
    assert condition(fake, "Started")[0] == "True"
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1 of 3 is being checked: checks are running: built, covered, files"
    )


@pytest.mark.parametrize(
    ("status_", "metadata"),
    [
        pytest.param(services.ready(), {"ownerReferences": []}, id="somebody made it by hand"),
        pytest.param(
            services.ready(),
            {"ownerReferences": [services.owner("other-5d4f")]},
            id="another Deployment made it",
        ),
        pytest.param(
            services.ready(), {"deletionTimestamp": "2026-03-01T12:00:00Z"}, id="it is going"
        ),
        pytest.param(
            services.unready({"running": {}}), {}, id="it is not ready",
        ),
    ],
)  # fmt: skip
async def test_no_check_is_run_in_a_pod_that(status_: Body, metadata: Body) -> None:
    fake = await services.settled(lone_service(), checked(BUILT))
    services.pod(fake, status=status_, **metadata)
    await fake.settle(cell.CONTROLLER, SOLO)
    for _ in range(6):
        await teams.pass_(fake)
    assert fake.containers.started == []
    own_pod = services.pod(fake, status=services.ready())
    await fake.settle(cell.CONTROLLER, SOLO)
    for _ in range(6):
        await teams.pass_(fake)
    assert [command.pod for command in fake.containers.started] == [own_pod]


async def test_a_foreign_pod_does_not_make_a_service_cell_ready() -> None:
    fake = await services.settled(lone_service())
    services.pod(fake, status=services.ready(), ownerReferences=[])
    await fake.settle(cell.CONTROLLER, SOLO)
    assert condition(fake, "Ready", SOLO)[0] != "True"


async def test_a_round_in_which_all_pass_is_success() -> None:
    fake = await begun(BUILT, COVERED)
    fake.containers.end("built")
    await teams.pass_(fake)
    fake.containers.end("covered", out='{"total": 91}')
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert status(fake)["checks"] == [
        {"name": "built", "status": "Passed"},
        {"name": "covered", "status": "Passed", "message": "91 >= 80"},
    ]
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.attempts) == ("Succeeded", 1)
    assert condition(fake, "Succeeded")[2] == "attempt 1: the checks passed"


async def test_a_round_waits_for_the_renderer_and_can_be_aborted_meanwhile() -> None:
    fake = await begun({**BUILT, "successPattern": "done"}, FILES)
    renderer: Any = fake.world.renderer
    renderer.fails = [errors.RendererUnavailable("the renderer does not answer") for _ in range(9)]
    fake.containers.end("built", out="done")
    await teams.pass_(fake)
    assert condition(fake, "Succeeded")[1] == "RendererUnavailable"
    assert [check["status"] for check in status(fake)["checks"]] == ["Pending", "Pending"]
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"


async def test_a_round_that_fails_is_followed_by_another_after_a_pause() -> None:
    fake = await begun(BUILT, maxAttempts=2)
    fake.containers.end("built", code=1, message="2 tests fail")
    for _ in range(3):
        plan = await teams.pass_(fake)
    assert plan.requeue_after.total_seconds() == 15
    assert len(fake.containers.started) == 1
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "Retrying",
        (
            "attempt 1 of 2 failed: checks failed: built Failed: exit code 1: 2 tests fail; "
            "the checks are evaluated again after a pause"
        ),
    )
    fake.clock.advance(15)
    for _ in range(3):
        await teams.pass_(fake)
    assert len(fake.containers.started) == 2
    fake.containers.end("built", code=1, message="1 test fails")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert [entry["result"] for entry in status(fake)["history"]] == [
        "checks failed: built Failed: exit code 1: 2 tests fail",
        "checks failed: built Failed: exit code 1: 1 test fails",
    ]


async def test_a_check_that_hangs_is_an_error_by_the_clock() -> None:
    fake = await begun(BUILT, maxAttempts=1)
    fake.clock.advance(20)
    await teams.settle(fake)
    assert condition(fake, "ChecksPassed") == (
        "False",
        "CheckFailed",
        "built Error: it did not end within 20 s",
    )
    assert status(fake)["outcome"] == "Failed"


async def test_an_operator_that_restarts_runs_the_open_checks_again_and_no_others() -> None:
    fake = await begun(BUILT, COVERED)
    fake.containers.end("built")
    await teams.pass_(fake)
    fake.containers.forget()
    await teams.pass_(fake)
    assert [command.key.rpartition("/")[2] for command in fake.containers.started] == [
        "built",
        "covered",
        "covered",
    ]
    assert status(fake)["attempt"] == 1


async def test_an_image_without_a_shell_is_named() -> None:
    fake = await begun(COVERED, FILES, maxAttempts=1)
    for check in ("covered", "files"):
        fake.containers.fail(check, 'exec: "sh": executable file not found in $PATH')
    await teams.settle(fake)
    assert condition(fake, "ChecksPassed")[2] == (
        "covered Error: the cell's image has no shell (sh) to run command with; give argv; "
        "files Error: the cell's image has no shell (sh) to look for files with; use mode: Task"
    )


async def test_checks_wait_for_a_pod_that_is_ready() -> None:
    fake = await begun(BUILT)
    fake.containers.end("built", code=1)
    await teams.pass_(fake)
    for ref in fake.cluster.refs("Pod"):
        fake.cluster.vanish(ref)
    fake.clock.advance(15)
    for _ in range(3):
        await teams.pass_(fake)
    assert condition(fake, "Succeeded")[2] == (
        "attempt 2 of 3 is being checked: the checks wait for a ready pod of the cell"
    )


async def test_a_round_times_out_by_itself() -> None:
    fake = await begun({**BUILT, "timeoutSeconds": 3600}, timeout="1m")
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"


async def test_an_abort_ends_a_round() -> None:
    fake = await begun(BUILT)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"


def ended(fake: FakeWorld) -> list[str]:
    return [command.key.rpartition("/")[2] for command in fake.containers.ended]


def abort(fake: FakeWorld) -> None:
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})


def delete(fake: FakeWorld) -> None:
    fake.cluster.remove(MISSION)


def run_out(fake: FakeWorld) -> None:
    fake.clock.advance(60)


@pytest.mark.parametrize("happens", [abort, delete, run_out])
async def test_commands_end_with_their_mission(happens: Callable[[FakeWorld], None]) -> None:
    fake = await begun({**BUILT, "timeoutSeconds": 86_400}, COVERED, timeout="1m")
    fake.containers.end("covered", out="{}")
    assert ended(fake) == []
    happens(fake)
    await teams.pass_(fake)
    assert ended(fake) == ["built"], "covered had ended by itself"
    await teams.settle(fake)
    assert ended(fake) == ["built"]


async def test_a_command_gets_no_more_time_than_its_mission_has() -> None:
    fake = await begun({**BUILT, "timeoutSeconds": 86_400}, maxAttempts=2, timeout="1m")
    assert fake.containers.started[0].timeout_s == 60
    fake.containers.end("built", code=1)
    for seconds in (0, 15, 0):
        fake.clock.advance(seconds)
        await teams.pass_(fake)
        await teams.pass_(fake)
    assert len(fake.containers.started) == 2
    assert fake.containers.started[1].timeout_s == 60 - 15 + 5, "what is left, and a moment"


async def test_a_round_is_reviewed() -> None:
    review = {"enabled": True, "reviewer": "ana", "criteria": "good"}
    fake = await begun(BUILT, review=review)
    fake.containers.end("built")
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[1] == "ReviewRequested"
    review_json = '{"attempt": 1, "verdict": "approve"}'
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/review": review_json}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_what_only_an_answer_could_show_is_not_started() -> None:
    for checks in ([], [BUILT, {"name": "said", "type": "response"}]):
        fake = await services.serving(lone_service(), checked(*checks))
        await teams.settle(fake)
        why = "response checks (said)" if checks else "a mission without checks"
        words = (
            "Cell/demo/solo keeps running without container.a2a, so it gets no objective and gives "
            f"no answer, and {why} cannot be judged there; set container.a2a, use command, "
            "coverage or fileExists checks, or mode: Task"
        )
        assert condition(fake, "Started") == ("False", "NotYetSupported", words)
        assert condition(fake, "Succeeded") == ("False", "NotYetSupported", words)
        assert fake.knowledge.runs == {}
        fake.clock.advance(3600)
        await teams.settle(fake)
        assert "outcome" not in status(fake), "no deadline runs"


async def test_a_cell_that_is_not_ready_is_waited_for() -> None:
    fake = await services.settled(lone_service(), checked(BUILT), ref=SOLO)
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "WaitingForCells"
    assert fake.containers.started == []
