"""Works on the tasks of a cell: shows the heartbeat, and publishes how each one ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from a2a.helpers.proto_helpers import get_message_text, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import TaskState
from google.protobuf.json_format import MessageToDict

from agent_runtime.errors import AgentError
from agent_runtime.model_http import ModelKey
from agent_runtime.money.meter import Clock
from agent_runtime.service.calls import caller_of
from agent_runtime.service.mind_worker import Assignment, MindWorker
from kais import a2a, agent_results, mcp_servers
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, FailureClass

ANSWER: Final = "answer"
ANSWER_CHARACTERS: Final = 256 * 1024
MAX_WORKING: Final = 64
"""How many tasks of a cell are worked on at the same time; the others wait."""
_STATUS_CHARACTERS: Final = 4096
_log = logging.getLogger(__name__)


@dataclass
class _Conversation:
    """The lock of a conversation; `users` counts the tasks that hold it or wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class MindExecutor(AgentExecutor):
    """Runs the tasks of a cell; tasks of one conversation run one after the other."""

    def __init__(self, worker: MindWorker, key: ModelKey, clock: Clock) -> None:
        self._worker = worker
        self._key = key
        self._clock = clock
        self._places = asyncio.Semaphore(MAX_WORKING)
        self._conversations: dict[tuple[str, str], _Conversation] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Work on a task, and publish its end; every failure has a class."""
        assignment = _assignment(context)
        updater = TaskUpdater(event_queue, assignment.task, assignment.context)
        try:
            async with self._heartbeat(updater), self._turn(assignment):
                result = await self._worker.work(assignment, lambda: self._beat(updater))
                usage: AgentUsage | None = result.usage
        except AgentError as exc:
            result, usage = AgentResult(failure=exc.failure), self._worker.usage(assignment.task)
        except Exception as exc:  # noqa: BLE001 - a class says more than a traceback
            _log.exception("the agent runtime has a defect")
            message = f"the agent runtime failed with {type(exc).__name__}; its log has the details"
            result = AgentResult(failure=AgentFailure(FailureClass.INTERRUPTED, message))
            usage = self._worker.usage(assignment.task)
        try:
            await self._publish(updater, result, usage)
        finally:
            self._worker.forget(assignment.task)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Publish the end of a task that the SDK has stopped, with its usage so far."""
        task, run = context.task_id or "", context.context_id or ""
        updater = TaskUpdater(event_queue, task, run)
        metadata = self.usage_metadata(task) | self._receipts(task) | self._approvals(task)
        metadata |= self._servers()
        await updater.update_status(TaskState.TASK_STATE_CANCELED, metadata=metadata)

    def usage_metadata(self, task: str) -> dict[str, Any]:
        """Return what a task and its peers have used so far; what is unknown is left out."""
        return self._usages(task, self._worker.usage(task))

    @asynccontextmanager
    async def _turn(self, assignment: Assignment) -> AsyncIterator[None]:
        key = (assignment.caller.owner, assignment.context)
        conversation = self._conversations.setdefault(key, _Conversation())
        conversation.users += 1
        try:
            async with conversation.lock, self._places:
                yield
        finally:
            conversation.users -= 1
            if conversation.users == 0:
                del self._conversations[key]

    @asynccontextmanager
    async def _heartbeat(self, updater: TaskUpdater) -> AsyncIterator[None]:
        await self._beat(updater)
        beats = asyncio.create_task(self._beat_on(updater))
        try:
            yield
        finally:
            beats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beats

    async def _beat_on(self, updater: TaskUpdater) -> None:
        while True:
            await asyncio.sleep(a2a.HEARTBEAT_S)
            await self._beat(updater)

    async def _beat(self, updater: TaskUpdater) -> None:
        now = datetime.fromtimestamp(self._clock.now_s(), UTC).isoformat(timespec="milliseconds")
        task = updater.task_id
        metadata = {a2a.HEARTBEAT_KEY: now} | self.usage_metadata(task) | self._approvals(task)
        metadata |= self._servers()
        is_waiting = self._worker.approvals.is_waiting(task)
        state = TaskState.TASK_STATE_INPUT_REQUIRED if is_waiting else TaskState.TASK_STATE_WORKING
        await updater.update_status(state, metadata=metadata)

    async def _publish(
        self, updater: TaskUpdater, result: AgentResult, usage: AgentUsage | None
    ) -> None:
        task = updater.task_id
        metadata = self._usages(task, usage) | self._receipts(task) | self._approvals(task)
        metadata |= self._servers()
        if result.artifacts:
            metadata[a2a.ARTIFACTS_KEY] = [
                {"path": file.path, "bytes": file.size_bytes} for file in result.artifacts
            ]
        if result.is_truncated or len(result.answer) > ANSWER_CHARACTERS:
            metadata[a2a.TRUNCATED_KEY] = True
        if result.failure is not None:
            reason, text = result.failure.reason, self._key.mask(result.failure.message)
            _log.error("task %s: %s: %s", updater.task_id, reason, text)
            metadata[a2a.FAILURE_KEY] = {"class": reason.value, "message": text}
            await updater.update_status(
                TaskState.TASK_STATE_FAILED,
                message=updater.new_agent_message([new_text_part(f"{reason}: {text}")]),
                metadata=metadata,
            )
            return
        _log.info("task %s: answered", updater.task_id)
        await updater.add_artifact(
            [new_text_part(result.answer[:ANSWER_CHARACTERS])], artifact_id=ANSWER, name=ANSWER
        )
        await updater.update_status(
            TaskState.TASK_STATE_COMPLETED,
            message=updater.new_agent_message([new_text_part(result.answer[:_STATUS_CHARACTERS])]),
            metadata=metadata,
        )

    def _usages(self, task: str, usage: AgentUsage | None) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        if usage is not None:
            metadata[a2a.USAGE_KEY] = agent_results.dump_usage(usage)
        try:
            peers = self._worker.peer_usages(task)
        except AgentError as exc:
            _log.warning("the usage of the peers of task %s is unknown: %s", task, exc)
            return metadata
        if peers:
            metadata[a2a.PEER_USAGE_KEY] = {
                cell: agent_results.dump_usage(peer_usage) for cell, peer_usage in peers.items()
            }
        return metadata

    def _servers(self) -> dict[str, Any]:
        reports = self._worker.servers.reports
        return {a2a.MCP_SERVERS_KEY: mcp_servers.dump_reports(reports)} if reports else {}

    def _approvals(self, task: str) -> dict[str, Any]:
        waiting = [approval.dump() for approval in self._worker.approvals.of_task(task)]
        return {a2a.APPROVALS_KEY: waiting} if waiting else {}

    def _receipts(self, task: str) -> dict[str, Any]:
        receipts = self._worker.receipts(task)
        return {a2a.RECEIPTS_KEY: receipts} if receipts else {}


def _assignment(context: RequestContext) -> Assignment:
    message = context.message
    assert message is not None  # noqa: S101 - the SDK validates it
    caller = caller_of(context.call_context)
    work: Any = None
    if caller.owner == a2a.OPERATOR:
        work = a2a.whole_numbers(MessageToDict(message.metadata)).get(a2a.WORK_KEY)
    return Assignment(
        task=context.task_id or "",
        context=context.context_id or "",
        caller=caller,
        text=get_message_text(message),
        work=work if isinstance(work, dict) else {},
    )
