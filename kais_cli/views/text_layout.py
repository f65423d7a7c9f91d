"""Lay out text: wrapping, outlines of JSON, and escaping of terminal control characters. Pure.

A width of None, used for pipes, keeps every line whole, so that it can be searched.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from kais_cli.views import text_width

# Control characters except tab and line feed, marks that change the direction of text, characters
# that some terminals treat as line ends, and characters that are invisible to people but not to
# models.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_INDENT = "  "


def escape_control_characters(text: str) -> str:
    """Escape characters that control a terminal, as in JSON; facts can come from anyone."""
    return _CONTROL_CHARACTERS.sub(lambda match: json_escape(match[0]), text)


def is_printable(text: str) -> bool:
    """Return whether `escape_control_characters` would change nothing."""
    return _CONTROL_CHARACTERS.search(text) is None


def json_escape(text: str) -> str:
    """Escape characters as in JSON."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def wrap_text(text: str, *, width: int | None, indent: str = "") -> str:
    """Wrap a text; keeps its line breaks."""
    lines = (_wrap_line(line, width, indent, indent) for line in text.splitlines())
    return "".join(lines)


def format_outline(value: Any, *, width: int | None = None, indent: str = "") -> str:
    """Format a JSON tree as an outline: one line per key, and hyphens before list items."""
    if _fits_one_line(value):
        return _wrap_line(_inline(value), width, indent, indent + _INDENT)
    return "".join(
        _wrap_line(text, width, indent + first_prefix, indent + further_prefix)
        for first_prefix, further_prefix, text in _outline_lines(value)
    )


def _outline_lines(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield lines as the prefix of the first line, the prefix of further lines, and the text."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _fits_one_line(item):
                yield "", _INDENT, f"{key}: {_inline(item)}"
            else:
                yield "", _INDENT, f"{key}:"
                inner = "" if isinstance(item, list) else _INDENT
                yield from (
                    (inner + first_prefix, inner + further_prefix, text)
                    for first_prefix, further_prefix, text in _outline_lines(item)
                )
        return
    for item in value:
        lines = [("", _INDENT, _inline(item))] if _fits_one_line(item) else [*_outline_lines(item)]
        for number, (first_prefix, further_prefix, text) in enumerate(lines):
            yield (_INDENT if number else "- ") + first_prefix, _INDENT + further_prefix, text


def _fits_one_line(value: Any) -> bool:
    if isinstance(value, list):
        return not any(isinstance(item, dict | list) for item in value)
    return not isinstance(value, dict) or not value


def _inline(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    if isinstance(value, list):
        return ", ".join(_inline(item) for item in value)
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _wrap_line(text: str, width: int | None, first: str, further: str) -> str:
    text = escape_control_characters(text)  # before it is measured
    if width is None or not text.strip():
        return f"{first}{text}".rstrip() + "\n"
    if not text.isascii():
        return "".join(
            f"{line}\n" for line in text_width.wrap(text, width=width, first=first, further=further)
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


def indent(text: str, by: str = "  ") -> str:
    """Indent every line of a text and end it with a newline."""
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def format_result(text: str, *, width: int | None) -> str:
    """Lay out a mission's result, indented: JSON as an outline, any other text as it is."""
    try:
        return format_outline(json.loads(text), width=width, indent="  ")
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return wrap_text(text, width=width, indent="  ")
