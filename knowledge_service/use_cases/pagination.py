"""Cursors of pages: opaque to callers, and derived only from items that the page showed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from knowledge_service.errors import InvalidBody

T = TypeVar("T")
_MAX_DIGITS = 15  # more than any record has lines


def split_page(
    items: Sequence[T], limit: int, key: Callable[[T], str]
) -> tuple[tuple[T, ...], str | None]:
    """Return the first `limit` items and the cursor of the next page.

    Pass one item more than `limit`: the extra one shows that there is a next page. `key` names an
    item.
    """
    page = tuple(items[:limit])
    return page, encode(key(page[-1])) if len(items) > limit else None


def encode(last: str) -> str:
    """Return the cursor of the page after the item named `last`."""
    return base64.urlsafe_b64encode(f"1:{last}".encode()).decode()


def decode(cursor: str | None) -> str | None:
    """Return the name of the last item of the previous page; None starts at the first page.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    if cursor is None:
        return None
    try:
        version, _, last = base64.urlsafe_b64decode(cursor).decode().partition(":")
    except (binascii.Error, ValueError) as exc:
        raise invalid_cursor() from exc
    if version != "1" or not last:
        raise invalid_cursor()
    return last


def decode_number(cursor: str | None) -> int:
    """Return the number in a cursor; 0 starts at the first page.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    last = decode(cursor) or "0"
    if not (last.isascii() and last.isdecimal() and len(last) <= _MAX_DIGITS):
        raise invalid_cursor()
    return int(last)


def invalid_cursor() -> InvalidBody:
    """Return the refusal of a cursor that this service did not issue."""
    return InvalidBody("invalid cursor; omit it to start from the first page")
