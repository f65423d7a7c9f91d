"""Cursors: opaque to callers, and made of nothing that a page's reader has not seen."""

from __future__ import annotations

import base64
import binascii

from knowledge_service.errors import InvalidBody


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
        raise InvalidBody("cursor is none of ours; leave it out to begin again") from exc
    if version != "1" or not last:
        raise InvalidBody("cursor is none of ours; leave it out to begin again")
    return last
