"""Lets a mind work on one message until its final answer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pydantic_ai
from pydantic_ai import exceptions
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackCause,
    RetryFeedbackPart,
    RetryInfo,
)
from pydantic_ai.models import Model
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from pydantic_ai.usage import UsageLimits

from agent_runtime import prompt
from agent_runtime.agent import call_failures
from agent_runtime.agent.conversation_log import (
    CallGate,
    ConversationLog,
    GatedTools,
    JournaledTools,
)
from agent_runtime.agent.metered_model import MeteredModel, Supervision
from agent_runtime.agent.server_toolset import ServerToolset
from agent_runtime.agent_progress import Progress
from agent_runtime.errors import AgentError, ToolError, find_cause
from agent_runtime.journal import Journal
from agent_runtime.telemetry import Traces
from kais import verdicts
from kais.agent_results import FailureClass

TOOL_RETRIES: Final = 3
TOOL_S: Final = 60.0
_TIMES: Final[Mapping[str, float | None]] = {"ask_peer": None}
"""Time limits of tools other than `TOOL_S`: a peer that waits for a person has no fixed one."""
TOOL_RESULT_CHARACTERS: Final = 100_000


@dataclass(frozen=True)
class Answer:
    """The final answer of a mind."""

    text: str
    is_truncated: bool


async def run(
    model: Model,
    supervision: Supervision,
    *,
    progress: Progress,
    message: str,
    tools: Sequence[Callable[..., Any]] = (),
    journal: Journal | None = None,
) -> Answer:
    """Let a mind work on one message until its final answer.

    A review ends with a verdict: if the answer is not one, the model is asked again.

    With a journal, the message continues a stored conversation, and an interrupted task continues
    where it stopped.

    Raises:
        AgentError: The mind gives no answer.
    """
    mind = supervision.mind
    log = None if journal is None else ConversationLog(journal)
    history = [] if log is None else log.load()
    if log is not None and log.is_resumed:
        answer = _resume(log, history, progress, is_review=supervision.is_review)
        if answer is not None:
            return answer
    traces = supervision.traces
    settings = ModelSettings()
    if mind.temperature is not None:
        settings["temperature"] = mind.temperature
    agent = pydantic_ai.Agent(
        MeteredModel(model, supervision, progress, log),
        output_type=str,
        instructions=prompt.instructions(
            mind.prompt,
            mind.tools,
            peers=supervision.peers,
            servers=[server.name for server in mind.servers],
            is_review=supervision.is_review,
        ),
        toolsets=_toolsets(tools, journal, supervision),
        model_settings=settings,
        name=None if traces is None else traces.cell,
        capabilities=[] if traces is None else [_instrumentation(traces)],
    )
    if supervision.is_review:
        agent.output_validator(_require_verdict)
    try:
        result = await agent.run(
            None if log is not None and log.is_resumed else message,
            message_history=history,
            usage_limits=UsageLimits(request_limit=None),
        )
    except exceptions.AgentRunError as exc:
        cause = find_cause(exc)
        raise cause or _run_failure(exc, progress) from exc
    return _answer(result.output, result.response)


def _instrumentation(traces: Traces) -> Instrumentation:
    return Instrumentation(
        InstrumentationSettings(
            tracer_provider=traces.provider,
            include_content=traces.has_content,
            include_model_request_parameters=traces.has_content,
        )
    )


def _resume(
    log: ConversationLog, history: list[ModelMessage], progress: Progress, *, is_review: bool
) -> Answer | None:
    """Return the answer that a task had before a restart.

    If a review had an answer that is no verdict, the message that asks for one is added.
    """
    log.count(history, progress)
    answered = log.answer(history)
    request: ModelRequest | None = None
    if answered is not None:
        text = answered.text or ""
        try:
            return _answer(_require_verdict(text) if is_review else text, answered)
        except exceptions.ModelRetry as exc:
            retry = RetryInfo[RetryFeedbackCause](cause="model_retry")
            request = ModelRequest(parts=[RetryFeedbackPart(exc.message, retry=retry)])
    log.check_latest()
    if request is not None:
        history.append(request)
    return None


def _require_verdict(text: str) -> str:
    try:
        verdicts.parse(text)
    except ValueError as exc:
        raise exceptions.ModelRetry(f"Your last message is no verdict: {exc}") from exc
    return text


def _answer(text: str, response: ModelResponse) -> Answer:
    return Answer(text, response.finish_reason == "length")


def _toolsets(
    tools: Sequence[Callable[..., Any]],
    journal: Journal | None,
    supervision: Supervision,
) -> list[AbstractToolset[object]]:
    toolsets: list[AbstractToolset[object]] = [_function_toolset(tools)]
    if supervision.servers is not None:
        toolsets.append(ServerToolset(supervision.servers))
    return [_supervised(toolset, journal, supervision.gate) for toolset in toolsets]


def _function_toolset(tools: Sequence[Callable[..., Any]]) -> AbstractToolset[object]:
    return FunctionToolset[object](
        [
            pydantic_ai.Tool(
                _guard(tool), max_retries=TOOL_RETRIES, timeout=_TIMES.get(tool.__name__, TOOL_S)
            )
            for tool in tools
        ]
    )


def _supervised(
    toolset: AbstractToolset[object], journal: Journal | None, gate: CallGate | None
) -> AbstractToolset[object]:
    if journal is None:
        return toolset
    journaled = JournaledTools(toolset, journal)
    return journaled if gate is None else GatedTools(journaled, journal, gate)


def _guard(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """Turn the error of a tool into an answer for the model, and bound its result."""

    @functools.wraps(tool)
    async def guarded(*arguments: Any, **keywords: Any) -> str:
        try:
            result = await tool(*arguments, **keywords)
        except ToolError as exc:
            raise exceptions.ToolFailed(str(exc)) from exc
        if len(result) > TOOL_RESULT_CHARACTERS:
            return f"{result[:TOOL_RESULT_CHARACTERS]}\n[cut]"
        return result

    guarded.__signature__ = inspect.signature(tool)  # type: ignore[attr-defined] # as inspect reads it
    return guarded


def _run_failure(error: exceptions.AgentRunError, progress: Progress) -> AgentError:
    text = call_failures.short(str(error))
    if isinstance(error, exceptions.ContentFilterError):
        return AgentError(FailureClass.MODEL_REFUSED, f"the model refused to answer: {text}")
    if progress.is_calling_tools:
        return AgentError(
            FailureClass.TOOL_FAILED, f"the model could not use a tool correctly: {text}"
        )
    return AgentError(FailureClass.BAD_ANSWER, f"the model gave no usable answer: {text}")
