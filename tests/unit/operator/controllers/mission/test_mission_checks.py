"""Missions with checks: containers beside the work, each judged once, and what follows."""

from datetime import timedelta
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld

TESTS = {"name": "tests", "type": "command", "command": "make $(X)", "timeoutSeconds": 60}
FILES = {"name": "report", "type": "fileExists", "paths": ["out/$(X).md"]}
ANSWER = {"name": "answer", "type": "response", "successPattern": "DONE"}


def checked(*checks: Body, **completion: Any) -> Body:
    return teams.work(completion={"checks": list(checks), **completion})


def pod_spec(fake: FakeWorld, attempt: int = 1) -> Body:
    return dict(fake.cluster.read(job_ref(attempt))["spec"]["template"]["spec"])


def checks_of(fake: FakeWorld) -> dict[str, str]:
    return {check["name"]: check["status"] for check in status(fake)["checks"]}


def environment(fake: FakeWorld, attempt: int) -> dict[str, str]:
    (task,) = pod_spec(fake, attempt)["initContainers"]
    return {entry["name"]: entry["value"] for entry in task["env"]}


async def test_the_work_comes_first_and_each_check_is_a_container_beside_it() -> None:
    fake = await teams.started(checked(TESTS, FILES, ANSWER))
    spec = pod_spec(fake)
    (task,) = spec["initContainers"]
    command, files = spec["containers"]
    assert (task["name"], command["name"], files["name"]) == ("task", "check-0", "check-1")
    assert command["image"] == task["image"] == "worker:1"
    assert command["command"] == ["sh", "-c", "make $$(X)"]
    assert command["volumeMounts"] == task["volumeMounts"]
    assert command["env"] == task["env"]
    assert files["image"] == "kais/operator:1"
    assert files["command"] == ["kais-file-check", "--", "out/$$(X).md"]
    assert [(m["mountPath"], m["readOnly"]) for m in files["volumeMounts"]] == [
        ("/workspace/shared", True),
        ("/workspace/private/lead-0", True),
    ]
    assert "env" not in files
    for container in (command, files):
        assert container["securityContext"] == task["securityContext"]
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
        assert container["resources"]["requests"] == {"cpu": "10m", "memory": "32Mi"}
    assert spec["serviceAccountName"]
    assert checks_of(fake) == {"tests": "Pending", "report": "Pending", "answer": "Pending"}
    assert condition(fake, "ChecksPassed") == (
        "Unknown",
        "ChecksPending",
        "still to be evaluated: tests, report, answer",
    )


async def test_a_mission_with_a_response_check_only_keeps_its_work_where_it_was() -> None:
    fake = await teams.started(checked(ANSWER))
    assert "initContainers" not in pod_spec(fake)
    teams.succeed(fake, "it is done")
    await teams.settle(fake)
    assert checks_of(fake) == {"answer": "Passed"}, "case makes no difference in an answer"
    assert status(fake)["outcome"] == "Succeeded"


async def test_an_answer_without_the_pattern_fails_the_attempt() -> None:
    fake = await teams.started(checked(ANSWER, maxAttempts=1))
    teams.succeed(fake, "not yet")
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["result"]) == ("Failed", "not yet")
    message = "answer Failed: the answer does not match successPattern 'DONE'"
    assert condition(fake, "ChecksPassed") == ("False", "CheckFailed", message)
    assert condition(fake, "Succeeded") == (
        "False",
        "CheckFailed",
        f"Failed: attempt 1 of 1 failed: checks failed: {message}",
    )


async def test_all_checks_passed_is_success() -> None:
    fake = await teams.started(checked(TESTS, FILES))
    teams.checked_pod(fake, checks={0: teams.check_running(fake), 1: teams.check_running(fake)})
    await teams.settle(fake)
    assert status(fake)["phase"] == "Running"
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1 of 3 is being checked: checks are running: tests, report"
    )
    result = {0: teams.check_ended(fake), 1: teams.check_ended(fake)}
    teams.checked_pod(fake, checks=result, phase="Succeeded", message='{"n": 1}')
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert checks_of(fake) == {"tests": "Passed", "report": "Passed"}
    assert (status(fake)["outcome"], status(fake)["result"]) == ("Succeeded", '{"n": 1}')
    assert condition(fake, "ChecksPassed") == (
        "True",
        "ChecksPassed",
        "attempt 1: tests, report",
    )
    assert fake.containers.read == 0, "no output is read that decides nothing"


