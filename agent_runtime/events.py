"""The events in the work of a mind, which become episodes of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

EventType = Literal[
    "message", "decision", "tool_call", "tool_result", "error", "retry", "approval", "review"
]


@dataclass(frozen=True)
class AgentEvent:
    """One event; errors of one kind share a signature."""

    type: EventType
    content: str
    signature: str | None = None


EventSink = Callable[[AgentEvent], None]
