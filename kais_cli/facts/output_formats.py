"""Format lists of facts page by page, as table, JSON, YAML or names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kais_cli.facts import tables
from kais_cli.views import output
from kais_cli.views.output import Format, Listing

if TYPE_CHECKING:
    from knowledge_client.models import Fact


class Writer(Protocol):
    """Formats pages of facts."""

    def page(self, facts: Sequence[Fact]) -> str:
        """Format a page, which may be empty."""
        ...

    def end(self) -> str:
        """Return the text after the last page."""
        ...


def writer(form: Listing, table: tables.Table) -> Writer:
    """Return the writer of a format; `wide` ignores `table` and uses its own."""
    if form is Listing.JSON:
        return _Json()
    if form is Listing.YAML:
        return _Yaml()
    if form is Listing.NAME:
        return _Names()
    return tables.wide_fact_table() if form is Listing.WIDE else table


class _Names:
    def page(self, facts: Sequence[Fact]) -> str:
        return "".join(f"{fact.id}\n" for fact in facts)

    def end(self) -> str:
        return ""


class _Json:
    """Writes page by page the text that `output.dump` returns for all facts."""

    def __init__(self) -> None:
        self._has_items = False

    def page(self, facts: Sequence[Fact]) -> str:
        parts = []
        for fact in facts:
            text = output.dump(fact, Format.JSON).removesuffix("\n")
            # JSON strings contain no line breaks.
            parts.append((",\n  " if self._has_items else "[\n  ") + text.replace("\n", "\n  "))
            self._has_items = True
        return "".join(parts)

    def end(self) -> str:
        return "\n]\n" if self._has_items else "[]\n"


class _Yaml:
    def __init__(self) -> None:
        self._has_items = False

    def page(self, facts: Sequence[Fact]) -> str:
        self._has_items = self._has_items or bool(facts)
        return output.dump(facts, Format.YAML) if facts else ""

    def end(self) -> str:
        return "" if self._has_items else output.dump([], Format.YAML)
