"""Output formats: tables for people, JSON and YAML for programs, names for pipes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kais_cli.views import text_layout, text_width

if TYPE_CHECKING:
    from kais_cli.ports import Body


class Format(StrEnum):
    """The forms that `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Listing(StrEnum):
    """The values of `-o` for lists with more columns than fit a terminal."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def dump(value: Any, form: Format) -> str:
    """Format a tree as JSON or YAML; keeps the order of keys."""
    if form is Format.JSON:
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    import yaml  # noqa: PLC0415 (only this form needs it)

    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    if text_layout.is_printable(text):
        return text
    # Escaped by the rules of YAML, so that parsers restore what was stored.
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=100)


def without_managed_fields(body: Body) -> Body:
    """Return an object without its managed fields."""
    metadata = {k: v for k, v in body.get("metadata", {}).items() if k != "managedFields"}
    return {**body, "metadata": metadata}


def format_names(bodies: Iterable[Body], *, kind: str) -> str:
    """Format one `kind/name` per line, as kubectl accepts it."""
    return "".join(f"{kind.lower()}.kais.io/{body['metadata']['name']}\n" for body in bodies)


class Columns:
    """Left-aligned columns with two spaces between; an absent cell is `-`.

    Rows may be added a page at a time: the header is written before the first, and columns only
    grow. Cells are never cut to the width of a terminal: a search would not find what is cut.
    """

    def __init__(self, headers: Sequence[str]) -> None:
        self._pending = [list(headers)]
        self._widths = [0] * len(headers)

    def format_rows(self, rows: Sequence[Sequence[object]]) -> str:
        """Format some rows."""
        texts = [*self._pending, *([format_cell(value) for value in row] for row in rows)]
        self._pending = []
        for text in texts:
            self._widths = [
                max(*pair)
                for pair in zip(self._widths, map(text_width.column_count, text), strict=True)
            ]
        return "".join(
            "  ".join(
                text_width.pad(text, width) for text, width in zip(row, self._widths, strict=True)
            ).rstrip()
            + "\n"
            for row in texts
        )


def format_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format a complete table of left-aligned columns."""
    return Columns(headers).format_rows(rows)


def format_cell(value: object) -> str:
    """Format a value as a table cell: one line without control characters."""
    text = "" if value is None else str(value)
    return text_layout.escape_control_characters(" ".join(text.split())) or "-"


def indent(text: str, by: str = "  ") -> str:
    """Indent every line of a text and end it with a newline."""
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def format_age(since: datetime | None, now: datetime) -> str | None:
    """Format an age like kubectl: `45s`, `12m`, `5h`, `3d`; None if unknown."""
    if since is None:
        return None
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def format_duration(duration: timedelta) -> str:
    """Format a duration: `4s`, `2m5s`."""
    minutes, seconds = divmod(max(0, int(duration.total_seconds())), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def format_percent(share: float | None) -> str | None:
    """Format a share as whole percent; None if unknown."""
    return None if share is None else f"{share:.0%}"


def format_interval(low: float, high: float) -> str:
    """Format an interval of a share: `62-97%`."""
    return f"{low * 100:.0f}-{high * 100:.0f}%"


def format_result(text: str, *, width: int | None) -> str:
    """Lay out a mission's result, indented: JSON as an outline, any other text as it is."""
    try:
        return text_layout.format_outline(json.loads(text), width=width, indent="  ")
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return text_layout.wrap_text(text, width=width, indent="  ")


def json_line(value: Any) -> str:
    """Format a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
