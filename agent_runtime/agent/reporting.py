"""Turns the messages between runtime and model into events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pydantic_core
from pydantic_ai import messages

from agent_runtime.events import AgentEvent, EventSink, EventType
from kais.encodable_text import encodable


def masked(response: messages.ModelResponse, mask: Callable[[str], str]) -> messages.ModelResponse:
    """Return an answer without the key, so that neither facts nor files can contain it."""
    parts: list[messages.ModelResponsePart] = []
    for part in response.parts:
        match part:
            case messages.TextPart() | messages.ThinkingPart():
                parts.append(replace(part, content=mask(encodable(part.content))))
            case messages.ToolCallPart():
                parts.append(_masked_call(part, mask))
            case _:
                parts.append(part)
    return replace(response, parts=parts)


def _masked_call(call: messages.ToolCallPart, mask: Callable[[str], str]) -> messages.ToolCallPart:
    if isinstance(call.args, str):
        call = replace(call, args=encodable(call.args))
    name, args = encodable(call.tool_name), mask(_json_arguments(call))
    return replace(call, tool_name=name, args=args)


def _json_arguments(call: messages.ToolCallPart) -> str:
    """Return the arguments as JSON that can be sent again, under another key if they are none.

    A number that JSON does not have, such as NaN or 1e999, can be read, but no SDK sends it.
    """
    text = call.args_as_json_str()
    try:
        pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError:
        raw = call.args if isinstance(call.args, str) else text
        return pydantic_core.to_json({messages.INVALID_JSON_KEY: raw}).decode()
    return text


def report_request(request: messages.ModelMessage, sink: EventSink) -> None:
    """Report what a request tells the model: results of tool calls, and errors."""
    for part in request.parts:
        match part:
            case messages.ToolReturnPart(outcome="success"):
                sink(AgentEvent("tool_result", f"{part.tool_name}: {part.model_response_str()}"))
            case messages.ToolReturnPart():
                text = f"{part.tool_name}: {part.model_response_str()}"
                sink(AgentEvent("error", text, signature=f"tool:{part.tool_name}"))
            case messages.RetryFeedbackPart():
                sink(AgentEvent("error", part.model_response(), signature="answer"))
            case _:
                continue


def report_response(
    response: messages.ModelResponse, sink: EventSink, *, is_review: bool
) -> list[str]:
    """Report an answer, and return its tool calls as texts; the end of a review is its verdict."""
    calls = [part for part in response.parts if isinstance(part, messages.ToolCallPart)]
    text = "".join(part.content for part in response.parts if isinstance(part, messages.TextPart))
    if text.strip():
        conclusion: EventType = "review" if is_review else "decision"
        sink(AgentEvent("message" if calls else conclusion, text))
    described = [f"{call.tool_name} {call.args_as_json_str()}" for call in calls]
    for call in described:
        sink(AgentEvent("tool_call", call))
    return described
