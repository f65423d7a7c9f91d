"""The tasks as the A2A SDK reads and writes them; each caller sees its own only."""

from __future__ import annotations

from typing import Final

from a2a.server.context import ServerCallContext
from a2a.server.tasks import TaskStore
from a2a.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
)

from agent_runtime.state import State, TaskRow

FINAL_STATES: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
_PAGE: Final = 50


class SqliteTaskStore(TaskStore):
    """Stores the tasks of a cell in its state."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Replace the body of a task; the request handler has stored the task before."""
        del context
        save(self._state, task)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a task of the caller."""
        row = self._state.task(task_id, context.user.user_name)
        return None if row is None else read(row)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the caller's tasks, latest first.

        Raises:
            InvalidParamsError: The page token is invalid.
        """
        rows = [
            row
            for row in self._state.tasks(context.user.user_name)
            if not params.context_id or row.context == params.context_id
        ]
        tasks = [(row, read(row)) for row in rows]
        if params.status:
            tasks = [(row, task) for row, task in tasks if task.status.state == params.status]
        if params.HasField("status_timestamp_after"):
            after_ns = params.status_timestamp_after.ToNanoseconds()
            tasks = [(row, task) for row, task in tasks if row.updated_ns >= after_ns]
        count = len(tasks)
        if params.page_token:
            last = _cursor(params.page_token)
            tasks = [(row, task) for row, task in tasks if (row.updated_ns, row.id) < last]
        size = params.page_size or _PAGE
        page = tasks[:size]
        token = ""
        if len(tasks) > size:
            row = page[-1][0]
            token = encode_list_tasks_cursor(ListTasksCursor(row.updated_ns, row.id))
        return ListTasksResponse(
            tasks=[task for _, task in page],
            total_size=count,
            page_size=size,
            next_page_token=token,
        )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task of the caller."""
        self._state.delete_task(task_id, context.user.user_name)


def read(row: TaskRow) -> Task:
    """Return the task of a row."""
    task = Task()
    task.ParseFromString(row.body)
    return task


def save(state: State, task: Task) -> None:
    """Replace the body of a stored task."""
    state.save_task(
        task.id,
        task.SerializeToString(),
        is_final=task.status.state in FINAL_STATES,
        updated_ns=updated_ns(task),
    )


def updated_ns(task: Task) -> int:
    """Return when the status of a task changed, in nanoseconds since 1970."""
    return int(task.status.timestamp.ToNanoseconds())


def _cursor(token: str) -> tuple[int, str]:
    cursor = decode_list_tasks_cursor(token)
    if cursor is None or cursor.timestamp_ns is None:
        raise InvalidParamsError(message="the page token is not valid")
    return cursor.timestamp_ns, cursor.task_id
