"""The wire format of Anthropic's messages, whole and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.model_server.answer import Answer

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    kind = _ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def body(answer: Answer) -> dict[str, Any]:
    """Return a whole message; arguments that are no JSON object become an empty input."""
    content: list[dict[str, Any]] = []
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for index, call in enumerate(answer.calls):
        tool_use = {"type": "tool_use", "id": answer.call_id(index), "name": call.name}
        content.append({**tool_use, "input": {} if call.raw is not None else call.arguments})
    whole = {**_head(answer), "content": content, "stop_reason": _stop_reason(answer)}
    return {**whole, "usage": _usage(answer, answer.output_tokens)}


def events(answer: Answer, *, has_usage: bool) -> Iterator[bytes]:
    """Yield the events of a stream, which always carries usage unless the script leaves it out."""
    start = {**_head(answer), "content": [], "stop_reason": None}
    yield _event("message_start", message={**start, "usage": _usage(answer, 1)})
    index = 0
    if answer.text:
        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield from text_events(answer)
        yield _event("content_block_stop", index=0)
        index = 1
    for number, call in enumerate(answer.calls):
        tool_use = {
            "type": "tool_use",
            "id": answer.call_id(number),
            "name": call.name,
            "input": {},
        }
        yield _event("content_block_start", index=index, content_block=tool_use)
        for chunk in answer.chunks(call.text):
            delta = {"type": "input_json_delta", "partial_json": chunk}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
        index += 1
    stop = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    tokens = {"output_tokens": answer.output_tokens if has_usage and answer.has_usage else 0}
    yield _event("message_delta", delta=stop, usage=tokens)
    yield _event("message_stop")


def text_events(answer: Answer) -> Iterator[bytes]:
    """Yield the events of the text alone."""
    for chunk in answer.chunks(answer.text):
        delta = {"type": "text_delta", "text": chunk}
        yield _event("content_block_delta", index=0, delta=delta)


def _head(answer: Answer) -> dict[str, Any]:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_sequence": None,
    }


def _usage(answer: Answer, output_tokens: int) -> dict[str, int]:
    if not answer.has_usage:
        return {"input_tokens": 0, "output_tokens": 0}
    return {"input_tokens": answer.input_tokens, "output_tokens": output_tokens}


def _stop_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_use" if answer.calls else "end_turn")


def _event(kind: str, **fields: Any) -> bytes:
    data = msgspec.json.encode({"type": kind, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"
