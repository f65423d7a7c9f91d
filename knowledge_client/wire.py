"""What every body on the wire has in common.

Bodies are written in snake_case and read in both spellings, because the reference implementation's
clients send camelCase and its server snake_case. One base class does it for all models, so client
and service cannot disagree.
"""

from __future__ import annotations

import functools
import math
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")

_LARGEST = 2**53  # the last whole number that every reader of JSON has exactly


def _in_utc(moment: datetime) -> datetime:
    """Write a time in UTC; one without a zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from exc


Moment = Annotated[datetime, AfterValidator(_in_utc)]
"""A time, always aware and in UTC, so that any two compare."""
Whole = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
"""A whole number that every store and every reader of JSON keeps exactly."""


def _with_words(reason: str) -> str:
    if not reason.strip():
        raise ValueError("a reason is kept with the fact; say why in words")
    return reason


Reason = Annotated[
    str,
    Field(min_length=1, max_length=2000, json_schema_extra={"pattern": r"\S"}),
    AfterValidator(_with_words),
]
"""Why something is done to a fact: more than spaces."""

API_LEVEL = 1
"""What this version knows of the interface; one more with each release that adds to requests."""
API_LEVEL_HEADER = "Kais-Api-Level"
"""The header in which a service says its level, with every answer."""


@dataclass(frozen=True)
class Since:
    """Marks a field of a request that was added after the first level: `Annotated[str, Since(2)]`.

    A service refuses fields that it does not have, so clients send it to no older one.
    """

    level: int


def newest_field(body: BaseModel) -> tuple[int, str]:
    """Return the level that a body needs, and the field that needs it; only what is set counts."""
    newest = (1, "")
    if not _has_additions(type(body)):
        return newest
    for name in body.model_fields_set:
        field, value = type(body).model_fields[name], getattr(body, name)
        marks = [each.level for each in field.metadata if isinstance(each, Since)]
        found = [(level, f"{name} of {type(body).__name__}") for level in marks]
        items = value if isinstance(value, _LISTS) else (value,)
        found += [newest_field(each) for each in items if isinstance(each, BaseModel)]
        newest = max([newest, *found], key=lambda each: each[0])
    return newest


@functools.cache
def _has_additions(model: type[BaseModel]) -> bool:
    fields = model.model_fields.values()
    return any(
        any(isinstance(each, Since) for each in field.metadata)
        or any(_has_additions(nested) for nested in nested_models(field.annotation))
        for field in fields
    )


def nested_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Find the models in an annotation such as `tuple[Ref, ...]` or `str | WireScope`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from nested_models(part)


M = TypeVar("M", bound=BaseModel)


def built(model: type[M], values: dict[str, Any]) -> M:
    """Make a model of values that are known to be right: every field, by name, in their order.

    Does what `model_construct` does, which looks at every field and alias again; a recall makes
    twenty facts.
    """
    made = model.__new__(model)
    set_ = object.__setattr__
    set_(made, "__dict__", values)
    set_(made, "__pydantic_fields_set__", set(values))
    set_(made, "__pydantic_extra__", None)
    set_(made, "__pydantic_private__", None)
    return made


def snake(name: str) -> str:
    """Turn `missionResult` into `mission_result`; leave anything else as it is."""
    return _HUMP.sub(lambda match: "_" + match.group(1).lower(), name)


@functools.cache
def _names(model: type[BaseModel]) -> frozenset[str]:
    fields = model.model_fields
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


@functools.cache
def _bounds(model: type[BaseModel]) -> dict[str, int]:
    fields = model.model_fields.items()
    most = {
        name: limit
        for name, field in fields
        for limit in (getattr(each, "max_length", None) for each in field.metadata)
        if limit is not None
    }
    aliases = {field.alias: most[name] for name, field in fields if field.alias and name in most}
    return most | aliases


def _bound(model: type[BaseModel], key: str) -> float:
    """Return how many items a list under a key may have."""
    bounds = _bounds(model)
    found = bounds.get(key, bounds.get(snake(key)))
    return math.inf if found is None else found


_LISTS = (list, tuple)


class Wire(BaseModel):
    """A body on the wire: immutable, both spellings read, unknown keys ignored for newer peers."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _read_both_spellings(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for key, item in value.items():
            # Beyond its bound each item would be checked, and be a mistake of its own.
            if isinstance(item, _LISTS) and isinstance(key, str) and len(item) > _bound(cls, key):
                raise ValueError(f"{key} may have {_bound(cls, key)} items, not {len(item)}")
        known = _names(cls)
        if value.keys() <= known:
            return value
        return {
            key if key in known or not isinstance(key, str) else snake(key): item
            for key, item in value.items()
        }


class WireScope(Wire):
    """A scope in the reference's spelling; missing ids come from the caller's identity."""

    level: Literal["platform", "realm", "formation", "cell"]
    realm_id: str | None = None
    formation_id: str | None = None
    cell_id: str | None = None
