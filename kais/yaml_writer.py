"""Writes plain data as YAML, using only the standard library.

JSON is valid YAML, so every text that YAML could read as another value is written as a JSON
string; keys and simple words are not quoted. Other modules read YAML.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_BARE = re.compile(r"\.?[A-Za-z_/][A-Za-z0-9_./-]*( [A-Za-z0-9_./,()'-]+)*")
_AMBIGUOUS_SCALARS = {
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "null",
    "y",
    "n",
    "none",
    "nan",
    "inf",
}


def dump(value: Any) -> str:
    """Return a mapping or list of plain data as block YAML, with keys in the given order."""
    return "\n".join(_lines(value, indent="")) + "\n"


def _lines(value: Any, *, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", child, indent=indent + "  ")
    elif isinstance(value, list) and value:
        for child in value:
            yield from _item(child, indent=indent)
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, child: Any, *, indent: str) -> Iterator[str]:
    if isinstance(child, dict | list) and child:
        yield head
        yield from _lines(child, indent=indent)
    else:
        yield f"{head} {_scalar(child)}"


def _item(child: Any, *, indent: str) -> Iterator[str]:
    inner = list(_lines(child, indent=indent + "  "))
    yield f"{indent}- {inner[0][len(indent) + 2 :]}"
    yield from inner[1:]


def _scalar(value: Any) -> str:
    if (
        isinstance(value, str)
        and _BARE.fullmatch(value)
        and value.lower() not in _AMBIGUOUS_SCALARS
    ):
        return value
    return json.dumps(value, ensure_ascii=False)
