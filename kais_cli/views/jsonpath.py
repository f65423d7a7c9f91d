r"""Evaluate the templates of `-o jsonpath=…` and the paths of `--sort-by`, as kubectl does.

A template is text with expressions in braces: `{.status.phase}`, `{range .items[*]}…{end}`,
`{"\n"}`. Fields that an object lacks are left out. kubectl writes paths in a dialect of JSONPath
(RFC 9535); they are translated for python-jsonpath, which evaluates them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kais_cli import errors

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_TOKEN = re.compile(
    rf"(?P<quoted>{_QUOTED.pattern})"
    r"|(?P<dots>\.\.?)(?P<name>(?:\\.|[^\\.\[\]{}\s()=!<>@$'\",?*|&])+)"
    r"|-?\d+(?:\.\d+)?|\.(?=\[)|."
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Path:
    """A path such as `.status.conditions[?(@.type=="Ready")].reason`.

    `is_absolute` is a path that begins at the root in a range too: `$.metadata.name`.
    """

    query: JSONPath | CompoundJSONPath
    is_absolute: bool

    def select(self, root: Any, current: Any) -> list[Any]:
        """Return the values of the path; it begins at `current`, or at the root with `$`."""
        try:
            return list(self.query.findall(root if self.is_absolute else current))
        except RecursionError:
            raise errors.UsageError("jsonpath: the path is nested too deeply") from None

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
        UsageError: It is no path; the message says what is wrong with it.
    """
    import jsonpath  # noqa: PLC0415 - few commands need it

    text = expression.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    try:
        query = jsonpath.compile(_standard_query(text))
    except (jsonpath.JSONPathError, ValueError, re.error, RecursionError) as exc:
        reason = str(exc).splitlines()[0]
        raise errors.UsageError(
            f"jsonpath: cannot read {text!r}: {reason}; write a path such as .metadata.name"
        ) from exc
    return Path(query, is_absolute=text.startswith("$"))


def sorted_by(bodies: Sequence[Any], path: Path) -> list[Any]:
    """Sort trees by the first value of a path, digits in texts as numbers; missing values first."""

    def key(body: Any) -> tuple[Any, ...]:
        value = next(iter(path.select(body, body)), None)
        if value is None:
            return (0,)
        if isinstance(value, int | float):
            return (1, value)
        parts = _DIGITS.split(_text_of(value))
        return (2, [(int(p[:4_000]), "") if p.isdecimal() else (-1, p) for p in parts])

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
        elif _QUOTED.fullmatch(expression):
            self._parts.append(_Text(_unescaped(expression[1:-1])))
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


def _standard_query(path: str) -> str:
    r"""Return a path of kubectl as RFC 9535 has it: `.a\.b-c` is `$["a.b-c"]`."""
    if path[:1] in ("$", "@"):
        path = path[1:]
    elif path[:1] not in (".", "["):
        path = f".{path}"
    if path == ".":
        return "$"
    return "$" + "".join(map(_standard_token, _TOKEN.finditer(path)))


def _standard_token(token: re.Match[str]) -> str:
    if token["name"]:
        dots = ".." if token["dots"] == ".." else ""
        return f"{dots}[{json.dumps(_unescaped(token['name']))}]"
    if token["quoted"]:
        return json.dumps(_unescaped(token["quoted"][1:-1]))
    return "" if token[0] == "." and token.string[token.end() :].startswith("[") else token[0]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), text)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
