"""The wire format of OpenAI-compatible chat completions, whole and as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.model_server.answer import Answer

CREATED_S = 1_700_000_000
"""A constant: no test reads it, and equal answers stay equal."""
_ERROR_TYPES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    kind = _ERROR_TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def body(answer: Answer) -> dict[str, Any]:
    """Return a whole completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": answer.call_id(index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for index, call in enumerate(answer.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    whole = {**_head(answer, "chat.completion"), "choices": [choice]}
    return {**whole, "usage": _usage(answer)} if answer.has_usage else whole


def events(answer: Answer, *, has_usage: bool) -> Iterator[bytes]:
    """Yield the events of a stream; usage only if the request asked for it."""
    yield _event(answer, {"role": "assistant", "content": ""})
    yield from text_events(answer)
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        opening = {"index": index, "id": answer.call_id(index), "type": "function"}
        yield _event(answer, {"tool_calls": [{**opening, "function": function}]})
        for chunk in answer.chunks(call.text):
            part = {"index": index, "function": {"arguments": chunk}}
            yield _event(answer, {"tool_calls": [part]})
    yield _event(answer, {}, finish_reason=_finish_reason(answer))
    if has_usage and answer.has_usage:
        head = _head(answer, "chat.completion.chunk")
        yield _sse({**head, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def text_events(answer: Answer) -> Iterator[bytes]:
    """Yield the events of the text alone."""
    for chunk in answer.chunks(answer.text):
        yield _event(answer, {"content": chunk})


def _event(answer: Answer, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _sse({**_head(answer, "chat.completion.chunk"), "choices": [choice]})


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": answer.id, "object": kind, "created": CREATED_S, "model": answer.model}


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }


def _finish_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.calls else "stop")


def _sse(data: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