async def test_the_next_attempt_is_told_which_checks_failed() -> None:
    fake = await teams.started(checked(TESTS, FILES))
    states = {
        0: teams.check_ended(fake, 2, message="3 failed"),
        1: teams.check_ended(fake, 1, message="missing: out/a.md"),
    }
    teams.checked_pod(fake, checks=states, phase="Failed")
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    message = "checks failed: tests Failed: exit code 2: 3 failed; report Failed: missing: out/a.md"
    assert environment(fake, 2)["KAIS_FEEDBACK"] == message
    assert [first["result"] for first in status(fake)["history"]] == [
        message,
        "attempt 2 is being started",
    ]
    assert checks_of(fake) == {"tests": "Pending", "report": "Pending"}


async def test_checks_that_passed_failed_and_passed_are_told_so() -> None:
    fake = await teams.started(checked(TESTS, review={
        "enabled": True, "reviewer": "ana", "criteria": "good",
    }))  # fmt: skip
    messages = []
    for attempt, code in ((1, 0), (2, 1), (3, 0)):
        state = {0: teams.check_ended(fake, code)}
        phase, end = ("Succeeded", "Complete") if code == 0 else ("Failed", "Failed")
        teams.checked_pod(fake, attempt, checks=state, phase=phase)
        teams.end_job(fake, attempt, condition=end)
        await teams.pass_(fake)
        await teams.pass_(fake)
        messages.append(condition(fake, "ChecksPassed")[0])
        message = f'{{"attempt": {attempt}, "verdict": "reject"}}'
        fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/review": message}}})
        await teams.settle(fake)
    assert messages[0] == "True"
    assert messages[2] == "True"
    history = [first["result"] for first in status(fake)["history"]]
    assert history[1] == "checks failed: tests Failed: exit code 1"


async def test_work_that_fails_is_not_checked() -> None:
    fake = await teams.started(checked(TESTS, maxAttempts=1))
    result = {"exitCode": 3, "reason": "Error", "message": "no such pod"}
    messages = [{"name": "task", "state": {"terminated": result}}]
    teams.pod(fake, status={"phase": "Failed", "initContainerStatuses": messages})
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert checks_of(fake) == {"tests": "Pending"}
    assert condition(fake, "ChecksPassed") == (
        "False",
        "ChecksPending",
        "the run ended before these checks were evaluated: tests",
    )
    assert condition(fake, "Succeeded")[1] == "TaskFailed"


async def test_a_check_that_hangs_is_an_error_and_its_pod_is_ended() -> None:
    fake = await teams.started(checked(TESTS, FILES))
    running = teams.check_running(fake)
    teams.checked_pod(fake, checks={0: running, 1: teams.check_ended(fake)})
    plan = await teams.settle(fake)
    assert plan.requeue_after.total_seconds() == 60, "the timeout needs no event"
    fake.clock.advance(60)
    await teams.pass_(fake)
    assert condition(fake, "ChecksPassed") == (
        "False",
        "CheckFailed",
        "tests Error: it did not end within 60 s",
    )
    assert job_ref() not in fake.cluster.refs("Job")
    await teams.pass_(fake)
    assert job_ref(2) not in fake.cluster.refs("Job"), "the old pod has not ended"
    fake.cluster.collect_garbage()
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref(2)]
    assert environment(fake, 2)["KAIS_FEEDBACK"] == (
        "checks failed: tests Error: it did not end within 60 s"
    )
    assert status(fake)["history"][0]["result"] == environment(fake, 2)["KAIS_FEEDBACK"]


