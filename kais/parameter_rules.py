"""The rules of one parameter: which values are valid, and whether the rules are consistent.

The declared type decides, without conversions: text is not a number, "007" stays a string. Patterns
are regular expressions of users, which may never end. So the matcher is an argument: callers can
run it in a process that can be killed.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kais.resources.blueprint import Parameter, ParameterType

Matcher = Callable[[str, str], bool]
"""`(pattern, text)` → whether the whole text matches; raises `re.error` on a bad pattern."""

_NUMBERS = frozenset({ParameterType.INTEGER, ParameterType.NUMBER})
_STRINGS = frozenset({ParameterType.STRING})
_TEXTS = frozenset({ParameterType.STRING, ParameterType.SECRET_REF})
_ARRAYS = frozenset({ParameterType.ARRAY})
_TYPES_BY_RULE = {
    "min": _NUMBERS,
    "max": _NUMBERS,
    "pattern": _TEXTS,
    "min_length": _STRINGS,
    "max_length": _STRINGS,
    "min_items": _ARRAYS,
    "max_items": _ARRAYS,
    "values": frozenset({ParameterType.ENUM, ParameterType.SECRET_REF}),
}
_WIRE = {name: Parameter.model_fields[name].alias or name for name in _TYPES_BY_RULE}
_EXCERPT_CHARACTERS = 80  # characters of a value in a message


def matches(pattern: str, text: str) -> bool:
    """Match a pattern in this process; use it only where a pattern may hang."""
    return re.fullmatch(pattern, text) is not None


def value_violations(
    parameter: Parameter, value: Any, *, matcher: Matcher = matches
) -> Iterator[str]:
    """Yield a message for each rule of a parameter that a value breaks."""
    type_message = type_violation(parameter, value)
    if type_message is not None:
        yield type_message
        return
    match parameter.type:
        case ParameterType.INTEGER | ParameterType.NUMBER:
            for message in _bounds(value, parameter.min, parameter.max):
                yield f"{message}, got {excerpt(value)}"
        case ParameterType.STRING:
            yield from _string_violations(parameter, value, matcher)
        case ParameterType.SECRET_REF:
            yield from _secret_violations(parameter, value["name"], matcher)
        case ParameterType.ARRAY:
            for message in _bounds(len(value), parameter.min_items, parameter.max_items):
                yield f"{message} items long, got {len(value)}"


def declaration_problems(parameter: Parameter) -> Iterator[str]:
    """Yield the problems of a declaration that exist for all values."""
    for rule, types in _TYPES_BY_RULE.items():
        if getattr(parameter, rule) is not None and parameter.type not in types:
            yield f"{_WIRE[rule]} has no meaning for the type {parameter.type}"
    for low, high in (("min", "max"), ("min_length", "max_length"), ("min_items", "max_items")):
        minimum, maximum = getattr(parameter, low), getattr(parameter, high)
        if minimum is not None and maximum is not None and minimum > maximum:
            yield f"{_WIRE[low]} {_plain(minimum)} is above {_WIRE[high]} {_plain(maximum)}"
    if parameter.type is ParameterType.SECRET_REF and parameter.values is not None:
        yield from _secret_declaration_problems(parameter.values)
    if parameter.pattern is not None:
        try:
            re.compile(parameter.pattern)
        except (re.error, RecursionError, OverflowError) as exc:
            yield f"pattern is not a regular expression: {exc}"


def did_you_mean(name: str, available: Sequence[str], *, noun: str = "declared:") -> str:
    """Return a hint for an unknown name: the closest match, or all available names."""
    matches = difflib.get_close_matches(name, available, n=1)
    if matches:
        return f"did you mean '{matches[0]}'?"
    return f"{noun} {', '.join(available)}" if available else "nothing is declared"


def excerpt(value: Any) -> str:
    """Return a value for a message: as JSON, shortened if necessary."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _EXCERPT_CHARACTERS else f"{text[:_EXCERPT_CHARACTERS]}…"


def type_violation(parameter: Parameter, value: Any) -> str | None:
    """Return a message if the type of a value is not the declared one, else None."""
    kind = parameter.type
    if kind is ParameterType.ENUM:
        values = parameter.values or []
        if any(type(v) is type(value) and v == value for v in values):
            return None
        return f"must be one of {', '.join(excerpt(v) for v in values)}, got {excerpt(value)}"
    is_right, noun = _TYPES[kind]
    if is_right(value):
        return None
    is_unquoted = parameter.type == "string" and isinstance(value, bool | int | float)
    hint = "; in YAML, put text in quotes, because yes and 012 are no text" if is_unquoted else ""
    return f"must be {noun}, got {excerpt(value)}{hint}"


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above the largest float
        return False


def _is_secret_ref(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"name", "key"}:
        return False
    return all(isinstance(part, str) and part for part in value.values())


_TYPES: Mapping[ParameterType, tuple[Callable[[Any], bool], str]] = {
    ParameterType.STRING: (lambda v: isinstance(v, str), "a string"),
    ParameterType.INTEGER: (_is_integer, "an integer"),
    ParameterType.NUMBER: (_is_number, "a number"),
    ParameterType.BOOLEAN: (lambda v: isinstance(v, bool), "true or false"),
    ParameterType.ARRAY: (lambda v: isinstance(v, list), "an array"),
    ParameterType.OBJECT: (lambda v: isinstance(v, dict), "an object"),
    ParameterType.SECRET_REF: (_is_secret_ref, "a reference {name, key} to a Secret"),
}


def _string_violations(parameter: Parameter, value: str, matcher: Matcher) -> Iterator[str]:
    for message in _bounds(len(value), parameter.min_length, parameter.max_length):
        unit = "character" if message.endswith(" 1") else "characters"
        yield f"{message} {unit} long, got {len(value)}"
    yield from _pattern_mismatch(parameter, value, matcher)


def _secret_violations(parameter: Parameter, name: str, matcher: Matcher) -> Iterator[str]:
    if parameter.values is not None and name not in parameter.values:
        listed = ", ".join(excerpt(allowed) for allowed in parameter.values)
        yield f"the Secret's name must be one of {listed}, got {excerpt(name)}"
    for message in _pattern_mismatch(parameter, name, matcher):
        yield f"the Secret's name {message}"


def _secret_declaration_problems(values: Sequence[Any]) -> Iterator[str]:
    if not values:
        yield "values of a secretRef must name a Secret"
    for value in values:
        if not isinstance(value, str):
            yield f"values of a secretRef are names of Secrets, got {excerpt(value)}"


def _pattern_mismatch(parameter: Parameter, value: str, matcher: Matcher) -> Iterator[str]:
    if parameter.pattern is None:
        return
    try:
        if not matcher(parameter.pattern, value):
            yield f"must match {parameter.pattern}, got {excerpt(value)}"
    except re.error as exc:
        yield f"pattern is not a regular expression: {exc}"


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _bounds(value: float, minimum: float | None, maximum: float | None) -> Iterator[str]:
    if minimum is not None and value < minimum:
        yield f"must be at least {_plain(minimum)}"
    if maximum is not None and value > maximum:
        yield f"must be at most {_plain(maximum)}"
