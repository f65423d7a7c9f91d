"""Converts models of the knowledge service into trees for `-o json` and `-o yaml`.

The service writes snake_case. The command prints camelCase in every format for programs, because
it prints objects of Kubernetes as well. Only names of fields are converted: the keys of users'
data, of parameters and of counters stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def to_camel_case(name: str) -> str:
    """Convert a name in snake_case to camelCase; return any other name unchanged."""
    return _UNDERSCORE.sub(lambda match: match.group(1).upper(), name)


def to_tree(value: Any) -> Any:
    """Convert a model, or lists and mappings with models in them, into a tree for JSON."""
    if hasattr(type(value), "model_fields"):
        return _convert(value, value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {key: to_tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_tree(item) for item in value]
    return value


def _convert(value: Any, dumped: Any) -> Any:
    """Return what pydantic dumped of a value, with the names of fields in camelCase."""
    fields = getattr(type(value), "model_fields", None)
    if fields is not None:
        return {
            to_camel_case(fields[name].alias or name): _convert(getattr(value, name), item)
            for name, item in dumped.items()
        }
    if isinstance(value, Mapping):
        pairs = zip(value.values(), dumped.items(), strict=True)
        return {key: _convert(item, dumped_item) for item, (key, dumped_item) in pairs}
    if isinstance(value, (list, tuple)):
        return [_convert(*pair) for pair in zip(value, dumped, strict=True)]
    return dumped
