r"""Evaluate the templates of `-o jsonpath=…` and the paths of `--sort-by`, as kubectl does.

A template is text with expressions in braces: `{.status.phase}`, `{range .items[*]}…{end}`,
`{"\n"}`. What an object lacks is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais_cli import errors

Step = Callable[[Any, Any], Iterator[Any]]
"""From the root and a value to the values that a part of a path selects."""

_NAME = re.compile(r"(?:\\.|[^\\.\[\]{}\s()=!<>@$'\",?*|&])+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(\d+))?")
_INTEGER = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_DIGITS = re.compile(r"(\d+)")

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@dataclass(frozen=True)
class Path:
    """A path such as `.status.conditions[?(@.type=="Ready")].reason`."""

    steps: tuple[Step, ...]

    def select(self, root: Any, current: Any) -> list[Any]:
        """Return the values of the path; it begins at `current`, or at the root with `$`."""
        values = [current]
        for step in self.steps:
            values = [result for value in values for result in step(root, value)]
        return values

    def format(self, root: Any, current: Any) -> str:
        """Return the values with spaces between."""
        return " ".join(_text_of(value) for value in self.select(root, current))


@dataclass(frozen=True)
class _Text:
    text: str

    def format(self, root: Any, current: Any) -> str:
        del root, current
        return self.text


@dataclass(frozen=True)
class _Range:
    path: Path
    body: tuple[Part, ...]

    def format(self, root: Any, current: Any) -> str:
        values = self.path.select(root, current)
        return "".join(part.format(root, value) for value in values for part in self.body)


Part = Path | _Text | _Range


@dataclass(frozen=True)
class Template:
    """A parsed template."""

    parts: tuple[Part, ...]

    def format(self, tree: Any) -> str:
        """Return the text of the template for a tree of JSON values."""
        return "".join(part.format(tree, tree) for part in self.parts)


def parse(template: str) -> Template:
    """Parse a template.

    Raises:
        UsageError: It is not one; the message names the expression.
    """
    return Template(_Parts().read(template))


def parse_path(expression: str) -> Path:
    """Parse one path: `.a.b`, also without its first dot or in braces.

    Raises:
        UsageError: It is no path; the message has the character at which it stops.
    """
    text = expression.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    reader = _Reader(text)
    path = reader.path()
    if reader.position < len(text):
        raise reader.error()
    return path


def sorted_by(bodies: Sequence[Any], path: Path) -> list[Any]:
    """Sort trees by the first value of a path, numbers in texts as numbers; without one first."""

    def key(body: Any) -> tuple[Any, ...]:
        value = next(iter(path.select(body, body)), None)
        if value is None:
            return (0,)
        if isinstance(value, int | float):
            return (1, value)
        parts = _DIGITS.split(_text_of(value))
        return (2, [(int(p), "") if p.isdigit() else (-1, p) for p in parts])

    return sorted(bodies, key=key)


class _Parts:
    """Collects the parts of a template; those of an open range apart."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._open: list[tuple[Path, list[Part]]] = []

    def read(self, template: str) -> tuple[Part, ...]:
        for text, expression in _segments(template):
            if text:
                self._parts.append(_Text(text))
            if expression is not None:
                self._add(expression)
        if self._open:
            raise errors.UsageError("jsonpath: {range} is not closed; end it with {end}")
        return tuple(self._parts)

    def _add(self, expression: str) -> None:
        if expression.startswith("range "):
            self._open.append((parse_path(expression.removeprefix("range ")), self._parts))
            self._parts = []
        elif expression == "end":
            self._close()
        elif quoted := _QUOTED.fullmatch(expression):
            self._parts.append(_Text(_unquoted(quoted)))
        else:
            self._parts.append(parse_path(expression))

    def _close(self) -> None:
        if not self._open:
            raise errors.UsageError("jsonpath: {end} without {range}")
        path, outer = self._open.pop()
        outer.append(_Range(path, tuple(self._parts)))
        self._parts = outer


def _segments(template: str) -> Iterator[tuple[str, str | None]]:
    """Yield texts, each with the expression in braces behind it; None at the end."""
    position = 0
    while (start := template.find("{", position)) >= 0:
        end = start + 1
        while end < len(template) and template[end] != "}":
            quoted = _QUOTED.match(template, end)
            end = quoted.end() if quoted else end + 1
        if end >= len(template):
            raise errors.UsageError(f"jsonpath: {template[start:]!r} is not closed; end it with }}")
        yield template[position:start], template[start + 1 : end].strip()
        position = end + 1
    yield template[position:], None


