"""Fields of a body and parameters of a query that a route does not have, with what was meant.

What is ignored silently is answered wrongly: a misspelt filter lists everything, and a misspelt
scope stores at home. The models themselves ignore what they do not know, because the same models
read the answers of newer services.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from knowledge_client import base_model
from knowledge_client.models import ProblemViolation

# Callers choose the names: what is shown and compared of one is bounded.
_MAX_NAME = 64
_MAX_ITEMS = 1000

NO_BODY = ProblemViolation(
    path="body", message="this route takes no body; its parameters are in the query"
)
"""What is wrong with any body that is sent to a route without one."""


def unknown_parameters(
    names: Iterable[str], known_names: frozenset[str]
) -> Iterator[ProblemViolation]:
    """Find the parameters that a route does not have, each once."""
    for name in dict.fromkeys(names):
        if name not in known_names:
            yield _violation((), name, known_names, "unknown parameter of this route")


def unknown_body_fields(
    model: type[BaseModel], value: Any, path: tuple[str, ...] = ()
) -> Iterator[ProblemViolation]:
    """Find the keys of a JSON body that its model does not have, at any depth.

    Values of free form, such as `data`, are not looked into.
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
        nested, max_items = fields[name]
        if nested and isinstance(item, list):
            # A list beyond its bound is refused anyway.
            for number, item_ in enumerate(item[:max_items]):
                yield from unknown_body_fields(nested, item_, (*path, key, str(number)))
        elif nested:
            yield from unknown_body_fields(nested, item, (*path, key))


def _violation(
    path: tuple[str, ...], name: str, known_names: Iterable[str], message: str
) -> ProblemViolation:
    excerpt = name[:_MAX_NAME]
    names = {base_model.to_snake_case(known_name) for known_name in known_names}
    closest = difflib.get_close_matches(base_model.to_snake_case(excerpt), sorted(names), n=1)
    hint = f"; did you mean {closest[0]}?" if closest else ""
    return ProblemViolation(path=".".join((*path, excerpt)), message=message + hint)


@functools.cache
def _fields(model: type[BaseModel]) -> dict[str, tuple[type[BaseModel] | None, int]]:
    """Map a model's field names and aliases to the nested model and the bound of a list of it."""
    fields: dict[str, tuple[type[BaseModel] | None, int]] = {}
    for name, field in model.model_fields.items():
        bounds = (getattr(bound, "max_length", None) for bound in field.metadata)
        max_items = next((bound for bound in bounds if bound is not None), _MAX_ITEMS)
        fields[name] = (next(base_model.nested_models(field.annotation), None), max_items)
        if field.alias:
            fields[field.alias] = fields[name]
    return fields


@functools.cache
def _flat_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the names and aliases of the fields that have no model in them."""
    return frozenset(name for name, (nested, _) in _fields(model).items() if nested is None)
