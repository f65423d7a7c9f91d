"""Unknown body fields and query parameters, each with the name that was probably meant.

Ignoring them would give wrong results: a misspelt filter lists everything, and a misspelt scope
stores in the home scope. The models ignore unknown fields, because clients use the same models to
read responses of newer services.
"""

from __future__ import annotations

import difflib
import functools
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from knowledge_client import base_model
from knowledge_client.models import ProblemViolation

# Callers choose the names, so only a bounded part of each is compared and shown.
_MAX_NAME = 64
_MAX_ITEMS = 1000

NO_BODY = ProblemViolation(
    path="body", message="this route takes no body; its parameters are in the query"
)
"""The violation of any body that is sent to a route without one."""


def unknown_parameters(
    names: Iterable[str], known_names: frozenset[str]
) -> Iterator[ProblemViolation]:
    """Yield a violation for each unknown parameter, once."""
    for name in dict.fromkeys(names):
        if name not in known_names:
            yield _violation((), name, known_names, "unknown parameter of this route")


def unknown_body_fields(
    model: type[BaseModel], value: Any, path: tuple[str, ...] = ()
) -> Iterator[ProblemViolation]:
    """Yield a violation for each unknown key of a JSON body, at any depth.

    Free-form values, such as `data`, are not checked.
    """
    if not isinstance(value, dict):
        return
    fields, flat_fields = _fields(model), _flat_fields(model)
    for key, item in value.items():
        if key in flat_fields:
            continue
        name = key if key in fields else base_model.to_snake_case(key)
        if name not in fields:
            yield _violation(path, key, fields, f"no field of {model.__name__}")
            continue
        models, max_items = fields[name]
        # Validation rejects a list beyond its bound anyway.
        items = item[:max_items] if isinstance(item, list) else [item]
        for number, nested_item in enumerate(items):
            nested = _model_of(models, nested_item)
            index = (str(number),) if isinstance(item, list) else ()
            if nested:
                yield from unknown_body_fields(nested, nested_item, (*path, key, *index))


def _model_of(models: tuple[type[BaseModel], ...], value: Any) -> type[BaseModel] | None:
    """Return the model of a value; of several models, the one whose literal field matches.

    None if no model matches; validation rejects such a value.
    """
    if len(models) <= 1:
        return models[0] if models else None
    tags = value.items() if isinstance(value, dict) else ()
    return next((model for model in models if _tags(model) & {*map(str, tags)}), None)


@functools.cache
def _tags(model: type[BaseModel]) -> frozenset[str]:
    """Return the pairs of a literal field and its only value, as texts."""
    literals = {
        name: typing.get_args(field.annotation)
        for name, field in model.model_fields.items()
        if typing.get_origin(field.annotation) is typing.Literal
    }
    return frozenset(str((name, args[0])) for name, args in literals.items() if len(args) == 1)


def _violation(
    path: tuple[str, ...], name: str, known_names: Iterable[str], message: str
) -> ProblemViolation:
    excerpt = name[:_MAX_NAME]
    names = {base_model.to_snake_case(known_name) for known_name in known_names}
    closest = difflib.get_close_matches(base_model.to_snake_case(excerpt), sorted(names), n=1)
    hint = f"; did you mean {closest[0]}?" if closest else ""
    return ProblemViolation(path=".".join((*path, excerpt)), message=message + hint)


@functools.cache
def _fields(model: type[BaseModel]) -> dict[str, tuple[tuple[type[BaseModel], ...], int]]:
    """Map a model's field names and aliases to their nested models and the maximum of a list."""
    fields: dict[str, tuple[tuple[type[BaseModel], ...], int]] = {}
    for name, field in model.model_fields.items():
        bounds = (getattr(bound, "max_length", None) for bound in field.metadata)
        max_items = next((bound for bound in bounds if bound is not None), _MAX_ITEMS)
        fields[name] = (tuple(base_model.nested_models(field.annotation)), max_items)
        if field.alias:
            fields[field.alias] = fields[name]
    return fields


@functools.cache
def _flat_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the names and aliases of the fields that have no model in them."""
    return frozenset(name for name, (models, _) in _fields(model).items() if not models)
