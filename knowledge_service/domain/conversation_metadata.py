"""What a fact's data says of who said it, in which session, at which turn, and when. Pure.

People put these beside the words of a conversation under a few usual names (`speaker`,
`session_id`, `dia_id`, `date`); values that are longer than a name or a date are none.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 100
# More than any name below has.
_LONGEST_NAME = 24
_VOICE = re.compile(
    r"(?:speaker|sender|narrator)(?:_?(?:name|id))?|from|role|who|said_by|spoken_by"
)
# One who writes facts down holds no conversation with himself.
_AUTHOR = re.compile(r"author(?:_?(?:name|id))?|written_by")
_SESSION = re.compile(
    r"(?:session|conversation|conv|dialogu?e|thread|chat|meeting|channel|call|interview)"
    r"(?:_?(?:id|no|num|number|index|name|key))?"
)
_TURN = re.compile(
    r"(?:turn|message|msg|utterance|line|post|comment|dia)(?:_?(?:id|no|num|number|index|key))?"
)
_WHEN = re.compile(
    r"(?:session_?|turn_?|message_?)?(?:date|time|timestamp|date_?time)|when|said_at|sent_at"
)


@dataclass(frozen=True)
class Told:
    """Who said it, what it is a part of, and when, as far as the data says; "" where it does not.

    `session` is told apart by the name of its member, as `session_id=3` is. A voice that is
    `written` need not be one of a conversation.
    """

    voice: str = ""
    session: str = ""
    turn: str = ""
    when: str = ""
    written: bool = False


NOTHING = Told()


def of(data: Any) -> Told:
    """Read the members of data, one level deep; of each sort the first by its name counts.

    By name, because the log does not keep the order in which they were given.
    """
    if not isinstance(data, Mapping):
        return NOTHING
    found: dict[str, str] = {}
    for key in sorted(data):
        name = key.casefold()
        sort = _sort(name) if len(name) <= _LONGEST_NAME else None
        if sort is None or sort in found:
            continue
        value = data[key]
        if isinstance(value, str | int) and not isinstance(value, bool):
            text = str(value) if not isinstance(value, int) or abs(value) < 1 << 62 else ""
            if 0 < len(text) <= _LONGEST:
                found[sort] = f"{name}={text}" if sort == "session" else text
    if not found:
        return NOTHING
    voice = found.get("voice", "")
    return Told(
        voice or found.get("author", ""),
        found.get("session", ""),
        found.get("turn", ""),
        found.get("when", ""),
        written=not voice and "author" in found,
    )


@functools.lru_cache(maxsize=4096)
def _sort(name: str) -> str | None:
    for sort, pattern in (
        ("voice", _VOICE),
        ("author", _AUTHOR),
        ("session", _SESSION),
        ("turn", _TURN),
    ):
        if pattern.fullmatch(name):
            return sort
    return "when" if _WHEN.fullmatch(name) else None


def of_json(data: str | None) -> Told:
    """Read data as the store keeps it."""
    if not data or data[0] != "{":
        return NOTHING
    return of(json.loads(data))
