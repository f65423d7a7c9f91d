"""Aliases of facts, which may replace an id: `alias:<namespace>:<value>`. Pure.

A value may contain any character, including colons. In a URL a slash would end the alias, so `~1`
stands for a slash and `~0` for a tilde, as in JSON Pointer (RFC 6901); request bodies use the same
form. No id begins with `alias:`, so a reference is either an id or an alias.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from knowledge_client.models import Alias

ENTITY = "entity"
UNIQUE_IN_REALM = frozenset({ENTITY, "ko", "ko-issue"})
"""Namespaces in which no two facts of a realm have the same alias, whatever their scopes."""
_PREFIX = "alias:"
_FORM = re.compile(r"alias:([a-z][a-z0-9-]{0,62}):(.+)", re.DOTALL)


@dataclass(frozen=True)
class Name:
    """A namespace and a value in it."""

    namespace: str
    value: str


def is_alias(reference: str) -> bool:
    """Return whether a reference is an alias, not an id."""
    return reference.startswith(_PREFIX)


def parse(reference: str) -> Name | None:
    """Parse an alias; None when it is malformed, so that it refers to nothing."""
    match = _FORM.fullmatch(reference)
    if match is None:
        return None
    return Name(match[1], match[2].replace("~1", "/").replace("~0", "~"))


def reference(alias: Alias | Name) -> str:
    """Format an alias for URLs and bodies."""
    value = alias.value.replace("~", "~0").replace("/", "~1")
    return f"{_PREFIX}{alias.namespace}:{value}"


def numbered(prefix: str, digits: int, number: int) -> str:
    """Format a sequence number as an alias value."""
    return f"{prefix}{number:0{digits}d}"
