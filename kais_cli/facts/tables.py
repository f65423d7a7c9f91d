"""Formats facts as tables for terminals, pipes and `-o wide`.

A terminal too narrow for the content column gets two lines per fact. Only `wide` and the formats
for programs show long content in full; cut content ends in an ellipsis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kais_cli.views import quantities, score_explanation, table_layout, text_layout, text_width

if TYPE_CHECKING:
    from knowledge_client.models import Fact, RecalledFact, ScopeStats

_PIPE_CONTENT_COLUMNS = 100  # columns of a fact's words in a pipe
_MIN_CONTENT_COLUMNS = 40  # columns of words that make a row worth reading; an arbitrary number
_MAX_PARAGRAPH_LINES = 8  # of a recalled fact on a terminal; more would hide the next one
_INDENT = "   "


class Table:
    """A table of facts, formatted page by page; the last column is the content.

    `columns` is the width of the terminal, None for a pipe; with `whole` the content is not cut.
    """

    def __init__(
        self,
        headers: Sequence[str],
        row: Callable[[Fact], Sequence[object]],
        *,
        columns: int | None = None,
        is_uncut: bool = False,
    ) -> None:
        self._headers = tuple(headers)
        self._row = row
        self._columns = columns
        self._is_uncut = is_uncut
        self._table = table_layout.Columns((*headers, "CONTENT"))
        self._content_columns: int | None = None

    def page(self, facts: Sequence[Fact]) -> str:
        """Format a page of facts."""
        if not facts:
            return ""
        heads = [
            tuple(table_layout.format_cell(value) for value in self._row(fact)) for fact in facts
        ]
        if self._content_columns is None:
            self._content_columns = self._available_columns(heads)
        if self._columns and self._content_columns < _MIN_CONTENT_COLUMNS:
            head_facts = zip(heads, facts, strict=True)
            return "".join(_two_line_row(head, fact, self._columns) for head, fact in head_facts)
        return self._table.format_rows(
            [(*head, self._content(fact)) for head, fact in zip(heads, facts, strict=True)]
        )

    def end(self) -> str:
        """Return the text after the last page."""
        return ""

    def _available_columns(self, heads: Sequence[tuple[str, ...]]) -> int:
        """Return the number of columns left for the content."""
        if self._columns is None:
            return _PIPE_CONTENT_COLUMNS
        column_cells = zip(self._headers, *heads, strict=True)
        return self._columns - sum(
            max(map(text_width.column_count, cells)) + 2 for cells in column_cells
        )

    def _content(self, fact: Fact) -> str:
        return (
            fact.content
            if self._is_uncut
            else truncate_content(fact.content, self._content_columns or _PIPE_CONTENT_COLUMNS)
        )


def fact_table(*, columns: int | None) -> Table:
    """Return the table of `kais knowledge list`."""
    return Table(_HEADERS, _row, columns=columns)


def wide_fact_table() -> Table:
    """Return the table with every column and the full content, for `-o wide`."""
    return Table(_WIDE, _wide_row, is_uncut=True)


def review_table(*, columns: int | None) -> Table:
    """Return the table of facts that wait for a review, with the reason."""
    return Table(("ID", "SCOPE", "WAITS", "ACTOR"), _review_row, columns=columns)


def truncate_content(content: str, columns: int) -> str:
    """Fit content into one line of at most `columns` columns; an ellipsis marks a cut."""
    return text_width.truncate(table_layout.format_cell(content), columns)


_HEADERS = ("ID", "SCOPE", "KIND", "CONFIDENCE", "SOURCE", "LIFECYCLE")
_WIDE = (
    "ID", "SCOPE", "KIND", "CONFIDENCE", "SOURCE", "ACTOR", "LIFECYCLE", "REVIEW", "FLAGS",
    "RECORDED (UTC)", "TAGS",
)  # fmt: skip


def format_recall(
    facts: Sequence[RecalledFact], *, width: int | None, question: str | None = None
) -> str:
    """Format recalled facts, best first: one line each, or on a terminal one paragraph each.

    With `question`, the explanation of each score is shown below its fact.
    """
    if width is None and question is None:
        rows = [(f.rank, f"{f.score:.2f}", f.id, f.scope, f.content) for f in facts]
        return table_layout.format_table(("RANK", "SCORE", "ID", "SCOPE", "CONTENT"), rows)
    return "".join(_paragraph(fact, width, question) for fact in facts)


def format_recall_wide(facts: Sequence[RecalledFact]) -> str:
    """Format recalled facts with every column."""
    rows = [(f.rank, f"{f.score:.4f}", *_wide_row(f), f.content) for f in facts]
    return table_layout.format_table(("RANK", "SCORE", *_WIDE, "CONTENT"), rows)


def format_scopes(scope_stats: Iterable[ScopeStats]) -> str:
    """Format the statistics of scopes."""
    rows = [
        (
            scope.path,
            scope.facts,
            scope.recalls,
            quantities.format_percent(scope.usefulness),
            format_timestamp(scope.last_write_at),
        )
        for scope in scope_stats
    ]
    return table_layout.format_table(("SCOPE", "FACTS", "RECALLS", "USEFUL", "WRITTEN (UTC)"), rows)


def format_timestamp(at: datetime | None) -> str | None:
    """Format a time in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if at else None


def _row(fact: Fact) -> tuple[object, ...]:
    confidence = f"{fact.confidence:.2f}"
    return fact.id, fact.scope, fact.kind, confidence, fact.source.type, fact.lifecycle


def _review_row(fact: Fact) -> tuple[object, ...]:
    return fact.id, fact.scope, ", ".join(fact.flags) or fact.review, fact.source.actor


def _wide_row(fact: Fact) -> tuple[object, ...]:
    status = (
        fact.source.type,
        fact.source.actor,
        fact.lifecycle,
        fact.review,
        ", ".join(fact.flags),
    )
    head = (fact.id, fact.scope, fact.kind, f"{fact.confidence:.2f}")
    return *head, *status, format_timestamp(fact.recorded_at), ", ".join(fact.tags)


def _two_line_row(head: tuple[str, ...], fact: Fact, columns: int) -> str:
    content = truncate_content(fact.content, columns - len(_INDENT))
    first, *rest = head
    return f"{first}  {'  '.join(rest)}\n{_INDENT}{content}\n"


def _paragraph(fact: RecalledFact, width: int | None, question: str | None) -> str:
    head = f"{fact.rank}  {fact.id}  {table_layout.format_cell(fact.scope)}  {fact.score:.2f}\n"
    content = table_layout.format_cell(fact.content)
    if width:
        content = text_width.truncate(content, _MAX_PARAGRAPH_LINES * (width - len(_INDENT)))
    parts = [] if question is None else score_explanation.explain_score(fact, question)
    return head + "".join(
        text_layout.wrap_text(line, width=width, indent=_INDENT) for line in [content, *parts]
    )
