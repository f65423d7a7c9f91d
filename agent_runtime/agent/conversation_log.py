"""Keeps the conversation of a mind in its journal, and continues it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from pydantic_ai import RunContext, exceptions, messages
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from agent_runtime import journal as journals
from agent_runtime.agent.working_memory import WorkingMemory
from agent_runtime.agent_progress import Progress
from agent_runtime.errors import AgentError
from agent_runtime.journal import Journal
from kais import agent_tools
from kais.agent_results import FailureClass

_ENDED: Final = "The attempt ended here, without an answer."
_NO_RESULT: Final = "no result: the attempt ended before"
_adapter = messages.ModelMessagesTypeAdapter


class ConversationLog:
    """Stores the messages of one conversation as they come.

    Attributes:
        is_resumed: whether the task had begun before, so that its message is in the conversation.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._stored = 0
        self.is_resumed = False

    def load(self) -> list[messages.ModelMessage]:
        """Return the stored conversation; if an earlier task left it open, it is closed first.

        Raises:
            AgentError: It cannot be read.
        """
        try:
            history = [_adapter.validate_json(body)[0] for body in self._journal.messages()]
        except ValueError as exc:
            raise AgentError(
                FailureClass.INTERRUPTED, "the stored conversation of the run cannot be read"
            ) from exc
        self._stored = len(history)
        self.is_resumed = len(history) > self._journal.start
        if not self.is_resumed:
            history += _closing(history)
        return history

    def answer(self, history: Sequence[messages.ModelMessage]) -> messages.ModelResponse | None:
        """Return the final answer that the task had before a restart; None if it had none."""
        return final_answer(history[self._journal.start : self._journal.end])

    def check_latest(self) -> None:
        """Check that the task can go on at the end of the conversation.

        Raises:
            AgentError: The next task of the conversation has begun.
        """
        if self._journal.end is not None:
            raise AgentError(
                FailureClass.INTERRUPTED,
                "the agent runtime was stopped before the task had an answer, and has gone on with"
                " another message of the run since; send the message again under a new id",
            )

    def count(self, history: Sequence[messages.ModelMessage], progress: Progress) -> None:
        """Count what the model has done for this task before a restart."""
        for message in history[self._journal.start : self._journal.end]:
            if isinstance(message, messages.ModelResponse):
                progress.turns += 1
                progress.tool_calls += len(_calls(message))

    def save(self, history: Sequence[messages.ModelMessage]) -> None:
        """Store the messages that are not stored yet."""
        new = [_adapter.dump_json([message]) for message in history[self._stored :]]
        if new:
            self._journal.append(new, position=self._stored)
            self._stored = len(history)

    def restore(self, memory: WorkingMemory) -> None:
        """Continue with the stored summary."""
        memory.summary, memory.start = self._journal.memory()

    def save_memory(self, memory: WorkingMemory) -> None:
        """Store the summary if it is new."""
        if (memory.summary, memory.start) != self._journal.memory():
            self._journal.save_memory(memory.summary, memory.start)


class JournaledTools(WrapperToolset[object]):
    """Stores the intent of each tool call before it runs, and its result after it."""

    def __init__(self, wrapped: AbstractToolset[object], journal: Journal) -> None:
        super().__init__(wrapped)
        self._journal = journal

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[object],
        tool: ToolsetTool[object],
    ) -> Any:
        """Run a tool, or return the result that it had before a restart.

        Raises:
            AgentError: The tool may have run before a restart, and it must not run twice.
            ToolFailed: The tool fails, or had failed before a restart.
        """
        key = f"{len(ctx.messages)}/{ctx.tool_call_id}"
        record = self._journal.tool_call(key)
        if record is not None and record.result is not None:
            if record.is_failed:
                raise exceptions.ToolFailed(record.result)
            return record.result
        if record is not None and not agent_tools.is_repeatable(name):
            raise AgentError(
                FailureClass.INTERRUPTED,
                f"the agent runtime was stopped while {name} ran, and a repeat may do harm",
            )
        if record is None:
            self._journal.open_tool_call(key, name)
        journals.enter_call(self._journal.task, key)
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
        except exceptions.ToolFailed as exc:
            self._journal.close_tool_call(key, exc.message, is_failed=True)
            raise
        self._journal.close_tool_call(key, result)
        return result


class CallGate(Protocol):
    """Decides whether a tool call may run."""

    async def refusal(self, call: str, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return None if a call may run, else the answer for the mind. May wait for a person."""


class GatedTools(WrapperToolset[object]):
    """Asks a gate before each tool call, before its intent is stored."""

    def __init__(self, wrapped: AbstractToolset[object], journal: Journal, gate: CallGate) -> None:
        super().__init__(wrapped)
        self._journal = journal
        self._gate = gate

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[object],
        tool: ToolsetTool[object],
    ) -> Any:
        """Run a tool if the gate lets the call through."""
        call = journals.derive_call_id(
            self._journal.task, f"{len(ctx.messages)}/{ctx.tool_call_id}"
        )
        refusal = await self._gate.refusal(call, name, tool_args)
        if refusal is not None:
            return refusal
        return await super().call_tool(name, tool_args, ctx, tool)


def final_answer(history: Sequence[messages.ModelMessage]) -> messages.ModelResponse | None:
    """Return the last message if it is an answer without tool calls."""
    last = history[-1] if history else None
    if not isinstance(last, messages.ModelResponse) or _calls(last) or not last.text:
        return None
    return last


def _closing(history: Sequence[messages.ModelMessage]) -> list[messages.ModelMessage]:
    """Return the messages that complete a conversation whose last task gave no answer."""
    if not history or final_answer(history) is not None:
        return []
    last = history[-1]
    closing: list[messages.ModelMessage] = []
    if isinstance(last, messages.ModelResponse) and _calls(last):
        parts = [
            messages.ToolReturnPart(call.tool_name, _NO_RESULT, tool_call_id=call.tool_call_id)
            for call in _calls(last)
        ]
        closing.append(messages.ModelRequest(parts=parts))
    if closing or isinstance(last, messages.ModelRequest):
        closing.append(messages.ModelResponse(parts=[messages.TextPart(_ENDED)]))
    return closing


def _calls(response: messages.ModelResponse) -> list[messages.ToolCallPart]:
    return [part for part in response.parts if isinstance(part, messages.ToolCallPart)]
