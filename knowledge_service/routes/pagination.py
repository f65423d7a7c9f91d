"""Cursors: opaque to callers, and made of nothing that a page's reader has not seen."""

from __future__ import annotations

import base64
import binascii

from knowledge_service.errors import InvalidBody

_DIGITS = 15  # more than any record has lines


def seal(last: str) -> str:
    """Make the cursor of the page after the item named `last`."""
    return base64.urlsafe_b64encode(f"1:{last}".encode()).decode()


def unseal(cursor: str | None) -> str | None:
    """Read a cursor back; None begins at the first page.

    Raises:
        InvalidBody: it is none of ours.
    """
    if cursor is None:
        return None
    try:
        version, _, last = base64.urlsafe_b64decode(cursor).decode().partition(":")
    except (binascii.Error, ValueError) as exc:
        raise none_of_ours() from exc
    if version != "1" or not last:
        raise none_of_ours()
    return last


def unseal_number(cursor: str | None) -> int:
    """Read a cursor that holds a number; 0 begins at the first page.

    Raises:
        InvalidBody: it is none of ours.
    """
    last = unseal(cursor) or "0"
    if not (last.isascii() and last.isdecimal() and len(last) <= _DIGITS):
        raise none_of_ours()
    return int(last)


def none_of_ours() -> InvalidBody:
    """Return the one refusal of cursors that were made up."""
    return InvalidBody("invalid cursor; omit it to start from the first page")
