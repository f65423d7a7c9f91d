"""The order of keys, which says nothing: the API server sorts them, people do not. Pure.

A difference is read as lines, so both sides are written in one order: that of the newer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def like(tree: Any, model: Any) -> Any:
    """Give an equal tree whose mappings have their keys in the order of the model's.

    Keys that the model does not have come last. Items of a list are held against the model's item
    of their name, or of their place when they have none.
    """
    if isinstance(tree, Mapping) and isinstance(model, Mapping):
        keys = [key for key in model if key in tree] + [key for key in tree if key not in model]
        return {key: like(tree[key], model.get(key)) for key in keys}
    if isinstance(tree, list) and isinstance(model, list):
        return [like(item, _partner(item, number, model)) for number, item in enumerate(tree)]
    return tree


def _partner(item: Any, number: int, model: Sequence[Any]) -> Any:
    if isinstance(item, Mapping) and "name" in item:
        named = (each for each in model if isinstance(each, Mapping))
        found = next((each for each in named if each.get("name") == item["name"]), None)
        if found is not None:
            return found
    return model[number] if number < len(model) else None
