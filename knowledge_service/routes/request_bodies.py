"""Reads request bodies within size limits, and parses their JSON.

JSON is parsed strictly, because Python's own parser accepts lone surrogates, NaN and nesting of any
depth, which fail later and look like errors of the service. `unknown_fields` names the fields that
a route does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic_core
from starlette.exceptions import HTTPException

from knowledge_service.errors import InvalidBody, TooLarge

if TYPE_CHECKING:
    from starlette.types import Receive

# 200 facts of 8,192 characters with the JSON around them and room for escapes.
MAX_BYTES = 8 * 1024 * 1024
_BATCH_PATHS = frozenset({"/v1/facts:batch", "/v1/episodes", "/v1/stats:batch"})
# One fact of maximum size with each character escaped.
_MAX_SINGLE_BYTES = 1024 * 1024


def max_bytes(path: str) -> int:
    """Return the maximum size of the body of a request."""
    return MAX_BYTES if path in _BATCH_PATHS else _MAX_SINGLE_BYTES


def check_length(length: str | None, limit: int) -> None:
    """Check a `Content-Length` before the body is read.

    Raises:
        TooLarge: It exceeds the limit, or is not a number.
    """
    if length is not None and not _is_within(length, limit):
        raise _too_large(limit)


def _is_within(length: str, limit: int) -> bool:
    """Return whether a `Content-Length` is a number up to a limit, however many digits it has."""
    digits = length.lstrip("0") or "0"
    is_number = length.isascii() and length.isdigit() and len(digits) <= len(str(limit))
    return is_number and int(digits) <= limit


async def read(receive: Receive, limit: int) -> bytes:
    """Read a body.

    Raises:
        HTTPException: the client disconnected before it sent the whole body.
        TooLarge: the body exceeds the limit, whatever Content-Length says.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "the client disconnected before it sent the whole body")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def parse_json(body: bytes) -> Any:
    """Parse a body.

    Raises:
        InvalidBody: It is not JSON, or is nested too deeply.
    """
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as exc:
        raise InvalidBody(f"the body is not JSON: {exc}") from exc


def is_json(content_type: bytes) -> bool:
    """Return whether a `Content-Type` is JSON."""
    kind = content_type.partition(b";")[0].strip().lower()
    main, _, sub = kind.partition(b"/")
    return main == b"application" and (sub == b"json" or sub.endswith(b"+json"))


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body exceeds {limit} bytes")
