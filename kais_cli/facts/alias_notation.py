"""How an alias is written on the command line, so that what a list prints can be typed back. Pure.

As in the service's references, `~1` stands for a slash and `~0` for a tilde. In addition, `~{HEX}`
stands for any character, because some, such as a line break, would not survive on a line or a
terminal.
"""

from __future__ import annotations

import re
from typing import NamedTuple

HELP = (
    "alias:<namespace>:<value>; ~1 stands for a slash, ~0 for a tilde, control characters stand"
    " as a list prints them."
)
_FORM = re.compile(r"alias:([a-z][a-z0-9-]{0,62}):(.+)", re.DOTALL)
_ESCAPE = re.compile(r"~(?:([01])|\{([0-9a-f]{1,6})\})")
_MAX_VALUE = 512
_CHARACTERS = {"0": "~", "1": "/"}
_SURROGATES = range(0xD800, 0xE000)
_MAX_CODE_POINT = 0x10FFFF


class WrittenAlias(NamedTuple):
    """A namespace and a value in it."""

    namespace: str
    value: str


def parse(text: str) -> WrittenAlias | None:
    """Parse an alias; None if it is malformed."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    value = _ESCAPE.sub(_character, match[2])
    return WrittenAlias(match[1], value) if len(value) <= _MAX_VALUE else None


def format_alias(alias: WrittenAlias) -> str:
    """Format an alias as one line of printable characters that `parse` reads."""
    inner = alias.value.strip(" ")
    start = alias.value.find(inner)
    parts = (
        _escape(character, at_edge=not start <= index < start + len(inner))
        for index, character in enumerate(alias.value)
    )
    return f"alias:{alias.namespace}:{''.join(parts)}"


def to_reference(alias: WrittenAlias) -> str:
    """Return the reference that the service takes instead of an id."""
    value = alias.value.replace("~", "~0").replace("/", "~1")
    return f"alias:{alias.namespace}:{value}"


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _CHARACTERS[match[1]]
    code_point = int(match[2], 16)
    is_character = code_point <= _MAX_CODE_POINT and code_point not in _SURROGATES
    return chr(code_point) if is_character else match[0]


def _escape(character: str, *, at_edge: bool) -> str:
    if character in "~/":
        return "~0" if character == "~" else "~1"
    return f"~{{{ord(character):x}}}" if at_edge or not character.isprintable() else character
