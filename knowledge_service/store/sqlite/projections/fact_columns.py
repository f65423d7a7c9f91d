"""The columns of the fact table, derived from `fact_fields`, and rows to insert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from knowledge_service.domain.fact_fields import NAMES, STORED_FIELDS, Encoding
from knowledge_service.domain.facts import canonical

_SOURCE = next(at for at, each in enumerate(STORED_FIELDS) if each.encoding is Encoding.SOURCE)
_JSON = tuple(at for at, each in enumerate(STORED_FIELDS) if each.encoding is Encoding.JSON)
_LISTS = tuple(at for at, each in enumerate(STORED_FIELDS) if each.encoding is Encoding.TEXTS)
_DEFAULTS = tuple(
    (at, each.default)
    for at, each in enumerate(STORED_FIELDS)
    if each.default is not None and each.encoding is Encoding.PLAIN
)


class OwnColumns(NamedTuple):
    """The columns that the store adds to a fact."""

    fact_no: int
    id: str
    scope_no: int | None
    key_hash: bytes | None
    source_type: str
    lifecycle: str
    recorded_at: int
    closed_at: int | None
    closed_reason: str | None
    closed_by: str | None
    content_hash: bytes
    changed_at: int
    changed_seq: int
    root: str | None = None


_COLUMNS = (*OwnColumns._fields, *NAMES)
_DATA = tuple(_COLUMNS.index(name) for name in ("scope_no", "fact_no", "schema", "data"))
INSERT = f"INSERT INTO fact({', '.join(_COLUMNS)}) VALUES({', '.join('?' * len(_COLUMNS))})"
"""Takes the result of `row`."""


def row(own_columns: OwnColumns, payload: Sequence[Any], source_json: str) -> tuple[Any, ...]:
    """Return the row of a fact with these payload values, which are in the order of `NAMES`."""
    columns = list(payload)
    columns[_SOURCE] = source_json
    for at in _JSON:
        if columns[at] is not None:
            columns[at] = canonical(columns[at])
    for at in _LISTS:
        columns[at] = json_list(columns[at])
    for at, default in _DEFAULTS:
        if columns[at] is None:
            columns[at] = default
    return (*own_columns, *columns)


def data_of(columns: Sequence[Any]) -> tuple[int | None, int, str | None, str | None]:
    """Return the scope, number, schema and data as JSON of a row."""
    scope_no, fact_no, schema, data = (columns[at] for at in _DATA)
    return scope_no, fact_no, schema, data


def json_list(values: Any) -> str:
    """Encode a list; most lists are empty."""
    return canonical(values) if values else "[]"
