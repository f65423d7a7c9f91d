"""Extends the SDK's request handler: each message has one task, and each task ends.

A repeated message gets the task of the first one. A message with the same id and another content is
refused. A stored task without a running worker is ended as FAILED.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any, Final

from a2a.helpers.proto_helpers import new_text_message
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.request_handler import validate_request_params
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError
from google.protobuf.message import DecodeError

from agent_runtime.money.meter import Clock
from agent_runtime.service import task_store
from agent_runtime.service.calls import call_context, caller_of
from agent_runtime.state import State, TaskRow
from agent_runtime.tickets import Caller
from kais import a2a
from kais.agent_results import FailureClass

MAX_IDS: Final = 256
_INTERRUPTED: Final = "the agent runtime stopped working on the task"
_NOT_RESUMED: Final = "the agent runtime cannot go on with the task after its restart"
_log = logging.getLogger(__name__)


class IdempotentRequestHandler(DefaultRequestHandler):
    """Handles the requests of A2A clients; `open_state` must be called before."""

    def open_state(
        self, state: State, clock: Clock, usage_of: Callable[[str], dict[str, Any]]
    ) -> None:
        """Set where messages and tasks are stored, and what returns the usage of a task."""
        self._state = state
        self._usage_of = usage_of
        self._clock = clock
        self._starting = asyncio.Lock()

    async def resume_tasks(self) -> None:
        """Go on with the tasks that were open when the process ended."""
        for row in self._state.open_tasks():
            try:
                await self._resume(row)
            except Exception as exc:  # noqa: BLE001 - one task must not stop the others
                _log.exception("task %s cannot go on", row.id)
                self._fail(_readable(row), f"{_NOT_RESUMED}: {type(exc).__name__}")

    async def _resume(self, row: TaskRow) -> None:
        task = task_store.read(row)
        context = call_context(row.caller)
        params = SendMessageRequest(message=task.history[0])
        active = await self._active_task_registry.get_or_create(
            task.id, call_context=context, create_task_if_missing=False
        )
        request = RequestContext(
            context, request=params, task_id=task.id, context_id=task.context_id
        )
        await active.enqueue_request(request)

    @validate_request_params
    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        """Open a task for a message, or return the one that it opened before."""
        task = await self._start_task(params, context)
        if not params.configuration.return_immediately:
            async for _ in self._follow(task, context):
                continue
        return await self._current(task.id, context) or task

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Open a task for a message, and stream it; a repeated message joins the stream."""
        task = await self._start_task(params, context)
        async for event in self._follow(task, context):
            yield event

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        """Return a task of the caller; a task without a running worker has failed."""
        await self._current(params.id, context)
        task: Task | None = await super().on_get_task(params, context)
        return task

    @validate_request_params
    async def on_cancel_task(
        self, params: CancelTaskRequest, context: ServerCallContext
    ) -> Task | None:
        """Cancel a task of the caller."""
        await self._current(params.id, context)
        task: Task | None = await super().on_cancel_task(params, context)
        return task

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Stream a task of the caller."""
        await self._current(params.id, context)
        async for event in super().on_subscribe_to_task(params, context):
            yield event

    async def _start_task(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Store a message and start its task, unless the message is a repeated one."""
        async with self._starting:
            task, is_new = self._open_task(params, context)
            if is_new:
                active, request = await self._setup_active_task(params, context)
                await active.enqueue_request(request)
        return task

    def _open_task(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> tuple[Task, bool]:
        """Store a message with its task; returns the task, and whether it is new."""
        caller = caller_of(context)
        message = params.message
        _check(message, caller)
        task_id = a2a.task_id(caller.owner, message.message_id)
        if message.task_id not in ("", task_id):
            raise InvalidParamsError(
                message="a task of this agent takes one message; send further ones without a taskId"
            )
        message.context_id = message.context_id or caller.run_id or task_id
        message.task_id = ""
        digest = hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()
        message.task_id = task_id
        row = self._state.task(task_id, caller.owner)
        if row is not None and row.content_hash != digest:
            raise InvalidParamsError(
                message=f"message {message.message_id} was sent before with another content"
            )
        if row is not None:
            return task_store.read(row), False
        task = Task(
            id=task_id,
            context_id=message.context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            history=[message],
        )
        task.status.timestamp.FromDatetime(self._now())
        self._state.add_task(
            TaskRow(
                id=task_id,
                owner=caller.owner,
                context=task.context_id,
                content_hash=digest,
                caller=caller,
                is_final=False,
                updated_ns=task_store.updated_ns(task),
                body=task.SerializeToString(),
            )
        )
        return task, True

    async def _follow(self, task: Task, context: ServerCallContext) -> AsyncGenerator[Event, None]:
        """Yield the task and what happens to it, until it ends."""
        current = await self._current(task.id, context) or task
        active = await self._active_task_registry.get(task.id)
        if current.status.state not in task_store.FINAL_STATES and active is not None:
            try:
                async for event in active.subscribe(include_initial_task=True):
                    yield event
                    if _is_final(event):
                        return
            except UnsupportedOperationError:  # it has ended meanwhile
                pass
        yield await self._current(task.id, context) or current

    async def _current(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a task; end it if it has no running worker, as after a failed write."""
        async with self._starting:
            active = await self._active_task_registry.get(task_id)
            row = self._state.task(task_id, context.user.user_name)
            if row is None:
                return None
            task = task_store.read(row)
            if row.is_final or (active is not None and not active.is_finished):
                return task
            return self._fail(task, _INTERRUPTED)

    def _fail(self, task: Task, message: str) -> Task:
        task.metadata.update(self._usage_of(task.id))
        fail(task, FailureClass.INTERRUPTED, message, self._now())
        task_store.save(self._state, task)
        return task

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_s(), UTC)


def fail(task: Task, reason: FailureClass, message: str, now: datetime) -> None:
    """End a task as failed, with its class; its metadata stays, such as its usage."""
    task.status.state = TaskState.TASK_STATE_FAILED
    task.status.timestamp.FromDatetime(now)
    task.status.message.CopyFrom(
        new_text_message(f"{reason}: {message}", context_id=task.context_id, task_id=task.id)
    )
    task.metadata.update({a2a.FAILURE_KEY: {"class": reason.value, "message": message}})


def _readable(row: TaskRow) -> Task:
    """Return the task of a row, or one with its ids alone if it is damaged."""
    try:
        return task_store.read(row)
    except DecodeError:
        return Task(id=row.id, context_id=row.context)


def _is_final(event: Event) -> bool:
    if isinstance(event, Task | TaskStatusUpdateEvent):
        return event.status.state in task_store.FINAL_STATES
    return False


def _check(message: Message, caller: Caller) -> None:
    if len(message.message_id) > MAX_IDS or len(message.context_id) > MAX_IDS:
        raise InvalidParamsError(message=f"messageId and contextId may have {MAX_IDS} characters")
    if caller.run_id and message.context_id not in ("", caller.run_id):
        raise InvalidParamsError(
            message=f"contextId must be the run of the ticket, {caller.run_id}"
        )
    if not any(part.HasField("text") and part.text.strip() for part in message.parts):
        raise InvalidParamsError(message="the message has no text")
