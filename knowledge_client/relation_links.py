"""How a link stores the type and the metadata of a relation. Pure.

A link has a type of few characters, a relation one of any. A type with other characters is
simplified, and the data of the link has it as written, beside the metadata. The service and the
command line read links with the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from knowledge_client.models.links import LINK_TYPE

_TYPE_KEY = "relationType"
# Metadata that has the key of the type is stored under this prefix, so that it cannot be taken for
# the type.
_PREFIX = "metadata."
_STORED_KEY = re.compile(rf"(?:{re.escape(_PREFIX)})*{_TYPE_KEY}")
_NOT_OF_TYPE = re.compile(r"[^a-z0-9_.-]+")
_MAX_TYPE = 512  # characters of the type of a relation


def link_type(relation_type: str) -> str:
    """Return the type of the link for a relation; types with other characters are simplified."""
    if re.fullmatch(LINK_TYPE, relation_type):
        return relation_type
    simplified = _NOT_OF_TYPE.sub("_", relation_type.lower()).strip("_.-")
    return f"is_{simplified}"[:64] if not simplified[:1].isalpha() else simplified[:64]


def link_data(relation_type: str, metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the data of the link for a relation."""
    data = {
        f"{_PREFIX}{key}" if _STORED_KEY.fullmatch(key) else key: value
        for key, value in (metadata or {}).items()
    }
    if link_type(relation_type) != relation_type:
        data[_TYPE_KEY] = relation_type
    return data or None


def read_relation(type_of_link: str, data: object) -> tuple[str, dict[str, Any] | None]:
    """Return the type and the metadata of a relation from those of its link.

    A link may have been made without a relation, with any data. What its data has in place of the
    type only counts as the type if it leads to the type of the link; otherwise it is metadata.
    """
    tree: dict[str, Any] = dict(data) if isinstance(data, dict) else {}
    relation_type = type_of_link
    if _TYPE_KEY in tree:
        if not _is_type(tree[_TYPE_KEY], type_of_link):
            return type_of_link, tree
        relation_type = tree.pop(_TYPE_KEY)
    metadata = {
        key.removeprefix(_PREFIX) if _STORED_KEY.fullmatch(key) else key: value
        for key, value in tree.items()
    }
    return relation_type, metadata or None


def _is_type(value: object, type_of_link: str) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MAX_TYPE
        and value != type_of_link
        and link_type(value) == type_of_link
    )
