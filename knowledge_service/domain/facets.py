"""Facets: members of a fact's `data` that lists and recalls filter by. Pure.

Names of members depend on the schema of the data, so a facet is used together with a schema. Its
name is the path of a member (`applicability.projects`), and its value is compared as tags are: case
and white space do not matter. In a list, one equal element suffices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kais import facts


class Facet(NamedTuple):
    """One condition on the data of a fact: a value, in the form for comparisons."""

    name: str
    value: str


def parse(text: str) -> Facet:
    """Parse `NAME=VALUE`.

    Raises:
        ValueError: the text has no name or no value.
    """
    name, _, value = text.partition("=")
    name, value = name.strip(), facts.normalize_tag(value)
    if not value or not all(name.split(".")):
        raise ValueError(f"{text!r} is not NAME=VALUE, such as applicability.projects=shop")
    return Facet(name, value)


def has_facet(data: Any, facet: Facet) -> bool:
    """Return whether a member of the data has the value of the facet."""
    return facet.value in values_of(data, facet.name)


def values_of(data: Any, name: str) -> frozenset[str]:
    """Return the values of the members with this path; objects and null are no values."""
    level: Iterable[Any] = (data,)
    for member in name.split("."):
        level = [
            item[member] for item in _elements(level) if isinstance(item, dict) and member in item
        ]
    texts = (_text(item) for item in _elements(level))
    return frozenset(text for text in texts if text)


def facets_of(data: Any) -> Iterator[Facet]:
    """Yield every facet that `has_facet` finds in the data, some of them repeatedly."""
    remaining: list[tuple[str, Any]] = [("", data)]
    while remaining:
        path, value = remaining.pop()
        if isinstance(value, dict):
            prefix = f"{path}." if path else ""
            remaining += [(prefix + member, item) for member, item in value.items()]
        elif isinstance(value, list | tuple):
            remaining += [(path, item) for item in value]
        elif path and (text := _text(value)):
            yield Facet(path, text)


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values, and instead of each list its elements, at any depth."""
    remaining = list(values)
    while remaining:
        value = remaining.pop()
        if isinstance(value, list | tuple):
            remaining += value
        else:
            yield value


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return facts.normalize_tag(value)
    return json.dumps(value) if isinstance(value, bool | int | float) else None
