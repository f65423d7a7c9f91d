"""Merge rules of the fake API server: merge patch, and apply by one owner."""

from __future__ import annotations

from typing import Any

from tests.fakes.json_copy import json_copy


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: None removes, maps merge, anything else replaces."""
    if not isinstance(patch, dict):
        return json_copy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def apply_owned(live: Any, applied: Any, previous: Any) -> Any:
    """Set what is applied, drop what was applied before and no longer is; lists replace whole."""
    if not isinstance(applied, dict) or not isinstance(live, dict):
        return json_copy(applied)
    owned = previous if isinstance(previous, dict) else {}
    merged = dict(live)
    for key in owned.keys() - applied.keys():
        remainder = _without(merged.get(key), owned[key])
        if remainder is None:
            merged.pop(key, None)
        else:
            merged[key] = remainder
    for key, value in applied.items():
        merged[key] = apply_owned(merged.get(key), value, owned.get(key))
    return merged


def _without(live: Any, owned: Any) -> Any:
    if not isinstance(live, dict) or not isinstance(owned, dict):
        return None
    stored_record = {
        key: _without(value, owned[key]) if key in owned else value for key, value in live.items()
    }
    stored_record = {key: value for key, value in stored_record.items() if value is not None}
    return stored_record or None
