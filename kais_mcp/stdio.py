"""Serves one client over standard input and output."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, TypeGuard

import anyio
import mcp_types as types
import pydantic
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from kais.encodable_text import encodable

_Item = SessionMessage | Exception


async def serve(server: Server[Any]) -> None:
    """Serve until the client closes standard input; print all other output to stderr."""
    async with stdio_server() as (read_stream, write_stream), anyio.create_task_group() as tasks:
        forwarded, messages = anyio.create_memory_object_stream[_Item]()
        tasks.start_soon(_forward, read_stream, forwarded, write_stream.send)
        await server.run(messages, write_stream, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _forward(
    items: AsyncIterable[_Item],
    forwarded: MemoryObjectSendStream[_Item],
    answer: Callable[[SessionMessage], Awaitable[None]],
) -> None:
    """Forward what the client sends, and answer requests that cannot be read.

    The SDK drops these, and the client would wait until its own timeout.
    """
    async with forwarded:
        async for item in items:
            error = _error_for(item) if isinstance(item, pydantic.ValidationError) else None
            if error is None:
                await forwarded.send(item)
            else:
                await answer(SessionMessage(error))


def _error_for(unreadable: pydantic.ValidationError) -> types.JSONRPCError | None:
    """Return the answer to a line that is no JSON for the SDK; None if it names no request."""
    (problem, *_) = unreadable.errors(include_url=False)
    if problem["type"] != "json_invalid":
        return None
    try:
        tree = json.loads(problem["input"])  # takes halves of surrogate pairs, as JavaScript does
    except (ValueError, RecursionError):
        return None
    request = tree.get("id") if isinstance(tree, dict) and "method" in tree else None
    if not _is_id(request):
        return None
    reason = (
        f"the request cannot be read: {problem['ctx']['error']}. Texts may not have half of a"
        " character, such as \\ud83d without its second half, and arguments not be nested deeply"
    )
    error = types.ErrorData(code=types.PARSE_ERROR, message=reason)
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=error)


def _is_id(value: object) -> TypeGuard[int | str]:
    """Return whether an answer can name the request; half a character cannot be sent."""
    if isinstance(value, str):
        return encodable(value) == value
    return isinstance(value, int) and not isinstance(value, bool)
