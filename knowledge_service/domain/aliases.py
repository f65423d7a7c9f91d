"""How a name stands where an id may: `alias:<namespace>:<value>`. Pure.

A value may hold colons and anything else. In an address a slash would end the name, so `~1` is a
slash and `~0` a tilde, as in JSON Pointer (RFC 6901); bodies take the same form. No id begins with
`alias:`, so a reference is never both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from knowledge_client.models import Alias

_PREFIX = "alias:"
_FORM = re.compile(r"alias:([a-z][a-z0-9-]{0,62}):(.+)", re.DOTALL)


@dataclass(frozen=True)
class Name:
    """A namespace and a value in it."""

    namespace: str
    value: str


def is_alias(reference: str) -> bool:
    """Tell whether a reference is a name and not an id."""
    return reference.startswith(_PREFIX)


def parse(reference: str) -> Name | None:
    """Read a name; None when it has not the form, so that it names nothing."""
    match = _FORM.fullmatch(reference)
    if match is None:
        return None
    return Name(match[1], match[2].replace("~1", "/").replace("~0", "~"))


def reference(alias: Alias | Name) -> str:
    """Write a name as it stands in addresses and bodies."""
    value = alias.value.replace("~", "~0").replace("/", "~1")
    return f"{_PREFIX}{alias.namespace}:{value}"


def numbered(prefix: str, digits: int, number: int) -> str:
    """Write the value that a sequence's number gives."""
    return f"{prefix}{number:0{digits}d}"
