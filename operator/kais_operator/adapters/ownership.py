"""Hands the fields of a create over to server-side apply.

The first write of a child is a create, for only a create can tell that the name is free. The API
server then notes our fields as written by an Update, and a later apply would never remove what we
no longer want, such as a cell that left its formation. As kubectl does when it changes from one to
the other, the entry is renamed before the first apply.
"""

from __future__ import annotations

import copy
from typing import Any

from kais import labels
from kais_operator.decide.plan import Body


def handover(live: Body) -> Body | None:
    """Give the merge patch that makes our create's fields applied ones; None when there is none.

    Carries the resourceVersion: the list of owners is replaced whole.
    """
    metadata = live["metadata"]
    entries: list[Body] = metadata.get("managedFields") or []
    created = [entry for entry in entries if _is_our_update(entry)]
    if not created:
        return None
    applied = [entry for entry in entries if _is_our_apply(entry)]
    fields: Body = {}
    for entry in [*created, *applied]:
        fields = _union(fields, entry.get("fieldsV1") or {})
    joined = {**copy.deepcopy(created[0]), "operation": "Apply", "fieldsV1": fields}
    others = [entry for entry in entries if entry not in created and entry not in applied]
    return {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "managedFields": [joined, *others],
        }
    }


def _is_our_update(entry: Body) -> bool:
    return _is_ours(entry) and entry.get("operation") == "Update"


def _is_our_apply(entry: Body) -> bool:
    return _is_ours(entry) and entry.get("operation") == "Apply"


def _is_ours(entry: Body) -> bool:
    return entry.get("manager") == labels.MANAGER_CHILDREN and not entry.get("subresource")


def _union(one: Body, other: Body) -> Body:
    """Join two sets of field paths, which are trees of dicts."""
    joined: dict[str, Any] = dict(one)
    for key, value in other.items():
        joined[key] = _union(joined[key], value) if key in joined else value
    return joined