async def test_a_check_that_ended_while_the_operator_was_away_is_judged_by_its_own_times() -> None:
    fake = await teams.started(checked(TESTS))
    teams.checked_pod(fake, checks={0: teams.check_ended(fake, took_s=59)}, phase="Succeeded")
    teams.end_job(fake, condition="Complete")
    fake.clock.advance(86_400)
    await teams.settle(fake)
    assert (status(fake)["outcome"], checks_of(fake)) == ("Succeeded", {"tests": "Passed"})


async def test_a_catastrophic_pattern_is_an_error_and_looked_for_once() -> None:
    fake = await teams.started(checked({**TESTS, "failPattern": "(a+)+$"}, FILES))
    fake.containers.logs["check-0"] = "a" * 40 + "!"
    slow = errors.RenderingFailed("rendering took more than 2 s", cap="time")
    renderer: Any = fake.world.renderer
    renderer.fails = [slow]
    teams.checked_pod(fake, checks={0: teams.check_ended(fake), 1: teams.check_running(fake)})
    for _ in range(3):
        await teams.pass_(fake)
    assert fake.containers.read == 1, "a verdict is kept, not found again"
    assert status(fake)["checks"][0] == {
        "name": "tests",
        "status": "Error",
        "message": "its pattern is too slow and was stopped; write one that does not backtrack",
    }


async def test_a_check_waits_while_its_log_is_read_and_is_looked_at_again() -> None:
    fake = await teams.started(checked({**TESTS, "successPattern": "ok"}, maxAttempts=1))
    fake.containers.logs["check-0"] = "ok"
    fake.containers.is_slow = True
    teams.checked_pod(fake, checks={0: teams.check_ended(fake)}, phase="Succeeded")
    teams.end_job(fake, condition="Complete")
    plan = await teams.pass_(fake)
    assert plan.requeue_after == timedelta(seconds=1)
    assert checks_of(fake) == {"tests": "Pending"}
    fake.containers.is_slow = False
    await teams.settle(fake)
    assert (status(fake)["outcome"], checks_of(fake)) == ("Succeeded", {"tests": "Passed"})


@pytest.mark.parametrize("pattern", ["successPattern", "failPattern"])
async def test_a_log_that_is_too_long_is_an_error_and_never_a_verdict(pattern: str) -> None:
    fake = await teams.started(checked({**TESTS, pattern: "ok"}, maxAttempts=1))
    fake.containers.logs["check-0"] = "ok"
    fake.containers.log_problems["check-0"] = "its log is longer than 16 MiB; print less"
    teams.checked_pod(fake, checks={0: teams.check_ended(fake)}, phase="Succeeded")
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert status(fake)["checks"][0] == {
        "name": "tests",
        "status": "Error",
        "message": "its log is longer than 16 MiB; print less",
    }


async def test_a_pattern_that_is_none_is_an_error() -> None:
    fake = await teams.started(checked({**TESTS, "successPattern": "("}, maxAttempts=1))
    fake.containers.logs["check-0"] = "ok"
    teams.checked_pod(fake, checks={0: teams.check_ended(fake)}, phase="Succeeded")
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert status(fake)["checks"][0]["status"] == "Error"
    assert "'(' is not a regular expression" in status(fake)["checks"][0]["message"]


async def test_an_output_that_is_gone_with_its_pod_is_an_error_only_where_it_decides() -> None:
    fake = await teams.started(checked(TESTS, {**TESTS, "name": "lint", "failPattern": "x"}))
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    fields = {c["name"]: (c["status"], c.get("message")) for c in status(fake)["history"] or ()
            if "name" in c}  # fmt: skip
    assert fields == {}
    assert status(fake)["history"][0]["result"] == (
        "checks failed: lint Error: its output is gone with its pod"
    )


async def test_an_image_without_a_shell_is_named() -> None:
    fake = await teams.started(checked(TESTS, maxAttempts=1))
    no_shell = teams.check_ended(
        fake, 128, reason="StartError", message='exec: "sh": executable file not found in $PATH'
    )
    teams.checked_pod(fake, checks={0: no_shell}, phase="Failed")
    teams.end_job(fake, condition="Failed")
    await teams.settle(fake)
    assert condition(fake, "ChecksPassed")[2] == (
        "tests Error: the cell's image has no shell (sh) to run command with; give argv"
    )


