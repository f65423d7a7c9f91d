"""The fields of a fact that its author sets: one list, from which all others are derived. Pure.

Event payloads, columns of the fact table, rows, history and copies of a fact take names, order and
encoding from `FactFields`. To add a field, declare it here and in the wire models, add a migration,
and show it where people read facts.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from kais import facts
from knowledge_client.models import Fact, FactIn, Source
from knowledge_service.domain import redaction

Mask = Callable[[Any], Any]


class Encoding(Enum):
    """The encoding of a field's values in the event log and in a table."""

    PLAIN = "plain"
    """A text or a number, unchanged."""
    TIME = "time"
    """A time, as microseconds since 1970."""
    JSON = "json"
    """Any JSON value; a table keeps its canonical text."""
    TEXTS = "texts"
    """A list of texts; a table keeps it as JSON."""
    SOURCE = "source"
    """A `Source`, as JSON without omitted members."""


def _stored(
    encoding: Encoding = Encoding.PLAIN, *, mask: Mask | None = None, is_changeable: bool = False
) -> Mapping[str, Any]:
    """Return the metadata of a field.

    `mask` removes secrets; a masked field is also checked for prompt injection. An event may set a
    changeable field of a stored fact; each change makes a version.
    """
    return {"stored": (encoding, mask, is_changeable)}


def _mask_text(text: str | None) -> str | None:
    return redaction.mask(text) if text else None


def _mask_name(text: str | None) -> str | None:
    return redaction.mask_known_formats(text) if text else None


def _mask_data(data: Any) -> Any:
    return None if data is None else redaction.mask_tree(data)


def mask_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Mask secrets in tags and merge equal tags."""
    return tuple(facts.merge_tags((), map(redaction.mask, tags))) if tags else ()


_CHANGEABLE_TIME = _stored(Encoding.TIME, is_changeable=True)


@dataclass(frozen=True, kw_only=True)
class FactFields:
    """The fields that an author sets, in the order of an event's payload.

    A payload omits a value that is its field's default.
    """

    kind: str = field(metadata=_stored())
    title: str | None = field(default=None, metadata=_stored(mask=_mask_text))
    content: str = field(metadata=_stored(mask=_mask_text))
    data: Any = field(default=None, metadata=_stored(Encoding.JSON, mask=_mask_data))
    schema: str | None = field(default=None, metadata=_stored(mask=_mask_name))
    about: str | None = field(default=None, metadata=_stored(mask=_mask_name))
    position: int | None = field(default=None, metadata=_stored())
    subject: str | None = field(default=None, metadata=_stored(mask=_mask_text))
    predicate: str | None = field(default=None, metadata=_stored(mask=_mask_text))
    tags: tuple[str, ...] = field(
        metadata=_stored(Encoding.TEXTS, mask=mask_tags, is_changeable=True)
    )
    confidence: float = field(metadata=_stored(is_changeable=True))
    source: Source = field(metadata=_stored(Encoding.SOURCE))
    expires_at: datetime | None = field(default=None, metadata=_CHANGEABLE_TIME)
    valid_from: datetime | None = field(default=None, metadata=_CHANGEABLE_TIME)
    valid_until: datetime | None = field(default=None, metadata=_CHANGEABLE_TIME)
    flags: tuple[str, ...] = field(default=(), metadata=_stored(Encoding.TEXTS, is_changeable=True))
    review: Literal["none", "draft"] = field(default="none", metadata=_stored(is_changeable=True))


@dataclass(frozen=True)
class StoredField:
    """One field of `FactFields`, as stores read the declaration."""

    name: str
    """The name in payloads and tables."""
    attribute: str
    """The name in the wire models."""
    encoding: Encoding
    default: Any
    """The value that a payload omits; None when there is no default."""
    mask: Mask | None
    is_changeable: bool


def _stored_field(declared: dataclasses.Field[Any]) -> StoredField:
    encoding, mask, is_changeable = declared.metadata["stored"]
    default = None if declared.default is dataclasses.MISSING else declared.default
    name = declared.name
    attribute = name if name in Fact.model_fields else f"{name}_"
    return StoredField(name, attribute, encoding, default, mask, is_changeable)


STORED_FIELDS = tuple(map(_stored_field, dataclasses.fields(FactFields)))
NAMES = tuple(each.name for each in STORED_FIELDS)
CHANGEABLE = tuple(each.name for each in STORED_FIELDS if each.is_changeable)
TIMES = frozenset(each.name for each in STORED_FIELDS if each.encoding is Encoding.TIME)
LISTS = frozenset(each.name for each in STORED_FIELDS if each.encoding is Encoding.TEXTS)


def stated_values(model: Fact | FactIn) -> dict[str, Any]:
    """Return the fields of a wire model by their stored names, as far as the model has them."""
    names, values_of = _getter(type(model))
    return dict(zip(names, values_of(model.__dict__), strict=False))


@functools.cache
def _getter(model: type[Fact | FactIn]) -> tuple[tuple[str, ...], Callable[[Any], Any]]:
    present = [
        stored_field
        for stored_field in STORED_FIELDS
        if stored_field.attribute in model.model_fields
    ]
    names = tuple(stored_field.name for stored_field in present)
    return names, operator.itemgetter(*(stored_field.attribute for stored_field in present))
