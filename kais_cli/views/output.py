"""Output formats: tables for people, JSON and YAML for programs, names for pipes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kais_cli.views import model_trees, text_layout, text_width

if TYPE_CHECKING:
    from kais_cli.ports import Body


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Listing(StrEnum):
    """The values of `-o` for lists of facts, which have more columns than fit a terminal."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def dump(value: Any, form: Format) -> str:
    """Format a tree as JSON if `form` is JSON, otherwise as YAML; keeps the order of keys.

    Models in the tree are written with names of fields in camelCase, as Kubernetes does.
    """
    tree = model_trees.to_tree(value)
    if form is Format.JSON:
        return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    import yaml  # noqa: PLC0415 (only this form needs it)

    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)
    if text_layout.is_printable(text):
        return text
    # Control characters would reach the terminal. YAML's own escapes keep the text the same for
    # parsers, which `text_layout.escape_control_characters` would not.
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=False, width=100)


def without_managed_fields(body: Body) -> Body:
    """Return an object without its managed fields."""
    metadata = {k: v for k, v in body.get("metadata", {}).items() if k != "managedFields"}
    return {**body, "metadata": metadata}


def format_names(bodies: Iterable[Body], *, kind: str) -> str:
    """Format one name per line, such as `mission.kais.io/m`, as `kubectl get -o name` does."""
    return "".join(f"{kind.lower()}.kais.io/{body['metadata']['name']}\n" for body in bodies)


class Columns:
    """Left-aligned columns with two spaces between; an empty cell is `-`.

    Rows may be formatted a page at a time: the header precedes the first page, and columns widen
    but never narrow from page to page. Cells are never cut to the width of the terminal, because
    `grep` would not find what is cut.
    """

    def __init__(self, headers: Sequence[str]) -> None:
        self._header = [list(headers)]  # empty once it is written
        self._widths = [0] * len(headers)

    def format_rows(self, rows: Sequence[Sequence[object]]) -> str:
        """Format the next rows, one line each; the first call also writes the header."""
        lines = [*self._header, *([format_cell(value) for value in row] for row in rows)]
        self._header = []
        for cells in lines:
            self._widths = [
                max(*pair)
                for pair in zip(self._widths, map(text_width.column_count, cells), strict=True)
            ]
        return "".join(
            "  ".join(
                text_width.pad(cell, width) for cell, width in zip(cells, self._widths, strict=True)
            ).rstrip()
            + "\n"
            for cells in lines
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
    """Format an age as one number with a unit, as kubectl does: `45s`, `119s`, `12m`, `5h`, `3d`.

    Minutes and hours begin at two of them, days at one. None if the age is unknown.
    """
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
    """Format a share from 0 to 1 in whole percent; None if unknown."""
    return None if share is None else f"{share:.0%}"


def format_interval(low: float, high: float) -> str:
    """Format an interval whose ends are shares from 0 to 1: `62-97%`."""
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
