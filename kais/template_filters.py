"""The written list of filters and tests that a template may use.

Those of Jinja that can multiply their input are replaced here by ones that look at the size first.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jinja2 import Undefined
from jinja2.filters import FILTERS
from jinja2.tests import TESTS

from kais import template_limits
from kais.template_limits import CapExceeded, Refused

_KEPT_FILTERS: Final = (
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sort",
    "sum",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
)
_KEPT_TESTS: Final = (
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "eq",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "string",
    "true",
    "undefined",
    "upper",
)
TOO_LONG: Final = f"a text is longer than {template_limits.OUTPUT_BYTES // 1024} KiB"
_WIDEST_INDENT = 64  # an arbitrary width that no prompt needs


def filters() -> dict[str, Any]:
    """Give every filter that a template may use."""
    known: Mapping[str, Any] = FILTERS
    kept = {name: known[name] for name in _KEPT_FILTERS}
    own = {"indent": indent, "join": join, "replace": replace, "string": text, "tojson": to_json}
    return kept | own


def tests() -> dict[str, Any]:
    """Give every test that a template may use."""
    known: Mapping[str, Any] = TESTS
    return {name: known[name] for name in _KEPT_TESTS}


def text(value: Any) -> str:
    """Write a value as text, when it has one and it is not too long."""
    if isinstance(value, Undefined):
        return str(value)  # a strict one raises here and says which name has no value
    if value is None:
        raise Refused("there is no value to write; give one with default(..., true)")
    if callable(value):
        raise Refused("a function has no text; call it")
    template_limits.check_value(value)
    return str(value)


def concat(parts: Iterable[Any]) -> str:
    """Join parts as `~` does."""
    return join(parts)


def join(parts: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    """Join texts; `attribute` takes that member of each part."""
    pieces: list[str] = []
    room = template_limits.OUTPUT_BYTES
    for part in parts:
        if attribute is not None and not isinstance(part, dict):
            raise Refused("join with an attribute needs objects")
        pieces.append(text(part if attribute is None else part[attribute]))
        room -= len(pieces[-1]) + len(separator)
        if room < 0:
            raise CapExceeded(TOO_LONG)
    return separator.join(pieces)


def replace(value: Any, old: str, new: str, count: int = -1) -> str:
    """Replace a text by another one."""
    whole = text(value)
    found = whole.count(old) if count < 0 else min(count, whole.count(old))
    if len(whole) + found * max(0, len(new) - len(old)) > template_limits.OUTPUT_BYTES:
        raise CapExceeded(TOO_LONG)
    return whole.replace(old, new, count)


def indent(value: Any, width: int = 4, first: bool = False) -> str:
    """Put spaces before each line but the first, and before that one too when asked."""
    if not 0 <= width <= _WIDEST_INDENT:
        raise Refused(f"indent takes 0 to {_WIDEST_INDENT} spaces")
    whole = text(value)
    if len(whole) + width * (whole.count("\n") + 1) > template_limits.OUTPUT_BYTES:
        raise CapExceeded(TOO_LONG)
    lines = whole.split("\n")
    padded = [" " * width + line if line else line for line in lines]
    return "\n".join(padded if first else [lines[0], *padded[1:]])


def to_json(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON, its letters as they are."""
    if isinstance(value, Undefined):
        return str(value)
    template_limits.check_value(value)
    if indent is not None and not 0 <= indent <= _WIDEST_INDENT:
        raise Refused(f"tojson takes an indent of 0 to {_WIDEST_INDENT}")
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except TypeError as exc:
        raise Refused(f"tojson: {exc}") from exc