class _Reader:
    """Reads the steps of a path from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def error(self) -> errors.UsageError:
        rest = self.text[self.position :]
        problem = f"at {rest!r}" if rest else "at its end"
        return errors.UsageError(
            f"jsonpath: cannot read {self.text!r} {problem}; write a path such as .metadata.name"
        )

    def path(self) -> Path:
        """Read steps as far as they go."""
        steps: list[Step] = []
        if self._accept("$"):
            steps.append(_root)
        elif not self._accept("@") and (name := self._match(_NAME)):
            steps.append(_field(_unescaped(name[0])))
        while more := self._next_steps():
            steps += more
        return Path(tuple(steps))

    def _next_steps(self) -> list[Step]:
        if self._accept("["):
            return [self._brackets()]
        steps = [_descendants] if self._accept("..") else []
        if not steps and not self._accept("."):
            return []
        if self._accept("["):
            return [*steps, self._brackets()]
        if not steps and self.position == len(self.text):
            return []  # the dot alone: the object itself
        return [*steps, self._name_or_wildcard()]

    def _name_or_wildcard(self) -> Step:
        if self._accept("*"):
            return _items
        name = self._match(_NAME)
        if name is None:
            raise self.error()
        return _field(_unescaped(name[0]))

    def _brackets(self) -> Step:
        if self._accept("?("):
            step: Step = self._filter()
        else:
            choices = [self._bracket_choice()]
            while self._accept(","):
                self._match(re.compile(r"\s+"))
                choices.append(self._bracket_choice())
            step = _union(tuple(choices))
        if not self._accept("]"):
            raise self.error()
        return step

    def _bracket_choice(self) -> Step:
        if self._accept("*"):
            return _items
        if quoted := self._match(_QUOTED):
            return _field(_unquoted(quoted))
        if part := self._match(_SLICE):
            start, stop, width = (int(text) if text else None for text in part.groups())
            return _slice(slice(start, stop, width))
        if number := self._match(_INTEGER):
            return _index(int(number[0]))
        raise self.error()

    def _filter(self) -> Step:
        left = self._operand()
        operator = self._operator()
        right = self._operand() if operator else None
        self._match(re.compile(r"\s+"))
        if not self._accept(")"):
            raise self.error()
        return _where(left, operator, right)

    def _operand(self) -> Path | _Constant:
        self._match(re.compile(r"\s+"))
        if quoted := self._match(_QUOTED):
            return _Constant(_unquoted(quoted))
        if number := self._match(_NUMBER):
            return _Constant(json.loads(number[0]))
        if boolean := self._match(re.compile(r"true|false")):
            return _Constant(boolean[0] == "true")
        start = self.position
        path = self.path()
        if self.position == start:
            raise self.error()
        return path

    def _operator(self) -> str:
        self._match(re.compile(r"\s+"))
        operator = self._match(_OPERATOR)
        return operator[0] if operator else ""

    def _accept(self, token: str) -> bool:
        is_next = self.text.startswith(token, self.position)
        self.position += len(token) if is_next else 0
        return is_next

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return match


@dataclass(frozen=True)
class _Constant:
    value: Any

    def select(self, root: Any, current: Any) -> list[Any]:
        del root, current
        return [self.value]


def _root(root: Any, value: Any) -> Iterator[Any]:
    del value
    yield root


def _items(root: Any, value: Any) -> Iterator[Any]:
    del root
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(root: Any, value: Any) -> Iterator[Any]:
    yield value
    for item in _items(root, value):
        yield from _descendants(root, item)


def _field(name: str) -> Step:
    def step(root: Any, value: Any) -> Iterator[Any]:
        del root
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _index(number: int) -> Step:
    def step(root: Any, value: Any) -> Iterator[Any]:
        del root
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(part: slice) -> Step:
    def step(root: Any, value: Any) -> Iterator[Any]:
        del root
        if isinstance(value, list):
            yield from value[part]

    return step


def _union(choices: tuple[Step, ...]) -> Step:
    def step(root: Any, value: Any) -> Iterator[Any]:
        for choice in choices:
            yield from choice(root, value)

    return step


def _where(left: Path | _Constant, operator: str, right: Path | _Constant | None) -> Step:
    def step(root: Any, value: Any) -> Iterator[Any]:
        for item in _items(root, value):
            lefts = left.select(root, item)
            if right is None:
                is_match = bool(lefts)
            else:
                rights = right.select(root, item)
                is_match = bool(lefts and rights) and _holds(lefts[0], operator, rights[0])
            if is_match:
                yield item

    return step


def _holds(left: Any, operator: str, right: Any) -> bool:
    try:
        return _COMPARISONS[operator](left, right)
    except TypeError:  # such as a text below a number
        return False


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _unquoted(match: re.Match[str]) -> str:
    text = match[1] if match[1] is not None else match[2]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), text)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
