"""Reads request bodies within size limits, and parses their JSON.

JSON is parsed strictly, because Python's own parser accepts lone surrogates, NaN, numbers that
become infinite and nesting of any depth, which fail later and look like errors of the service.
`unknown_fields` names the fields that a route does not have.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pydantic_core
from starlette.exceptions import HTTPException

from knowledge_client.models import ProblemViolation
from knowledge_service.errors import InvalidBody, TooLarge

if TYPE_CHECKING:
    from starlette.types import Receive

# 200 facts of 8,192 characters with the JSON around them and room for escapes.
MAX_BYTES = 8 * 1024 * 1024
_BATCH_PATHS = frozenset({"/v1/facts:batch", "/v1/episodes", "/v1/stats:batch"})
# One fact of maximum size with each character escaped.
_MAX_SINGLE_BYTES = 1024 * 1024
# Routes that take no body answer one of this size in words. A body whose length is not said counts
# towards no limit of bytes in flight.
NO_BODY_BYTES = 4096
# Callers choose the names of members, so only a part of each is shown.
_MAX_NAME = 64


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
        InvalidBody: It is not JSON, is nested too deeply, or has a number that no float holds.
    """
    try:
        value = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as exc:
        raise InvalidBody(f"the body is not JSON: {exc}") from exc
    path = _path_of_infinity(value) if _may_have_infinity(value) else None
    if path is not None:
        violation = ProblemViolation(path=path, message="must lie between -1.79e308 and 1.79e308")
        raise InvalidBody("a number in the body is too large", (violation,))
    return value


def _may_have_infinity(value: Any) -> bool:
    """Return whether a value has an infinite number, or only a text with that word.

    Writing JSON takes less time than parsing it; a loop in Python over each number takes more.
    """
    return b"Infinity" in pydantic_core.to_json(value, inf_nan_mode="constants")


def _path_of_infinity(value: Any) -> str | None:
    """Return the place of a number that became infinite, such as `1e400`; None without one."""
    remaining: list[tuple[Any, Any]] = [((), value)] if isinstance(value, dict | list) else []
    while remaining:
        place, container = remaining.pop()
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, item in items:
            if isinstance(item, float):
                if math.isinf(item):
                    return _path((place, key))
            elif isinstance(item, dict | list):
                remaining.append(((place, key), item))
    return None


def _path(place: Any) -> str:
    """Return a path from its last part, which is a pair of the part before and a key."""
    keys: list[str] = []
    while place:
        place, key = place
        keys.append(str(key)[:_MAX_NAME])
    return ".".join(reversed(keys))


def is_json(content_type: bytes) -> bool:
    """Return whether a `Content-Type` is JSON."""
    kind = content_type.partition(b";")[0].strip().lower()
    main, _, sub = kind.partition(b"/")
    return main == b"application" and (sub == b"json" or sub.endswith(b"+json"))


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body exceeds {limit} bytes")
