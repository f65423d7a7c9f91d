"""The base class of all request and response bodies, and the types of their fields.

Bodies are written in snake_case and read in both spellings, because the clients of the reference
implementation send camelCase and its server snake_case. Client and service share these models.
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

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])([A-Z])")

_MAX_SAFE_INTEGER = 2**53  # from here on some JSON parsers round integers


def _to_utc(timestamp: datetime) -> datetime:
    """Convert a time to UTC; a time without a zone is UTC already."""
    aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from exc


UtcDatetime = Annotated[datetime, AfterValidator(_to_utc)]
"""An aware time in UTC, so that any two can be compared."""
SafeInt = Annotated[int, Field(ge=-_MAX_SAFE_INTEGER, le=_MAX_SAFE_INTEGER)]
"""An integer that every database and every JSON parser represents exactly."""


def _require_visible_text(reason: str) -> str:
    if not reason.strip():
        raise ValueError("must not be blank: the reason is stored with the fact")
    return reason


Reason = Annotated[
    str,
    Field(min_length=1, max_length=2000, json_schema_extra={"pattern": r"\S"}),
    AfterValidator(_require_visible_text),
]
"""Why a fact is changed; not blank."""

API_LEVEL = 1
"""The API level of this version. Each release that adds fields to requests increments it."""
API_LEVEL_HEADER = "Kais-Api-Level"
"""The response header in which a service states its API level."""
SPEAK_AS_HEADER = "Kais-Speak-As"
"""The request header by which a caller gives up the rights that its kind has beyond an agent's."""
SPEAK_AS_AGENT = "agent"


@dataclass(frozen=True)
class Since:
    """Marks a request field that was added after level 1: `Annotated[str, Since(2)]`.

    A service rejects unknown fields, so clients do not send the field to an older service.
    """

    level: int


def required_level(body: BaseModel) -> tuple[int, str]:
    """Return the API level that a body requires, and the field that requires it.

    Fields that are not set do not count.
    """
    highest = (1, "")
    if not _has_versioned_fields(type(body)):
        return highest
    for name in body.model_fields_set:
        field, value = type(body).model_fields[name], getattr(body, name)
        field_levels = [each.level for each in field.metadata if isinstance(each, Since)]
        candidates = [(level, f"{name} of {type(body).__name__}") for level in field_levels]
        items = value if isinstance(value, _SEQUENCE_TYPES) else (value,)
        candidates += [required_level(each) for each in items if isinstance(each, BaseModel)]
        highest = max([highest, *candidates], key=lambda each: each[0])
    return highest


@functools.cache
def _has_versioned_fields(model: type[BaseModel]) -> bool:
    fields = model.model_fields.values()
    return any(
        any(isinstance(each, Since) for each in field.metadata)
        or any(_has_versioned_fields(nested) for nested in nested_models(field.annotation))
        for field in fields
    )


def nested_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation such as `tuple[Ref, ...]` or `str | WireScope`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from nested_models(part)


M = TypeVar("M", bound=BaseModel)


def construct_unchecked(model: type[M], values: dict[str, Any]) -> M:
    """Create a model from valid values without validation: all fields, by name, in their order.

    Faster than `model_construct`, which looks up every field and alias; a recall returns twenty
    facts.
    """
    instance = model.__new__(model)
    set_attribute = object.__setattr__
    set_attribute(instance, "__dict__", values)
    set_attribute(instance, "__pydantic_fields_set__", _all_fields(model).copy())
    set_attribute(instance, "__pydantic_extra__", None)
    set_attribute(instance, "__pydantic_private__", None)
    return instance


def to_snake_case(name: str) -> str:
    """Convert `missionResult` to `mission_result`; return any other name unchanged."""
    return _CAMEL_CASE_BOUNDARY.sub(lambda match: "_" + match.group(1).lower(), name)


@functools.cache
def _all_fields(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


@functools.cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    fields = model.model_fields
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


@functools.cache
def _max_items_by_key(model: type[BaseModel]) -> dict[str, int]:
    fields = model.model_fields.items()
    bounds = {
        name: limit
        for name, field in fields
        for limit in (getattr(each, "max_length", None) for each in field.metadata)
        if limit is not None
    }
    aliases = {
        field.alias: bounds[name] for name, field in fields if field.alias and name in bounds
    }
    return bounds | aliases


def _max_items(model: type[BaseModel], key: str) -> float:
    """Return the maximum number of items of the list under a key."""
    bounds = _max_items_by_key(model)
    max_items = bounds.get(key, bounds.get(to_snake_case(key)))
    return math.inf if max_items is None else max_items


_SEQUENCE_TYPES = (list, tuple)


class WireModel(BaseModel):
    """A request or response body: immutable, read in both spellings.

    Unknown keys are ignored, so that newer peers can add fields.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _read_both_spellings(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for key, item in value.items():
            # Otherwise each item of a huge list would be validated and reported on its own.
            if (
                isinstance(item, _SEQUENCE_TYPES)
                and isinstance(key, str)
                and len(item) > _max_items(cls, key)
            ):
                raise ValueError(
                    f"{key} may have at most {_max_items(cls, key)} items, got {len(item)}"
                )
        field_names = _field_names(cls)
        if value.keys() <= field_names:
            return value
        return {
            key if key in field_names or not isinstance(key, str) else to_snake_case(key): item
            for key, item in value.items()
        }


class WireScope(WireModel):
    """A scope as the reference implementation writes it; the caller's home fills in missing ids."""

    level: Literal["platform", "realm", "formation", "cell"]
    realm_id: str | None = None
    formation_id: str | None = None
    cell_id: str | None = None
