"""The gate of a task: whoever decides at whatever moment, the call goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from agent_runtime.approvals import ApprovalGate, Approvals
from agent_runtime.clock import SystemClock
from agent_runtime.mind import ApprovalRule
from agent_runtime.state import State, TaskRow
from agent_runtime.tickets import Caller
from kais.approvals import ApprovalDecision

HOUR = 3600.0


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_decision_that_comes_while_the_task_is_shown_as_waiting_counts_at_once(
    tmp_path: Path, decision: Literal["approve", "deny"]
) -> None:
    state = State(tmp_path / "tasks.db")
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
    approvals = Approvals(state, SystemClock())

    async def decide() -> None:
        for call in approvals.of_task("task"):
            if call.outcome is None:
                decided = ApprovalDecision(
                    call=call.call, sha256=call.sha256, decision=decision, by="ana"
                )
                approvals.decide(decided)

    rules = {"write_file": ApprovalRule(timeout_s=HOUR, fails=False)}
    gate = ApprovalGate("task", rules, approvals, lambda event: None, decide)
    async with asyncio.timeout(60):
        refusal = await gate.refusal("call", "write_file", {"path": "fix.md"})
    assert (refusal is None) is (decision == "approve")
    state.close()
