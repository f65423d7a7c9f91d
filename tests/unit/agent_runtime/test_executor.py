"""Tasks of one conversation are worked on one after the other, and show that they live."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

from a2a.server.agent_execution import RequestContext
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState, TaskStatusUpdateEvent

from agent_runtime.clock import SystemClock
from agent_runtime.model_http import ModelKey
from agent_runtime.server_tools import ServerReports
from agent_runtime.service.calls import call_context
from agent_runtime.service.executor import MindExecutor
from agent_runtime.tickets import Caller
from kais import a2a
from kais.agent_results import AgentResult, AgentUsage

USAGE = AgentUsage(turns=3, cost=Decimal("0.5"))


class NoApprovals:
    """No tool call needs an approval."""

    def is_waiting(self, task):
        return False

    def of_task(self, task):
        return []


class Worker:
    """Works on a task until its gate opens, and counts how many work at the same time."""

    def __init__(self):
        self.gates = {name: asyncio.Event() for name in "abc"}
        self.started = {name: asyncio.Event() for name in "abc"}
        self.working = self.most = 0
        self.defect = None
        self.approvals = NoApprovals()
        self.servers = ServerReports()

    async def work(self, assignment, changed):
        self.working += 1
        self.most = max(self.most, self.working)
        self.started[assignment.task].set()
        await self.gates[assignment.task].wait()
        self.working -= 1
        if self.defect is not None:
            raise self.defect
        return AgentResult(answer="Done.", usage=USAGE)

    def usage(self, task):
        return USAGE

    def peer_usages(self, task):
        return {}

    def receipts(self, task):
        return []

    def forget(self, task):
        pass


class Queue:
    """Holds the events of a task."""

    def __init__(self):
        self.events = []
        self.has_heartbeat = asyncio.Event()

    async def enqueue_event(self, event):
        self.events.append(event)
        self.has_heartbeat.set()

    @property
    def last(self):
        return [event for event in self.events if isinstance(event, TaskStatusUpdateEvent)][-1]


def start(executor, task, queue):
    caller = Caller(name="operator", role="operator", run_id="run-1")
    message = Message(message_id=task, role=Role.ROLE_USER, parts=[Part(text="Look.")])
    context = RequestContext(
        call_context(caller),
        request=SendMessageRequest(message=message),
        task_id=task,
        context_id="run-1",
    )
    return asyncio.create_task(executor.execute(context, queue))


def open_executor(worker):
    return MindExecutor(worker, ModelKey(Path("/nothing")), SystemClock())


async def test_a_third_task_of_a_conversation_waits_for_the_second_one_and_shows_a_heartbeat():
    worker = Worker()
    executor = open_executor(worker)
    queues = {name: Queue() for name in "abc"}
    first = start(executor, "a", queues["a"])
    await worker.started["a"].wait()
    second = start(executor, "b", queues["b"])
    await queues["b"].has_heartbeat.wait()
    worker.gates["a"].set()
    await first
    third = start(executor, "c", queues["c"])
    await queues["c"].has_heartbeat.wait()
    assert not worker.started["c"].is_set()
    assert a2a.HEARTBEAT_KEY in queues["c"].last.metadata
    assert queues["c"].last.metadata[a2a.USAGE_KEY]["cost"] == "0.5"
    worker.gates["b"].set()
    worker.gates["c"].set()
    await asyncio.gather(second, third)
    assert worker.most == 1


async def test_a_task_that_fails_by_a_defect_reports_its_usage():
    worker, queue = Worker(), Queue()
    worker.defect = ValueError("no")
    worker.gates["a"].set()
    await start(open_executor(worker), "a", queue)
    assert queue.last.status.state == TaskState.TASK_STATE_FAILED
    assert queue.last.metadata[a2a.FAILURE_KEY]["class"] == "interrupted"
    assert queue.last.metadata[a2a.USAGE_KEY]["cost"] == "0.5"
