"""Compares two JSON trees: one line for each change, with its path.

Items of a list are matched by `name` if every item of both lists has one and no two are equal, so a
cell that is added in front is one change, not a change of every cell behind it. Other lists are
compared by position.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_EXCERPT_CHARACTERS = 60


def diff_trees(old: Any, new: Any, *, path: str = "") -> list[str]:
    """Return the changes from the old tree to the new one, such as `a[b].c was removed`.

    They have the order of the old tree; additions follow the other changes of their parent. `path`
    is the path of the trees themselves.
    """
    return list(_compare(path, old, new))


def excerpt(value: Any) -> str:
    """Return a value for a message: as JSON of at most 60 characters and `…`; `none` for None."""
    if value is None:
        return "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _EXCERPT_CHARACTERS else f"{text[:_EXCERPT_CHARACTERS]}…"


def _compare(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _compare_members(_members_by_key(old), _members_by_key(new), path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(old, new, path)
    elif not _equal(old, new):
        yield f"{path} changed from {excerpt(old)} to {excerpt(new)}"


def _compare_lists(old: list[Any], new: list[Any], path: str) -> Iterator[str]:
    old_names, new_names = _unique_names(old), _unique_names(new)
    if old_names is None or new_names is None:
        yield from _compare_members(_items_by_position(old), _items_by_position(new), path)
        return
    changes = list(
        _compare_members(_items_by_name(old_names, old), _items_by_name(new_names, new), path)
    )
    common = [name for name in old_names if name in new_names]
    if common != [name for name in new_names if name in old_names]:
        changes.append(f"{path} changed its order to {', '.join(new_names)}")
    yield from changes


def _compare_members(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    """Compare what two mappings or lists contain, by step in the path."""
    for step in [*old, *(step for step in new if step not in old)]:
        member_path = (path + step).removeprefix(".")
        if step not in new:
            yield f"{member_path} was removed"
        elif step not in old:
            yield f"{member_path} was added"
        else:
            yield from _compare(member_path, old[step], new[step])


def _unique_names(items: Sequence[Any]) -> list[str] | None:
    """Return the names of the items; None unless each has a unique one."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(set(texts)) == len(items) else None


def _members_by_key(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a mapping by their step in a path, such as `.key`."""
    return {f".{key}": value for key, value in tree.items()}


def _items_by_name(names: Sequence[str], items: Sequence[Any]) -> dict[str, Any]:
    """Return the items of a list by their step in a path, such as `[name]`."""
    return {f"[{name}]": item for name, item in zip(names, items, strict=True)}


def _items_by_position(items: Sequence[Any]) -> dict[str, Any]:
    """Return the items of a list by their step in a path, such as `[0]`."""
    return {f"[{i}]": value for i, value in enumerate(items)}


def _equal(old: Any, new: Any) -> bool:
    """Compare as JSON does: `1` equals `1.0`, and neither equals `true`."""
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)
