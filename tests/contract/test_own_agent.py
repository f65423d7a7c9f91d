"""The operator's client and an agent that is not ours: the example on fasta2a, on a real server."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import pytest
from fasta2a.schema import TaskSendParams

from kais import a2a
from kais_operator.agents.client import A2aAgents
from kais_operator.planning.agent_tasks import AgentReply, AgentTask, TaskState
from kais_operator.planning.plan import AgentAddress, AgentCall, ObjectRef, SendMessage
from tests.agent_services import Network, serving
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeKnowledge

EXAMPLE = Path(__file__).parents[2] / "examples/bring-your-own-agent/agent.py"
CALL = AgentCall(
    ObjectRef("Mission", "demo", "count"),
    AgentAddress(ObjectRef("Cell", "demo", "agent"), "agent", 9000, "/", "agents"),
    "run-1",
    1,
    a2a.message_id("run-1", 1, "work"),
    "on",
)
PATIENCE_S = 30


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_agent", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[A2aAgents]:
    """The client of an operator process in whose network the agent is."""
    clock = FakeClock()
    agents = A2aAgents(
        Network(**{"agent.demo.svc": url}),  # the agent writes times without a zone
        FakeKnowledge(clock=clock),
        is_leader=lambda: True,
        clock=clock,
    )
    try:
        yield agents
    finally:
        await agents.close()


async def task_in(agents: A2aAgents, state: TaskState) -> AgentTask:
    """Ask for the task until it is in a state."""
    reply = AgentReply()
    async with asyncio.timeout(PATIENCE_S):
        while reply.task is None or reply.task.state is not state:
            reply = await agents.reply_to(CALL)
            await asyncio.sleep(0.02)
    return reply.task


async def test_it_answers_one_message_with_one_task(example: ModuleType) -> None:
    async with serving(example.create_app()) as url, connected(url) as agents:
        first = await agents.reply_to(CALL)
        assert (first.task, first.problem, first.is_idempotent) == (None, None, False)
        agents.send(SendMessage(CALL, "Count the words of this sentence"))
        task = await task_in(agents, TaskState.COMPLETED)
    assert task.answer == "The objective has 6 words."
    assert task.usage is None


async def test_what_it_is_sent_after_a_restart_of_the_operator_stays_unknown(
    example: ModuleType,
) -> None:
    async with serving(example.create_app()) as url:
        async with connected(url) as agents:
            agents.send(SendMessage(CALL, "Count the words of this sentence"))
            await task_in(agents, TaskState.COMPLETED)
        async with connected(url) as restarted:
            reply = await restarted.reply_to(CALL)
    assert (reply.task, reply.problem) == (None, None)
    assert not reply.is_idempotent, "so the message is not sent again, and the attempt ends"


async def test_an_agent_that_fails_ends_the_task_without_a_class(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(worker: object, params: TaskSendParams) -> None:
        raise RuntimeError(str(params["id"]))

    monkeypatch.setattr(example.WordCounter, "run_task", fail)
    async with serving(example.create_app()) as url, connected(url) as agents:
        agents.send(SendMessage(CALL, "Count"))
        task = await task_in(agents, TaskState.FAILED)
    assert task.failure is None
