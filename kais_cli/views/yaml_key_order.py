"""Order the keys of a tree: their order has no meaning, and the API server sorts them. Pure.

A difference is shown by lines, so both sides get the same order: that of the newer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def order_keys_like(tree: Any, model: Any) -> Any:
    """Return an equal tree whose mappings have the key order of `model`.

    Keys that `model` does not have come last. Items of a list are matched by name, or by position
    if they have no name.
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
