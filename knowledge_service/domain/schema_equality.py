"""Decides which members of structured data count when facts are compared for equality. Pure.

Equality decides whether a fact that is stored again confirms the existing one. Members that change
while the statement stays the same, such as a counter or an embedding, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COUNTED_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "block/1": ("content",),
    "file/1": ("domain",),
}
"""The members of `data` that count, by schema. In data of other schemas, all of them count.

A change of this table needs a migration that computes the hashes of these facts again.
"""


def compared_data(schema: str | None, data: Any) -> Any:
    """Return the part of the data that counts for equality."""
    members = COUNTED_MEMBERS.get(schema or "")
    if members is None or not isinstance(data, dict):
        return data
    return {member: data[member] for member in members if member in data}
