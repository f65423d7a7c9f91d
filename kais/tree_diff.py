"""Compares two JSON trees: one line for each change, with its path.

Items of a list are matched by their `name` where every item has one, so that a cell added in front
is one change, not a change of every cell behind it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_EXCERPT_CHARACTERS = 60


def diff_trees(old: Any, new: Any, *, path: str = "") -> list[str]:
    """Return the changes from the old tree to the new one, in the order of the old one.

    `path` is the prefix of every path.
    """
    return list(_differences(path, old, new))


def excerpt(value: Any) -> str:
    """Return a value for a message: as JSON, shortened if necessary; `none` for a missing one."""
    if value is None:
        return "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _EXCERPT_CHARACTERS else f"{text[:_EXCERPT_CHARACTERS]}…"


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _members(_keyed(old), _keyed(new), path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _lists(old, new, path)
    elif not _equal(old, new):
        yield f"{path} changed from {excerpt(old)} to {excerpt(new)}"


def _lists(old: list[Any], new: list[Any], path: str) -> Iterator[str]:
    old_names, new_names = _names(old), _names(new)
    if old_names is None or new_names is None:
        yield from _members(_numbered(old), _numbered(new), path)
        return
    changes = list(_members(_named(old_names, old), _named(new_names, new), path))
    common = [name for name in old_names if name in new_names]
    if common != [name for name in new_names if name in old_names]:
        changes.append(f"{path} changed its order to {', '.join(new_names)}")
    yield from changes


def _members(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for step in [*old, *(step for step in new if step not in old)]:
        member_path = (path + step).removeprefix(".")
        if step not in new:
            yield f"{member_path} was removed"
        elif step not in old:
            yield f"{member_path} was added"
        else:
            yield from _differences(member_path, old[step], new[step])


def _names(items: Sequence[Any]) -> list[str] | None:
    """Return the names of the items; None unless each has a unique one."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(set(texts)) == len(items) else None


def _keyed(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {f".{key}": value for key, value in tree.items()}


def _named(names: Sequence[str], items: Sequence[Any]) -> dict[str, Any]:
    return {f"[{name}]": item for name, item in zip(names, items, strict=True)}


def _numbered(items: Sequence[Any]) -> dict[str, Any]:
    return {f"[{i}]": value for i, value in enumerate(items)}


def _equal(old: Any, new: Any) -> bool:
    """Compare as JSON does: `1` is `1.0`, and neither is `true`."""
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)
