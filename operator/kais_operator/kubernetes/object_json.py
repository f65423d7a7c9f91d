"""Decodes objects of the API server, whose free fields may nest more deeply than is readable.

    up to `MAX_DEPTH` levels        whole
    more, and it is being deleted   cut: deeper values are null, on which no deletion depends
    more                            cut, and not to be acted upon

The API server accepts 10,000 levels, in `managedFields` too. Decoders recurse and raise
RecursionError from some hundred levels on, depending on the stack of their caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from kais_operator.planning.plan import Body

MAX_DEPTH = 500
"""Levels of objects and lists. Arbitrary: half of what decoders follow, and no use needs 100."""
TOO_DEEP = f"nests deeper than {MAX_DEPTH} levels: make it shallower or delete it"
_CUT_DEPTH = MAX_DEPTH + 10
"""More than `MAX_DEPTH` by what wraps an object in a page, so what was cut still exceeds it."""
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"
_T = TypeVar("_T")
_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Any])


class ListMetadata(msgspec.Struct, rename={"following": "continue"}):
    """The version of a list, and the token of its next page."""

    resourceVersion: str = ""  # noqa: N815 (as the API has it)
    following: str = ""


class Page(msgspec.Struct):
    """A page of a list; its objects are decoded one at a time."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None
    apiVersion: str = ""  # noqa: N815 (as the API has it)
    kind: str = ""


class RawEvent(msgspec.Struct):
    """A watch event with its object as JSON."""

    type: str
    object: msgspec.Raw


_PAGE_DECODER = msgspec.json.Decoder(Page)
_EVENT_DECODER = msgspec.json.Decoder(RawEvent)


def decode_page(content: bytes) -> Page:
    """Decode a page of a list.

    Raises:
        DecodeError: It is no list.
    """
    return decode(_PAGE_DECODER, content)


def decode_event(line: bytes) -> RawEvent:
    """Decode a watch event.

    Raises:
        DecodeError: It is no event.
    """
    return decode(_EVENT_DECODER, line)


def readable_event(line: bytes) -> bytes:
    """Return a watch event, or a bookmark in place of one whose object nests too deeply."""
    if not _is_too_deep(line):
        return line
    event = decode_event(line)
    body, is_readable = decode_object(event.object)
    if is_readable or event.type == "DELETED":
        return msgspec.json.encode({"type": event.type, "object": body})
    metadata = {"resourceVersion": body["metadata"]["resourceVersion"]}
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata}})


def decode_object(content: bytes | msgspec.Raw) -> tuple[Body, bool]:
    """Return an object, and whether to act on it: it is whole, or is being deleted.

    Raises:
        DecodeError: It is no object.
    """
    encoded = bytes(content)
    if not _is_too_deep(encoded):
        return _OBJECT_DECODER.decode(encoded), True
    body: Body = _OBJECT_DECODER.decode(_cut(encoded))
    return body, "deletionTimestamp" in (body.get("metadata") or {})


def decode(decoder: msgspec.json.Decoder[_T], content: bytes) -> _T:
    """Decode JSON that may nest too deeply; such values become null.

    Raises:
        DecodeError: It is not what the decoder expects.
    """
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(_cut(content))


def _is_too_deep(content: bytes) -> bool:
    if content.count(b"{") + content.count(b"[") <= MAX_DEPTH:
        return False  # counting takes a hundredth of the time of decoding
    return any(depth > MAX_DEPTH for depth, _, _ in _brackets(content))


def _cut(content: bytes) -> bytes:
    """Replace what nests more deeply than `_CUT_DEPTH` by null, without recursion."""
    parts: list[bytes] = []
    kept_from: int | None = 0
    for depth, is_opening, position in _brackets(content):
        if depth != _CUT_DEPTH + 1:
            continue
        if is_opening:
            parts.append(content[kept_from:position])
            kept_from = None
        else:
            parts.append(b"null")
            kept_from = position + 1
    if kept_from is not None:
        parts.append(content[kept_from:])
    return b"".join(parts)


def _brackets(content: bytes) -> Iterator[tuple[int, bool, int]]:
    """Yield the depth inside each bracket, whether it opens, and its position."""
    depth = 0
    for token in _TOKEN.finditer(content):
        position = token.start()
        byte = content[position]
        if byte in _OPENING:
            depth += 1
            yield depth, True, position
        elif byte in _CLOSING:
            yield depth, False, position
            depth -= 1
