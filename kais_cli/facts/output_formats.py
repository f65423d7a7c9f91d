"""A list of facts in the form that was asked for, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kais_cli.facts import tables
from kais_cli.views import output
from kais_cli.views.output import Format, Listing

if TYPE_CHECKING:
    from knowledge_client.models import Fact


class Writer(Protocol):
    """Makes text of pages."""

    def page(self, facts: Sequence[Fact]) -> str:
        """Write a page, which may be empty."""
        ...

    def end(self) -> str:
        """Write what stands behind the last one."""
        ...


def writer(form: Listing, table: tables.Table) -> Writer:
    """Choose a form; `table` is that for people, and `wide` has a table of its own."""
    if form is Listing.JSON:
        return _Json()
    if form is Listing.YAML:
        return _Yaml()
    if form is Listing.NAME:
        return _Names()
    return tables.in_full() if form is Listing.WIDE else table


class _Names:
    def page(self, facts: Sequence[Fact]) -> str:
        return "".join(f"{fact.id}\n" for fact in facts)

    def end(self) -> str:
        return ""


class _Json:
    """The text is what `output.dump` would make of all of them."""

    def __init__(self) -> None:
        self._begun = False

    def page(self, facts: Sequence[Fact]) -> str:
        parts = []
        for fact in facts:
            text = json.dumps(_tree(fact), indent=2, ensure_ascii=False)
            # No string of JSON has a line's end in it.
            parts.append((",\n  " if self._begun else "[\n  ") + text.replace("\n", "\n  "))
            self._begun = True
        return "".join(parts)

    def end(self) -> str:
        return "\n]\n" if self._begun else "[]\n"


class _Yaml:
    def __init__(self) -> None:
        self._begun = False

    def page(self, facts: Sequence[Fact]) -> str:
        self._begun = self._begun or bool(facts)
        return output.dump([_tree(fact) for fact in facts], Format.YAML) if facts else ""

    def end(self) -> str:
        return "" if self._begun else output.dump([], Format.YAML)


def _tree(fact: Fact) -> dict[str, Any]:
    return fact.model_dump(mode="json", by_alias=True)
