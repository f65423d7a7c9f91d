"""Missions whose mind runs in mode Task, and waits for a person before a tool call."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kais import approvals
from kais.approvals import CallApproval
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Fix."}
TOOLS = [{"name": "write_file", "approval": {"required": True}}]
ARGUMENTS = '{"path": "shared/fix.md"}'
CALL = CallApproval(
    call="call-1",
    tool="write_file",
    arguments=ARGUMENTS,
    sha256=approvals.hash_of(ARGUMENTS),
    requested_at="2026-03-01T12:00:00+00:00",
    expires_at="2026-03-01T13:00:00+00:00",
)
COMMAND = ["python", "-m", "agent_runtime.call_decisions", "/var/lib/kais-agent"]


async def working(*, completion: Body | None = None) -> FakeWorld:
    """A world whose Task works in the pod `a`."""
    cell: Body = teams.thing("Cell", "solo", spec={"mode": "Task", "mind": MIND, "tools": TOOLS})
    mission = teams.work(formationRef=None, cellRef="solo", completion=completion)
    fake = fake_world(cell, mission)
    await teams.settle_team(fake, ObjectRef("Formation", "demo", "none"))
    await teams.settle(fake)
    teams.pod(fake, status=teams.running(), uid="a")
    await teams.settle(fake)
    return fake


async def printed(fake: FakeWorld, *calls: CallApproval, pod: str = "a") -> None:
    """Let the command that runs in a pod end, having printed these calls."""
    fake.containers.end(pod, out=json.dumps([call.dump() for call in calls]))
    await teams.settle(fake)


async def polled(fake: FakeWorld, *calls: CallApproval, pod: str = "a") -> None:
    """Let the command run once more."""
    fake.clock.advance(10)
    await teams.settle(fake)
    await printed(fake, *calls, pod=pod)


async def decide(fake: FakeWorld, by: str = "ana", **changes: Any) -> None:
    record = {"call": "call-1", "sha256": CALL.sha256, "decision": "approve", **changes}
    annotations = {"kais.io/approval": json.dumps(record), "kais.io/approval-by": by}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})
    await teams.settle(fake)


def passed_on(fake: FakeWorld) -> list[Body]:
    """The decisions that the latest command brought."""
    *program, text = fake.containers.started[-1].argv
    assert program == COMMAND
    return list(json.loads(text))


async def waiting() -> FakeWorld:
    fake = await working()
    await printed(fake, CALL)
    return fake


async def replaced(fake: FakeWorld) -> None:
    """Let a new pod replace the disrupted pod `a` of the same attempt."""
    fake.cluster.remove(ObjectRef("Pod", "demo", "doctor-a1-xyz12"))
    teams.pod(fake, status=teams.running(), uid="b")
    await teams.settle(fake)


async def test_a_mind_in_mode_task_may_have_tools_with_approval() -> None:
    fake = await working()
    assert condition(fake, "Ready", ObjectRef("Cell", "demo", "solo"))[0] == "True"
    assert passed_on(fake) == []
    assert (fake.containers.started[-1].container, fake.containers.started[-1].pod.name) == (
        "task",
        "doctor-a1-xyz12",
    )


async def test_waiting_call_is_in_the_status_with_what_it_would_do() -> None:
    fake = await waiting()
    [call] = status(fake)["approvals"]
    assert (call["call"], call["arguments"], call["sha256"]) == ("call-1", ARGUMENTS, CALL.sha256)
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "ApprovalRequired",
        "attempt 1 of 3: write_file waits for an approval; see `kais approvals list -n demo`",
    )


async def test_decision_is_recorded_with_its_author_before_it_is_passed_on() -> None:
    fake = await waiting()
    fake.clock.advance(60)
    await teams.settle(fake)
    started = len(fake.containers.started)
    await decide(fake, reason="as agreed")
    [call] = status(fake)["approvals"]
    assert (call["outcome"], call["by"], call["reason"]) == ("approved", "ana", "as agreed")
    assert call["decidedAt"] == fake.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    assert len(fake.containers.started) == started, "the command that runs has older decisions"
    await printed(fake, CALL)
    [decision] = passed_on(fake)
    assert (decision["call"], decision["outcome"], decision["by"]) == ("call-1", "approved", "ana")
    assert decision["sha256"] == CALL.sha256


async def test_decision_is_passed_on_after_a_restart_of_the_operator() -> None:
    fake = await waiting()
    await decide(fake)
    fake.containers.forget()
    fake = restarted(fake)
    await teams.settle(fake)
    await printed(fake, CALL)
    assert [decision["outcome"] for decision in passed_on(fake)] == ["approved"]


async def test_who_approved_and_when_is_on_record_after_the_run() -> None:
    fake = await waiting()
    await decide(fake)
    decided = status(fake)["approvals"]
    teams.succeed(fake, "fixed")
    await teams.settle(fake)
    fake = restarted(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert status(fake)["approvals"] == decided
    assert decided[0]["by"] == "ana"


async def test_waiting_call_goes_on_in_a_new_pod() -> None:
    fake = await waiting()
    await replaced(fake)
    await decide(fake)
    await printed(fake, CALL, pod="b")
    await polled(fake, CALL, pod="b")
    assert [decision["outcome"] for decision in passed_on(fake)] == ["approved"]


async def test_approval_serves_one_pod_and_is_spent_for_the_next() -> None:
    fake = await waiting()
    await decide(fake)
    await printed(fake, CALL)
    await replaced(fake)
    await printed(fake, CALL, pod="b")
    assert [(each["outcome"], each["by"]) for each in passed_on(fake)] == [("spent", "ana")]
    await printed(fake, replace(CALL, outcome="spent", by="ana"), pod="b")
    [call] = status(fake)["approvals"]
    assert (call["outcome"], call["by"]) == ("approved", "ana")


@pytest.mark.parametrize("operator", ["the same", "another"])
async def test_approval_is_spent_for_the_pod_of_the_job_that_replaces_a_deleted_one(
    operator: str,
) -> None:
    fake = await waiting()
    await decide(fake)
    await printed(fake, CALL)
    first = ObjectRef("Pod", "demo", "doctor-a1-xyz12")
    teams.delete_job(fake, first)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.cluster.vanish(first)
    fake = restarted(fake) if operator == "another" else fake
    await teams.settle(fake)
    teams.pod(fake, status=teams.running(), uid="b")
    await teams.settle(fake)
    await printed(fake, CALL, pod="b")
    assert [(each["outcome"], each["by"]) for each in passed_on(fake)] == [("spent", "ana")]
    assert status(fake)["attempt"] == 1


def many_calls(first: int, number: int) -> list[CallApproval]:
    return [replace(CALL, call=f"call-{n}") for n in range(first, first + number)]


async def test_approval_is_spent_for_the_next_pod_however_many_calls_followed() -> None:
    fake = await waiting()
    await decide(fake)
    approved = replace(CALL, outcome="approved", by="ana")
    await polled(fake, approved)
    for first in (2, 22):
        later = [replace(call, outcome="expired") for call in many_calls(first, 20)]
        await polled(fake, *later)
    await replaced(fake)
    await printed(fake, CALL, pod="b")
    assert [(each["call"], each["outcome"]) for each in passed_on(fake)] == [("call-1", "spent")]


async def test_calls_beyond_those_that_can_be_recorded_are_not_approved() -> None:
    fake = await working()
    for first in range(0, approvals.MAX_APPROVED + 20, 20):
        calls = many_calls(first, 20)
        await polled(fake, *calls)
        records = [{"call": c.call, "sha256": c.sha256, "decision": "approve"} for c in calls]
        annotations = {"kais.io/approval": json.dumps(records), "kais.io/approval-by": "ana"}
        fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})
        await teams.settle(fake)
    await polled(fake, *calls)
    assert passed_on(fake) == []
    waiting_calls = [call["call"] for call in status(fake)["approvals"]]
    assert waiting_calls == [call.call for call in calls]
    [attempt] = json.loads(
        fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/attempts"]
    )
    assert len(attempt["approvals"]) == approvals.MAX_APPROVED
    value, reason, message = condition(fake, "Succeeded")
    assert (value, reason) == ("Unknown", "ApprovalLimitReached")
    assert "a run can have 100 approved calls, and this one has" in message


async def test_denial_holds_for_a_new_pod() -> None:
    fake = await waiting()
    await decide(fake, decision="deny")
    await replaced(fake)
    await printed(fake, CALL, pod="b")
    assert [each["outcome"] for each in passed_on(fake)] == ["denied"]


@pytest.mark.parametrize("is_decided", [True, False])
@pytest.mark.parametrize("operator", ["the same", "another"])
async def test_calls_stay_in_the_status_while_their_attempt_waits_to_start_again(
    is_decided: bool, operator: str
) -> None:
    fake = await waiting()
    if is_decided:
        await decide(fake)
    calls = status(fake)["approvals"]
    teams.delete_job(fake, ObjectRef("Pod", "demo", "doctor-a1-xyz12"))
    fake = restarted(fake) if operator == "another" else fake
    await teams.settle(fake)
    assert (fake.cluster.refs("Job"), status(fake)["approvals"]) == ([], calls)
    fake.cluster.vanish(ObjectRef("Pod", "demo", "doctor-a1-xyz12"))
    await teams.settle(fake)
    assert (fake.cluster.refs("Job"), status(fake)["approvals"]) == ([teams.job_ref()], calls)


@pytest.mark.parametrize("is_decided", [True, False])
async def test_calls_stay_in_the_status_until_the_pod_that_replaces_theirs_asks(
    is_decided: bool,
) -> None:
    fake = await waiting()
    if is_decided:
        await decide(fake)
    calls = status(fake)["approvals"]
    await replaced(fake)
    assert status(fake)["approvals"] == calls
    await printed(fake, pod="b")
    reported = status(fake).get("approvals", [])
    assert reported == (calls if is_decided else [])


async def test_calls_that_wait_leave_the_status_when_the_task_has_ended() -> None:
    fake = await waiting()
    ended = {"terminated": {"exitCode": 75, "reason": "Error", "message": "no answer"}}
    pod = ObjectRef("Pod", "demo", "doctor-a1-xyz12")
    fake.cluster.set_status(pod, {"phase": "Failed", **teams.container(ended)})
    await teams.settle(fake)
    assert ("outcome" in status(fake), "approvals" in status(fake)) == (False, False)


async def test_calls_that_wait_are_not_in_the_status_of_the_next_attempt() -> None:
    """A reconcile that records an end and starts the next attempt writes no status in between."""
    fake = await waiting()
    last = status(fake)
    teams.fail(fake, "", code=137)
    await teams.settle(fake)
    fake.cluster.set_status(MISSION, last)
    await teams.settle(fake)
    assert (status(fake)["attempt"], "approvals" in status(fake)) == (2, False)


def since(fake: FakeWorld, attempt: int) -> str:
    task = fake.cluster.read(teams.job_ref(attempt))["spec"]["template"]["spec"]["containers"][0]
    return next(each["value"] for each in task["env"] if each["name"] == "KAIS_CALLS_SINCE")


async def test_approval_of_a_killed_attempt_is_spent_for_the_next_attempt() -> None:
    fake = await waiting()
    await decide(fake)
    teams.fail(fake, "", code=137)
    await teams.settle(fake)
    assert since(fake, 2) == "1"
    teams.pod(fake, 2, status=teams.running(), uid="b")
    await teams.settle(fake)
    await printed(fake, CALL, pod="b")
    assert [each["outcome"] for each in passed_on(fake)] == ["spent"]
    [call] = status(fake)["approvals"]
    assert (call["outcome"], call["by"]) == ("approved", "ana")


async def test_attempt_after_a_rejected_answer_asks_for_its_calls_anew() -> None:
    check = {"name": "port", "type": "response", "successPattern": "8443"}
    fake = await working(completion={"checks": [check]})
    await printed(fake, CALL)
    await decide(fake)
    teams.succeed(fake, "no port")
    await teams.settle(fake)
    assert since(fake, 2) == "2"


async def test_call_that_expired_is_reported_so_and_may_be_approved_in_a_new_pod() -> None:
    fake = await waiting()
    await polled(fake, replace(CALL, outcome="expired", decided_at=CALL.expires_at, arguments=""))
    assert status(fake)["approvals"][0]["outcome"] == "expired"
    await replaced(fake)
    await printed(fake, CALL, pod="b")
    assert "outcome" not in status(fake)["approvals"][0]
    await decide(fake)
    await printed(fake, CALL, pod="b")
    assert [each["outcome"] for each in passed_on(fake)] == ["approved"]


async def test_decisions_of_cells_and_about_other_arguments_are_not_passed_on() -> None:
    fake = await waiting()
    await decide(fake, by="system:serviceaccount:demo:solo")
    assert "an approval comes from a person" in condition(fake, "Succeeded")[2]
    await decide(fake, sha256="0" * 64)
    assert "call call-1 has other arguments" in condition(fake, "Succeeded")[2]
    await polled(fake, CALL)
    assert passed_on(fake) == []


async def test_command_that_fails_is_reported_and_runs_again() -> None:
    fake = await working()
    fake.containers.fail("a", "the connection ended before the command did")
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1 of 3 is running; calls that wait for an approval cannot be read: the connection "
        "ended before the command did"
    )
    await polled(fake, CALL)
    assert condition(fake, "Succeeded")[1] == "ApprovalRequired"


async def test_command_that_fails_hides_no_call_and_is_reported_until_it_succeeds() -> None:
    fake = await waiting()
    versions = set()
    for _ in range(4):
        fake.clock.advance(10)
        await teams.settle(fake)
        fake.containers.fail("a", "no route")
        for _ in range(2):
            await teams.settle(fake)
            assert condition(fake, "Succeeded")[1] == "ApprovalRequired"
            assert [call["call"] for call in status(fake)["approvals"]] == ["call-1"]
            versions.add(fake.cluster.read(MISSION)["metadata"]["resourceVersion"])
            fake.clock.advance(10)
    assert len(versions) == 1, "nothing changes, so nothing is written"
    await polled(fake)
    assert "approvals" not in status(fake)


async def test_failure_of_the_command_is_reported_while_it_runs_again() -> None:
    fake = await working()
    fake.containers.fail("a", "no route")
    await teams.settle(fake)
    fake.clock.advance(10)
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[2].endswith("cannot be read: no route")
    await printed(fake)
    assert condition(fake, "Succeeded")[2] == "attempt 1 of 3 is running"


async def test_output_of_another_form_shows_no_call() -> None:
    fake = await working()
    for text in (
        "[[",
        '{"call": 1}',
        '[{"call": "x"}, 7]',
        json.dumps([{**CALL.dump(), "sha256": "0"}]),
    ):
        fake.containers.end("a", out=text)
        await teams.settle(fake)
        assert "approvals" not in status(fake), text
        fake.clock.advance(10)
        await teams.settle(fake)
