"""Approvals from end to end: the operator's own client, and the route of the agent runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from kais import a2a
from kais.approvals import ApprovalDecision, CallApproval
from kais_operator.agents.client import A2aAgents
from kais_operator.controllers.mission.decide import tool_approvals
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import AgentAddress, AgentCall, ObjectRef, SendMessage
from knowledge_client import models
from tests.agent_attempts import cell_spec
from tests.agent_services import Network, Running, ServiceWorld
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.tickets import ticket

WRITES_TWICE = """
rules:
  - name: writes
    when: {turn: 1}
    reply:
      tool_calls:
        - {name: write_file, arguments: {path: shared/a.md, content: "Größe \u202e A"}}
        - {name: write_file, arguments: {path: shared/b.md, content: B}}
  - name: answers
    when: {turn: 2}
    reply: {text: Done.}
"""
CALL = AgentCall(
    ObjectRef("Mission", "demo", "fix"),
    AgentAddress(
        ObjectRef("Cell", "demo", "critic"), "critic", 8080, "/", "system:serviceaccount:demo:c"
    ),
    "run-1",
    1,
    a2a.message_id("run-1", 1, "work"),
    "on",
    None,
)


class Issuer(FakeKnowledge):
    """Issues tickets that the verifier of the cell knows."""

    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket:
        expires_at = self.clock.now() + timedelta(seconds=60)
        return models.Ticket(ticket=ticket(), expires_at=expires_at)


@asynccontextmanager
async def operator(running: Running) -> AsyncIterator[A2aAgents]:
    """The client of an operator that has just started."""
    clock = FakeClock()
    network = Network(**{"critic.demo.svc": running.url})
    agents = A2aAgents(network, Issuer(clock=clock), is_leader=lambda: True, clock=clock)
    try:
        yield agents
    finally:
        await agents.close()


def world(folder: Path) -> ServiceWorld:
    tool = {"name": "write_file", "approval": {"required": True}}
    spec = {**cell_spec(tools=[tool]), "mode": "Service"}
    return ServiceWorld(folder, WRITES_TWICE, spec=spec)


async def task_in(agents: A2aAgents, state: TaskState, *, waiting: int) -> AgentTask:
    """The task when it has a state, and as many of its calls wait."""
    async with asyncio.timeout(120):
        while True:
            task = (await agents.reply_to(CALL)).task
            if task is not None and task.state is state and len(open_calls(task)) == waiting:
                return task
            await asyncio.sleep(0.05)


def open_calls(task: AgentTask) -> tuple[CallApproval, ...]:
    return tool_approvals.waiting_calls(task.approvals)


@pytest.mark.parametrize("author", ["ana@example.com", tool_approvals.UNKNOWN_AUTHOR])
async def test_two_calls_at_once_are_decided_one_by_one_across_restarts_of_the_operator(
    tmp_path: Path, author: str
) -> None:
    def decision(call: CallApproval, **changes: str) -> ApprovalDecision:
        names = {"call": call.call, "sha256": call.sha256, "by": author, **changes}
        is_first = "a.md" in call.arguments
        return ApprovalDecision(decision="approve" if is_first else "deny", **names)

    waits = world(tmp_path)
    async with waits.running() as running:
        async with operator(running) as first:
            first.send(SendMessage(CALL, "Fix it."))
            task = await task_in(first, TaskState.INPUT_REQUIRED, waiting=2)
            approved, denied = sorted(open_calls(task), key=lambda each: "b.md" in each.arguments)
            assert "Größe \\u202e A" in approved.arguments
            await first.decide(CALL, decision(approved, sha256=denied.sha256))
            await first.decide(CALL, decision(approved, by="system:serviceaccount:demo:c"))
            await task_in(first, TaskState.INPUT_REQUIRED, waiting=2)
            await first.decide(CALL, decision(approved))
        async with operator(running) as second:
            await task_in(second, TaskState.INPUT_REQUIRED, waiting=1)
            await second.decide(CALL, decision(denied))
            task = await task_in(second, TaskState.COMPLETED, waiting=0)
    assert task.answer == "Done."
    outcomes = {each.call: (each.outcome, each.by) for each in task.approvals}
    assert outcomes == {approved.call: ("approved", author), denied.call: ("denied", author)}
    assert (waits.workspace / "shared/a.md").read_text() == "Größe \u202e A"
    assert not (waits.workspace / "shared/b.md").exists()
    assert len(waits.calls) == 2
