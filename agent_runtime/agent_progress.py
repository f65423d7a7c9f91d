"""Counts the calls of a mind in one conversation, and ends a conversation that loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent_runtime.errors import AgentError
from kais.agent_results import FailureClass

MAX_TURNS: Final = 50
MAX_TOOL_CALLS: Final = 200
MAX_REPEATS: Final = 5
"""How often in a row the model may make the same tool call."""


@dataclass
class Progress:
    """Counts of what the model has done so far in one conversation."""

    turns: int = 0
    tool_calls: int = 0
    repeats: int = 0
    last_call: str = ""
    is_calling_tools: bool = False

    def add_turn(self) -> None:
        """Count a call of the model.

        Raises:
            AgentError: The model had its maximum of calls without a final answer.
        """
        if self.turns >= MAX_TURNS:
            raise AgentError(
                FailureClass.TOOL_LOOP, f"the model was called {MAX_TURNS} times without a result"
            )
        self.turns += 1

    def add_tool_calls(self, calls: Sequence[str]) -> None:
        """Count the tool calls of one answer, each with its name and arguments.

        Raises:
            AgentError: The model repeats itself, or has made too many calls.
        """
        self.is_calling_tools = bool(calls)
        for call in calls:
            self.tool_calls += 1
            self.repeats = self.repeats + 1 if call == self.last_call else 1
            self.last_call = call
            if self.repeats >= MAX_REPEATS:
                raise AgentError(
                    FailureClass.TOOL_LOOP,
                    f"the model made the same tool call {MAX_REPEATS} times in a row: {call[:200]}",
                )
        if self.tool_calls > MAX_TOOL_CALLS:
            raise AgentError(
                FailureClass.TOOL_LOOP, f"the model made more than {MAX_TOOL_CALLS} tool calls"
            )
