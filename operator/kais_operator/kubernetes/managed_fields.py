"""Migrates the managed fields of children from Update to server-side apply.

A child is first written by a create, because only a create detects that the name is taken. The API
server records our fields as written by an Update, and a later apply would not remove fields that
are no longer declared, such as a cell that left its formation. The entry is therefore renamed
before the first apply, as kubectl does.

The spec of a child of our own kinds is declared by the template alone: fields that others added to
it are migrated too, so that the apply removes them. For what others add to other kinds, see
`controllers.cell.decide.workload_drift`.
"""

from __future__ import annotations

import copy
from typing import Any

from kais import labels
from kais.resources.base import API_GROUP
from kais_operator.planning.plan import Body

_SPEC = "f:spec"


def migration_patch(live: Body) -> Body | None:
    """Return the merge patch that turns updated fields into applied ones; None without any.

    It has the resourceVersion, because it replaces the whole list of managed fields.
    """
    metadata = live["metadata"]
    entries: list[Body] = metadata.get("managedFields") or []
    created = [entry for entry in entries if _is_our_update(entry)]
    is_ours_alone = str(live.get("apiVersion", "")).startswith(f"{API_GROUP}/")
    foreign = [e for e in entries if is_ours_alone and _is_foreign_spec(e)]
    if not created and not foreign:
        return None
    applied = [entry for entry in entries if _is_our_apply(entry)]
    fields: Body = {}
    for entry in [*created, *applied]:
        fields = _union(fields, entry.get("fieldsV1") or {})
    for entry in foreign:
        fields = _union(fields, {_SPEC: entry["fieldsV1"][_SPEC]})
    first = [*created, *applied, *foreign][0]
    joined = {
        **copy.deepcopy(first),
        "manager": labels.MANAGER_CHILDREN,
        "operation": "Apply",
        "fieldsV1": fields,
    }
    remaining = [
        _without_spec(entry) if entry in foreign else entry
        for entry in entries
        if entry not in created and entry not in applied
    ]
    remaining = [entry for entry in remaining if entry.get("fieldsV1")]
    return {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "managedFields": [joined, *remaining],
        }
    }


def _is_foreign_spec(entry: Body) -> bool:
    is_main = not entry.get("subresource")
    return is_main and not _is_ours(entry) and _SPEC in (entry.get("fieldsV1") or {})


def _without_spec(entry: Body) -> Body:
    fields = {key: value for key, value in entry["fieldsV1"].items() if key != _SPEC}
    return {**entry, "fieldsV1": fields}


def _is_our_update(entry: Body) -> bool:
    return _is_ours(entry) and entry.get("operation") == "Update"


def _is_our_apply(entry: Body) -> bool:
    return _is_ours(entry) and entry.get("operation") == "Apply"


def _is_ours(entry: Body) -> bool:
    return entry.get("manager") == labels.MANAGER_CHILDREN and not entry.get("subresource")


def _union(first: Body, second: Body) -> Body:
    """Merge two sets of field paths, which are trees of dicts."""
    joined: dict[str, Any] = dict(first)
    for key, value in second.items():
        joined[key] = _union(joined[key], value) if key in joined else value
    return joined
