"""Text for people: wrapped to a width, JSON as an outline, nothing that steers a terminal. Pure.

A width of None, as of a pipe, leaves every line whole, so that it can be searched for.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from kais_cli.views import text_width

# Control characters but tab and line feed, the marks that turn the direction of text, what some
# terminals take as a line's end, and letters that nobody sees but a model reads.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_STEP = "  "


def printable(text: str) -> str:
    """Write what would steer a terminal in JSON's escapes; facts come from anybody."""
    return _STEERING.sub(lambda found: escaped(found[0]), text)


def is_printable(text: str) -> bool:
    """Tell whether `printable` would change nothing."""
    return _STEERING.search(text) is None


def escaped(text: str) -> str:
    """Write characters in JSON's escapes."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def block(text: str, *, width: int | None, indent: str = "") -> str:
    """Lay out a text whose own line breaks stay."""
    lines = (_wrapped(line, width, indent, indent) for line in text.splitlines())
    return "".join(lines)


def outline(value: Any, *, width: int | None = None, indent: str = "") -> str:
    """Lay out a JSON tree: a key a line, an entry of a list behind a hyphen."""
    if _is_short(value):
        return _wrapped(_short(value), width, indent, indent + _STEP)
    return "".join(
        _wrapped(text, width, indent + at, indent + below) for at, below, text in _of(value)
    )


def _of(value: Any) -> Iterator[tuple[str, str, str]]:
    """Give lines: what stands before the first and the further ones, and the words."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _is_short(item):
                yield "", _STEP, f"{key}: {_short(item)}"
            else:
                yield "", _STEP, f"{key}:"
                inner = "" if isinstance(item, list) else _STEP
                yield from ((inner + at, inner + below, text) for at, below, text in _of(item))
        return
    for item in value:
        lines = [("", _STEP, _short(item))] if _is_short(item) else [*_of(item)]
        for number, (at, below, text) in enumerate(lines):
            yield (_STEP if number else "- ") + at, _STEP + below, text


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return not any(isinstance(item, dict | list) for item in value)
    return not isinstance(value, dict) or not value


def _short(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _wrapped(text: str, width: int | None, first: str, further: str) -> str:
    text = printable(text)  # before it is measured
    if width is None or not text.strip():
        return f"{first}{text}".rstrip() + "\n"
    if not text.isascii():
        return "".join(
            f"{line}\n"
            for line in text_width.wrapped(text, width=width, first=first, further=further)
        )
    lines = textwrap.wrap(
        text,
        width=width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,  # ids and addresses are copied
        break_on_hyphens=False,
    )
    return "".join(f"{line}\n" for line in lines)