async def test_a_check_whose_image_cannot_be_pulled_is_the_clusters_fault() -> None:
    fake = await teams.started(checked(FILES))
    pulling = {"waiting": {"reason": "ErrImagePull", "message": "connection refused"}}
    teams.checked_pod(fake, checks={0: pulling})
    await teams.settle(fake)
    message = 'check "report" does not start: ErrImagePull: connection refused'
    assert condition(fake, "Succeeded")[2] == f"attempt 1 of 3 is being checked: {message}"
    fake.clock.advance(300)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (
        f"attempt 1 could not be checked within 5m: {message}"
    )


async def test_the_timeout_of_all_attempts_ends_checks_too() -> None:
    fake = await teams.started(checked({**TESTS, "timeoutSeconds": 3000}, timeout="1m"))
    teams.checked_pod(fake, checks={0: teams.check_running(fake)})
    await teams.settle(fake)
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert condition(fake, "Succeeded")[2].endswith("ran out in attempt 1 while it was checked")
    assert fake.cluster.refs("Job") == []


async def test_an_abort_ends_checks() -> None:
    fake = await teams.started(checked(TESTS))
    teams.checked_pod(fake, checks={0: teams.check_running(fake)})
    await teams.settle(fake)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert fake.cluster.refs("Job") == []


async def test_a_verdict_outlives_its_job_its_pod_and_the_status() -> None:
    fake = await teams.started(checked(TESTS, FILES))
    teams.checked_pod(
        fake, checks={0: teams.check_ended(fake, 1, message="bad"), 1: teams.check_running(fake)}
    )
    await teams.settle(fake)
    fake.cluster.remove(job_ref())
    fake.cluster.collect_garbage()
    fake.cluster.edit(MISSION, {"status": None})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed", "nobody knows the other check"
    assert status(fake)["checks"][0] == {
        "name": "tests",
        "status": "Failed",
        "message": "exit code 1: bad",
    }


async def test_a_job_that_somebody_deletes_after_its_end_is_not_made_again() -> None:
    fake = await teams.started(teams.work())
    teams.fail(fake, "no")
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref(1), job_ref(2)]
    fake.cluster.remove(job_ref(1))
    await teams.settle(fake)
    teams.fail(fake, "no", 2)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref(2), job_ref(3)]
    assert status(fake)["attempt"] == 3


async def test_fifty_checks_leave_an_annotation_that_fits() -> None:
    many = [{**TESTS, "name": f"check-{n}"} for n in range(50)]
    fake = await teams.started(checked(*many, maxAttempts=12))
    for attempt in range(1, 12):
        states = {n: teams.check_ended(fake, 1, message="ü" * 2000) for n in range(50)}
        teams.checked_pod(fake, attempt, checks=states, phase="Failed", message="x" * 4096)
        teams.end_job(fake, attempt, condition="Failed")
        await teams.pass_(fake)
        await teams.pass_(fake)
    await teams.settle(fake)
    carried = fake.cluster.read(MISSION)["metadata"]["annotations"]
    assert sum(len(k) + len(v.encode()) for k, v in carried.items()) < 128 * 1024
    assert len(status(fake)["history"]) == 10
    assert [first["attempt"] for first in status(fake)["history"]] == [1, *range(4, 13)]
    assert status(fake)["startedAt"] == "2026-03-01T12:00:00Z"


@pytest.mark.parametrize("broken", ["{", "[]", "[1]", '[{"number": 0}]', "null", '{"a": 1}'])
async def test_a_record_that_somebody_broke_is_made_anew(broken: str) -> None:
    fake = await teams.started(checked(TESTS))
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/attempts": broken}}})
    teams.checked_pod(fake, checks={0: teams.check_ended(fake)}, phase="Succeeded")
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
