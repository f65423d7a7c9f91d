"""The payload of a recorded fact, derived from the fields in `fact_fields`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import msgspec

from knowledge_client.models import Source
from knowledge_service.domain.fact_fields import NAMES, STORED_FIELDS, Encoding
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import times

_values_of = operator.attrgetter(*NAMES)
_SOURCE = next(at for at, each in enumerate(STORED_FIELDS) if each.encoding is Encoding.SOURCE)
_TIMES = tuple(at for at, each in enumerate(STORED_FIELDS) if each.encoding is Encoding.TIME)
_DEFAULTS = tuple(
    (at, each.default) for at, each in enumerate(STORED_FIELDS) if each.default is not None
)
# Positional and untyped: the values are validated already, and defaults are omitted.
_Line: Any = msgspec.defstruct(
    "_Line", [(name, Any, None) for name in NAMES], omit_defaults=True, gc=False
)
_JSON_ENCODER = msgspec.json.Encoder()


def payload_values(new: NewFact, source: Any) -> list[Any]:
    """Return a fact's payload values in the order of `NAMES`; None stands for an omitted value.

    `source` is the fact's source, encoded by `encode_source`, in the form that the caller needs.
    """
    values = list(_values_of(new))
    values[_SOURCE] = source
    for at in _TIMES:
        if values[at] is not None:
            values[at] = times.to_us(values[at])
    for at, default in _DEFAULTS:
        if values[at] == default:
            values[at] = None
    return values


def encode_source(source: Source) -> dict[str, Any]:
    """Return the payload form of a source."""
    return source.model_dump(mode="json", exclude_none=True)


def fields(new: NewFact, fact_id: str) -> dict[str, Any]:
    """Return the payload of a recorded fact without its number."""
    values = zip(NAMES, payload_values(new, encode_source(new.source)), strict=True)
    return {"fact": fact_id, **{name: value for name, value in values if value is not None}}


def encode_without_ids(facts: Sequence[NewFact]) -> list[bytes]:
    """Encode the `fields` of each fact, without its id, as JSON at half the cost."""
    sources: dict[int, msgspec.Raw] = {}  # facts of one call mostly share the object
    lines = []
    for new in facts:
        source = sources.get(id(new.source))
        if source is None:
            encoded = msgspec.json.encode(encode_source(new.source))
            source = sources[id(new.source)] = msgspec.Raw(encoded)
        lines.append(_Line(*payload_values(new, source)))
    return _JSON_ENCODER.encode_lines(lines).split(b"\n")[:-1]


def with_ids(lines: Sequence[bytes], fact_ids: Sequence[str], first: int) -> list[bytes]:
    """Prefix the lines of `encode_without_ids` with ids and with numbers from `first` on."""
    numbered = enumerate(zip(lines, fact_ids, strict=True), first)
    return [
        b'{"no":%d,"fact":"%b",%b' % (fact_no, fact_id.encode(), line[1:])
        for fact_no, (line, fact_id) in numbered
    ]
