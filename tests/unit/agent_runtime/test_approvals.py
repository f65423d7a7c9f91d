"""The gate of a task: whoever decides at whatever moment, the call goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agent_runtime import approvals as approvals_module
from agent_runtime.approvals import ApprovalGate, Approvals
from agent_runtime.clock import SystemClock
from agent_runtime.errors import AgentError
from agent_runtime.events import AgentEvent
from agent_runtime.mind import ApprovalRule
from agent_runtime.state import State, TaskRow
from agent_runtime.tickets import Caller
from kais.agent_results import FailureClass
from kais.approvals import ApprovalDecision, CallApproval, hash_of

HOUR = 3600.0


def state_with_task(folder: Path) -> State:
    state = State(folder / "tasks.db")
    state.add_task(
        TaskRow(
            id="task",
            owner="operator",
            context="run-1",
            content_hash="",
            caller=Caller(name="operator", role="operator"),
            is_final=False,
            updated_ns=1,
            body=b"",
        )
    )
    return state


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_decision_that_comes_while_the_task_is_shown_as_waiting_counts_at_once(
    tmp_path: Path, decision: Literal["approve", "deny"]
) -> None:
    state = state_with_task(tmp_path)
    approvals = Approvals(state, SystemClock())

    async def decide() -> None:
        for call in approvals.of_task("task"):
            if call.outcome is None:
                decided = ApprovalDecision(
                    call=call.call, sha256=call.sha256, decision=decision, by="ana"
                )
                approvals.decide(decided)

    rules = {"write_file": ApprovalRule(timeout_s=HOUR, fails=False)}
    events: list[AgentEvent] = []
    gate = ApprovalGate("task", rules, approvals, events.append, decide)
    async with asyncio.timeout(60):
        refusal = await gate.refusal("call", "write_file", {"path": "fix.md"})
    assert (refusal is None) is (decision == "approve")
    assert [event.type for event in events] == ["approval", "approval"]
    waits, decided = (event.content for event in events)
    assert waits == 'write_file waits for an approval: {"path": "fix.md"}'
    verb = "may run: approved" if decision == "approve" else "was not called: denied"
    assert decided.startswith(f"write_file {verb} by ana at ")
    state.close()


async def test_decision_of_another_process_is_noticed_after_the_state_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(approvals_module, "FOLLOW_S", 0.01)
    state, other = state_with_task(tmp_path), State(tmp_path / "tasks.db")
    approvals, read = Approvals(state, SystemClock()), state.approval
    failed = asyncio.Event()

    def fail(call: str) -> CallApproval | None:
        failed.set()
        raise AgentError(FailureClass.INTERRUPTED, "the state is locked")

    shown = asyncio.Event()

    async def show() -> None:
        shown.set()

    rules = {"write_file": ApprovalRule(timeout_s=HOUR, fails=False)}
    gate = ApprovalGate("task", rules, approvals, lambda event: None, show)
    following = asyncio.create_task(approvals.follow())
    call = asyncio.create_task(gate.refusal("call", "write_file", {"path": "fix.md"}))
    async with asyncio.timeout(60):
        await shown.wait()
        monkeypatch.setattr(state, "approval", fail)
        await failed.wait()
        monkeypatch.setattr(state, "approval", read)
        [waiting] = other.approvals("task")
        other.end_approval(
            replace(waiting, outcome="approved", by="ana", decided_at=waiting.expires_at)
        )
        assert await call is None
    following.cancel()
    assert "cannot read decisions about calls: the state is locked" in caplog.text
    other.close()
    state.close()


async def test_call_whose_arguments_changed_after_its_approval_fails_the_attempt(
    tmp_path: Path,
) -> None:
    state = state_with_task(tmp_path)
    approvals = Approvals(state, SystemClock())

    async def approve() -> None:
        for call in approvals.of_task("task"):
            decision = ApprovalDecision(
                call=call.call, sha256=call.sha256, decision="approve", by="ana"
            )
            approvals.decide(decision)

    rules = {"write_file": ApprovalRule(timeout_s=HOUR, fails=False)}
    gate = ApprovalGate("task", rules, approvals, lambda event: None, approve)
    async with asyncio.timeout(60):
        assert await gate.refusal("call", "write_file", {"path": "fix.md"}) is None
        assert await gate.refusal("call", "write_file", {"path": "fix.md"}) is None
        with pytest.raises(AgentError) as caught:
            await gate.refusal("call", "write_file", {"path": "other.md"})
    failure = caught.value.failure
    assert failure.reason is FailureClass.TOOL_FAILED
    assert failure.message == (
        "the arguments of write_file changed after its approval was asked for"
    )
    state.close()


def waiting_call(number: int) -> CallApproval:
    return CallApproval(
        call=f"call-{number}",
        tool="write_file",
        arguments="{}",
        sha256=hash_of("{}"),
        requested_at=f"2026-03-01T12:{number:02}:00+00:00",
        expires_at="2026-03-01T13:00:00+00:00",
    )


def approve_shown(approvals: Approvals) -> int:
    """Approve the waiting calls that a person is shown; return their number."""
    waiting = [call for call in approvals.of_task("task") if call.outcome is None]
    for call in waiting:
        approvals.decide(
            ApprovalDecision(call=call.call, sha256=call.sha256, decision="approve", by="ana")
        )
    return len(waiting)


def test_more_calls_of_one_answer_than_are_shown_at_once_can_all_be_approved(
    tmp_path: Path,
) -> None:
    state = state_with_task(tmp_path)
    approvals = Approvals(state, SystemClock())
    for number in range(25):
        state.add_approval("task", waiting_call(number))
    assert approve_shown(approvals) == 20
    assert approvals.is_waiting("task")
    assert approve_shown(approvals) == 5
    assert not approvals.is_waiting("task")
    state.close()


def test_call_of_a_peer_is_shown_after_many_calls_of_the_lead_were_decided(
    tmp_path: Path,
) -> None:
    state = state_with_task(tmp_path)
    approvals = Approvals(state, SystemClock())
    for number in range(20):
        state.add_approval("task", waiting_call(number))
    assert approve_shown(approvals) == 20
    state.save_peer_approvals("task", "message", [waiting_call(30)])
    assert approvals.is_waiting("task")
    shown = approvals.of_task("task")
    assert (len(shown), shown[-1]) == (20, waiting_call(30))
    state.close()
