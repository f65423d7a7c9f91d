"""Conversation metadata in a fact's data: speaker, session, turn and time. Pure.

Data of conversations usually contains these under a few names (`speaker`, `session_id`, `dia_id`,
`date`). Values longer than a name or a date are ignored.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MAX_VALUE_LENGTH = 100
# No pattern below matches a longer key.
_MAX_KEY_LENGTH = 24
_SPEAKER_PATTERN = re.compile(
    r"(?:speaker|sender|narrator)(?:_?(?:name|id))?|from|role|who|said_by|spoken_by"
)
# The author of a written text is not a speaker in a conversation.
_AUTHOR_PATTERN = re.compile(r"author(?:_?(?:name|id))?|written_by")
_SESSION_PATTERN = re.compile(
    r"(?:session|conversation|conv|dialogu?e|thread|chat|meeting|channel|call|interview)"
    r"(?:_?(?:id|no|num|number|index|name|key))?"
)
_TURN_PATTERN = re.compile(
    r"(?:turn|message|msg|utterance|line|post|comment|dia)(?:_?(?:id|no|num|number|index|key))?"
)
_TIME_PATTERN = re.compile(
    r"(?:session_?|turn_?|message_?)?(?:date|time|timestamp|date_?time)|when|said_at|sent_at"
)


@dataclass(frozen=True)
class TurnMetadata:
    """Speaker, session, turn and time of a statement; "" where the data has none.

    `session` includes the name of its member, as in `session_id=3`. With `is_author`, `speaker` is
    the author of a text and need not take part in a conversation.
    """

    speaker: str = ""
    session: str = ""
    turn: str = ""
    time_text: str = ""
    is_author: bool = False


NO_METADATA = TurnMetadata()


def parse(data: Any) -> TurnMetadata:
    """Parse the members of data, one level deep; the first member by name counts for each field.

    Members are ordered by name because the log does not keep their original order.
    """
    if not isinstance(data, Mapping):
        return NO_METADATA
    values: dict[str, str] = {}
    for key in sorted(data):
        name = key.casefold()
        kind = _field_kind(name) if len(name) <= _MAX_KEY_LENGTH else None
        if kind is None or kind in values:
            continue
        value = data[key]
        if isinstance(value, str | int) and not isinstance(value, bool):
            text = str(value) if not isinstance(value, int) or abs(value) < 1 << 62 else ""
            if 0 < len(text) <= _MAX_VALUE_LENGTH:
                values[kind] = f"{name}={text}" if kind == "session" else text
    if not values:
        return NO_METADATA
    speaker = values.get("speaker", "")
    return TurnMetadata(
        speaker=speaker or values.get("author", ""),
        session=values.get("session", ""),
        turn=values.get("turn", ""),
        time_text=values.get("time", ""),
        is_author=not speaker and "author" in values,
    )


@functools.lru_cache(maxsize=4096)
def _field_kind(name: str) -> str | None:
    for kind, pattern in (
        ("speaker", _SPEAKER_PATTERN),
        ("author", _AUTHOR_PATTERN),
        ("session", _SESSION_PATTERN),
        ("turn", _TURN_PATTERN),
    ):
        if pattern.fullmatch(name):
            return kind
    return "time" if _TIME_PATTERN.fullmatch(name) else None


def parse_json(data: str | None) -> TurnMetadata:
    """Parse data as the store keeps it."""
    if not data or data[0] != "{":
        return NO_METADATA
    return parse(json.loads(data))
