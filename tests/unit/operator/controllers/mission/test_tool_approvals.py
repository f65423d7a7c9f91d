"""Missions whose agent waits for a person: the decision is passed on, and stays on record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from kais import approvals
from kais.approvals import CallApproval
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import Body
from tests.fakes import services, teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Fix."}
ARGUMENTS = '{"path": "shared/fix.md"}'
CALL = CallApproval(
    call="call-1",
    tool="write_file",
    arguments=ARGUMENTS,
    sha256=approvals.hash_of(ARGUMENTS),
    requested_at="2026-03-01T12:00:00+00:00",
    expires_at="2026-03-01T13:00:00+00:00",
)
BY = {"outcome": "approved", "by": "ana", "decided_at": "2026-03-01T12:05:00+00:00"}


async def waiting() -> FakeWorld:
    agent: Body = teams.thing("Cell", "solo", spec={"mind": MIND})
    fake = await services.serving(agent, teams.work(formationRef=None, cellRef="solo"))
    for _ in range(4):
        await teams.pass_(fake)
    report(fake, AgentTask(TaskState.INPUT_REQUIRED, approvals=(CALL,)))
    await teams.pass_(fake)
    return fake


def report(fake: FakeWorld, task: AgentTask) -> None:
    (latest,) = fake.agents.tasks
    fake.agents.tasks[latest] = task


def say(fake: FakeWorld, by: str = "ana", **changes: Any) -> None:
    record = {"call": "call-1", "sha256": CALL.sha256, "decision": "approve", **changes}
    annotations = {"kais.io/approval": json.dumps(record), "kais.io/approval-by": by}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})


async def test_waiting_call_is_in_the_status_with_what_it_would_do() -> None:
    fake = await waiting()
    [call] = status(fake)["approvals"]
    assert (call["tool"], call["arguments"], call["sha256"]) == (
        "write_file",
        ARGUMENTS,
        CALL.sha256,
    )
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "ApprovalRequired",
        "attempt 1 of 3: write_file waits for an approval; see `kais approvals list -n demo`",
    )


async def test_decision_of_a_person_is_passed_on_until_the_cell_has_it() -> None:
    fake = restarted(await waiting())
    say(fake, reason="as agreed")
    await teams.pass_(fake)
    [decision] = fake.agents.decisions
    assert (decision.call, decision.decision, decision.by) == ("call-1", "approve", "ana")
    assert decision.reason == "as agreed"
    report(fake, AgentTask(TaskState.WORKING, approvals=(replace(CALL, **BY),)))
    await teams.pass_(fake)
    await teams.pass_(fake)
    assert len(fake.agents.decisions) == 1


async def test_who_approved_and_when_is_on_record_after_the_run() -> None:
    fake = await waiting()
    decided = replace(CALL, **BY)
    report(fake, AgentTask(TaskState.COMPLETED, answer="done", approvals=(decided,)))
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    fake = restarted(fake)
    await teams.settle(fake)
    [call] = status(fake)["approvals"]
    assert (call["outcome"], call["by"]) == ("approved", "ana")
    assert call["decidedAt"] == "2026-03-01T12:05:00+00:00"


async def test_account_of_a_cell_approves_nothing() -> None:
    fake = await waiting()
    say(fake, by="system:serviceaccount:demo:solo")
    await teams.pass_(fake)
    assert fake.agents.decisions == []
    assert condition(fake, "Succeeded")[2].endswith(
        "kais.io/approval is ignored: an approval comes from a person, and not from "
        "system:serviceaccount:demo:solo"
    )


async def test_approval_of_other_arguments_is_not_passed_on() -> None:
    fake = await waiting()
    say(fake, sha256="0" * 64)
    await teams.pass_(fake)
    assert fake.agents.decisions == []
    assert "call call-1 has other arguments" in condition(fake, "Succeeded")[2]


async def test_annotation_of_another_form_is_not_passed_on() -> None:
    fake = await waiting()
    say(fake, decision="perhaps")
    await teams.pass_(fake)
    assert fake.agents.decisions == []
    assert "it needs" in condition(fake, "Succeeded")[2]


async def test_decisions_about_two_calls_are_both_passed_on() -> None:
    fake = await waiting()
    second = replace(CALL, call="call-2")
    report(fake, AgentTask(TaskState.INPUT_REQUIRED, approvals=(CALL, second)))
    await teams.pass_(fake)
    both = [
        {"call": "call-1", "sha256": CALL.sha256, "decision": "approve"},
        {"call": "call-2", "sha256": CALL.sha256, "decision": "deny"},
        {"call": "of an earlier attempt", "sha256": CALL.sha256, "decision": "approve"},
    ]
    annotations = {"kais.io/approval": json.dumps(both), "kais.io/approval-by": "ana"}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})
    await teams.pass_(fake)
    passed_on = {(each.call, each.decision) for each in fake.agents.decisions}
    assert passed_on == {("call-1", "approve"), ("call-2", "deny")}


async def test_without_an_admission_policy_no_author_is_on_record() -> None:
    fake = await waiting()
    placement = replace(fake.world.placement, has_spawn_policy=False)
    fake.world = replace(fake.world, placement=placement)
    say(fake, by="the-boss")
    await teams.pass_(fake)
    [decision] = fake.agents.decisions
    assert decision.by == "a person (not on record: this installation has no admission policy)"
    assert condition(fake, "Succeeded")[2].endswith(
        "this installation has no admission policy, so no author is on record"
    )


async def test_approval_that_was_written_before_the_run_is_dropped() -> None:
    agent: Body = teams.thing("Cell", "solo", spec={"mind": MIND})
    work = teams.work(formationRef=None, cellRef="solo")
    early = {"kais.io/approval": "{}", "kais.io/approval-by": "ana"}
    work["metadata"]["annotations"] = early
    fake = await services.serving(agent, work)
    await teams.pass_(fake)
    assert not early.keys() & fake.cluster.read(MISSION)["metadata"]["annotations"].keys()


async def test_approval_of_a_run_is_dropped_when_the_next_one_starts() -> None:
    fake = await waiting()
    say(fake)
    report(fake, AgentTask(TaskState.COMPLETED, answer="done", approvals=(replace(CALL, **BY),)))
    await teams.settle(fake)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/rerun": "again"}}})
    await teams.pass_(fake)
    annotations = fake.cluster.read(MISSION)["metadata"]["annotations"]
    assert annotations["kais.io/rerun-taken"] == "again"
    assert not {"kais.io/approval", "kais.io/approval-by"} & annotations.keys()
