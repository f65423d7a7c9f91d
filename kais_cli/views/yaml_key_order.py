"""The order of keys, which says nothing: the API server sorts them, people do not. Pure.

A difference is read as lines, so both sides are written in one order: that of the newer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def order_keys_like(tree: Any, model: Any) -> Any:
    """Return an equal tree whose mappings have their keys in the order of the model's.

    Keys that the model does not have come last. Items of a list are held against the model's item
    of their name, or of their place when they have none.
    """
    if isinstance(tree, Mapping) and isinstance(model, Mapping):
        keys = [key for key in model if key in tree] + [key for key in tree if key not in model]
        return {key: order_keys_like(tree[key], model.get(key)) for key in keys}
    if isinstance(tree, list) and isinstance(model, list):
        return [
            order_keys_like(item, _matching_item(item, number, model))
            for number, item in enumerate(tree)
        ]
    return tree


def _matching_item(item: Any, number: int, model: Sequence[Any]) -> Any:
    if isinstance(item, Mapping) and "name" in item:
        mappings = (candidate for candidate in model if isinstance(candidate, Mapping))
        match = next(
            (candidate for candidate in mappings if candidate.get("name") == item["name"]), None
        )
        if match is not None:
            return match
    return model[number] if number < len(model) else None
