"""Format tables: left-aligned columns, as wide on a terminal as their widest cells."""

from __future__ import annotations

from collections.abc import Sequence

from kais_cli.views import text_layout, text_width


class Columns:
    """Left-aligned columns with two spaces between; an empty cell is `-`.

    Rows may be formatted a page at a time: the header precedes the first page, and columns widen
    but never narrow from page to page. Cells are never cut to the width of the terminal, because
    `grep` would not find what is cut.
    """

    def __init__(self, headers: Sequence[str], *, has_header: bool = True) -> None:
        self._header = [list(headers)] if has_header else []  # empty once it is written
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
