"""The journal of a task, with which it continues after its process was killed.

The conversation is stored before each call of the model and after it. The intent of a tool call is
stored before the tool runs, and afterwards its result.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

_IDS: Final = uuid.UUID("0c7a3d0e-8f0f-5e0b-8a55-1d1f5c2b7a90")
_call: ContextVar[str | None] = ContextVar("tool_call", default=None)


@dataclass(frozen=True)
class ToolCallRecord:
    """A tool call whose intent is stored; without a result, it may or may not have run.

    Attributes:
        is_failed: whether the result says how the tool failed.
    """

    result: str | None
    is_failed: bool = False


class Journal(Protocol):
    """Stores the conversation of a run, and the tool calls of one task in it.

    Attributes:
        task: id of the task.
        start: how many messages the conversation had when the task began.
        end: how many it had when the next task began; None if none has begun.
    """

    task: str
    start: int
    end: int | None

    def messages(self) -> list[bytes]:
        """Return the stored messages of the conversation, oldest first."""

    def append(self, messages: Sequence[bytes], *, position: int) -> None:
        """Store messages that begin at a position of the conversation, all or none."""

    def memory(self) -> tuple[str, int]:
        """Return the summary of older messages, and the position of the first one after them."""

    def save_memory(self, summary: str, start: int) -> None:
        """Store a summary."""

    def tool_call(self, key: str) -> ToolCallRecord | None:
        """Return what is stored about a tool call."""

    def open_tool_call(self, key: str, tool: str) -> None:
        """Store the intent of a tool call."""

    def close_tool_call(self, key: str, result: str, *, is_failed: bool = False) -> None:
        """Store the result of a tool call, or how it failed."""


def enter_call(task: str, key: str) -> None:
    """Set the tool call that runs in this context."""
    _call.set(derive_call_id(task, key))


def derive_call_id(task: str, key: str) -> str:
    """Return the id of a tool call of a task."""
    return str(uuid.uuid5(_IDS, f"{task}/{key}"))


def call_id() -> str | None:
    """Return an id of the tool call that runs, the same when it is repeated after a restart."""
    return _call.get()
