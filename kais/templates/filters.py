"""The filters and tests that a template may use.

Jinja's filters that can multiply their input, or that compute with numbers of any size, are
replaced by filters that check the size first.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jinja2 import Undefined, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.tests import TESTS

from kais.templates import limits, metering
from kais.templates.limits import CapExceeded, Refused

_JINJA_FILTERS: Final = (
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
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
    "select",
    "selectattr",
    "sort",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
)
_JINJA_TESTS: Final = (
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "eq",
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
    "sequence",
    "string",
    "true",
    "undefined",
    "upper",
)
TOO_LONG: Final = f"a text is longer than {limits.OUTPUT_BYTES // 1024} KiB"
_MAX_INDENT = 64  # arbitrary; no prompt needs more
_MAX_NUMBER_CHARACTERS = 400  # characters; the longest float written out has about 310
_MAX_PRECISION = 20  # more than a float or 64 bits hold


def filters() -> dict[str, Any]:
    """Return every filter that a template may use."""
    jinja_filters: Mapping[str, Any] = FILTERS
    allowed = {name: jinja_filters[name] for name in _JINJA_FILTERS}
    replacements = {
        "indent": indent,
        "int": integer,
        "join": join,
        "replace": replace,
        "round": rounded,
        "string": text,
        "sum": total,
        "tojson": to_json,
    }
    return allowed | replacements


def tests() -> dict[str, Any]:
    """Return every test that a template may use."""
    jinja_tests: Mapping[str, Any] = TESTS
    replacements = {"divisibleby": is_divisible, "even": is_even, "odd": is_odd}
    return {name: jinja_tests[name] for name in _JINJA_TESTS} | replacements


def text(value: Any) -> str:
    """Convert a value to text.

    Raises:
        Refused: The value has no text (none or a function), or its text would be too long.
    """
    if isinstance(value, Undefined):
        return str(value)  # raises for a StrictUndefined, with its name
    if value is None:
        raise Refused("there is no value to write; give one with default(..., true)")
    if callable(value):
        raise Refused("a function has no text; call it")
    limits.check_value(value)
    return str(value)


def join(parts: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    """Join texts; with `attribute`, that attribute of each item."""
    pieces: list[str] = []
    remaining = limits.OUTPUT_BYTES
    for part in parts:
        if attribute is not None and not isinstance(part, dict):
            raise Refused("join with an attribute needs objects")
        pieces.append(text(part if attribute is None else part[attribute]))
        remaining -= len(pieces[-1]) + len(separator)
        if remaining < 0:
            raise CapExceeded(TOO_LONG)
    return separator.join(pieces)


def replace(value: Any, old: str, new: str, count: int = -1) -> str:
    """Replace a substring."""
    value_text = text(value)
    matches = value_text.count(old) if count < 0 else min(count, value_text.count(old))
    if len(value_text) + matches * max(0, len(new) - len(old)) > limits.OUTPUT_BYTES:
        raise CapExceeded(TOO_LONG)
    return value_text.replace(old, new, count)


def indent(value: Any, width: int = 4, first: bool = False) -> str:
    """Indent each line but the first; with `first`, that line too."""
    if not 0 <= width <= _MAX_INDENT:
        raise Refused(f"indent takes 0 to {_MAX_INDENT} spaces")
    value_text = text(value)
    if len(value_text) + width * (value_text.count("\n") + 1) > limits.OUTPUT_BYTES:
        raise CapExceeded(TOO_LONG)
    lines = value_text.split("\n")
    padded = [" " * width + line if line else line for line in lines]
    return "\n".join(padded if first else [lines[0], *padded[1:]])


def integer(value: Any, default: Any = 0, base: int = 10) -> Any:
    """Convert a value to an integer, or return `default`."""
    if isinstance(value, str) and len(value) > _MAX_NUMBER_CHARACTERS:
        raise Refused(f"int takes a text of at most {_MAX_NUMBER_CHARACTERS} characters")
    number = FILTERS["int"](value, default, base)
    if isinstance(number, int) and number.bit_length() > limits.INTEGER_BITS:
        raise Refused("the number is too large")
    return number


def rounded(value: Any, precision: Any = 0, method: str = "common") -> Any:
    """Round a number."""
    metering.check_number(value, subject="round")
    if not isinstance(precision, int) or abs(precision) > _MAX_PRECISION:
        raise Refused(f"round takes a precision of -{_MAX_PRECISION} to {_MAX_PRECISION}")
    return FILTERS["round"](value, precision, method)


@pass_context
def total(context: Context, items: Any, attribute: Any = None, start: Any = 0) -> Any:
    """Add items with `+`, which limits the size of each sum."""
    sandbox: Any = context.environment
    if attribute is not None:
        kwargs = {"attribute": attribute}
        items = sandbox.call_filter("map", items, (), kwargs, context=context)
    result = start
    for item in items:
        result = sandbox.call_binop(context, "+", result, item)
    return result


def is_divisible(value: Any, number: Any) -> bool:
    """Whether a number is divisible by another one."""
    metering.check_number(value, subject="divisibleby")
    metering.check_number(number, subject="divisibleby")
    return bool(value % number == 0)


def is_even(value: Any) -> bool:
    """Whether a number is even."""
    metering.check_number(value, subject="even")
    return bool(value % 2 == 0)


def is_odd(value: Any) -> bool:
    """Whether a number is odd."""
    metering.check_number(value, subject="odd")
    return bool(value % 2 == 1)


def to_json(value: Any, indent: int | None = None) -> str:
    """Encode a value as JSON without escaping non-ASCII letters."""
    if isinstance(value, Undefined):
        return str(value)
    limits.check_value(value)
    if indent is not None and not 0 <= indent <= _MAX_INDENT:
        raise Refused(f"tojson takes an indent of 0 to {_MAX_INDENT}")
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except TypeError as exc:
        raise Refused(f"tojson: {exc}") from exc
