"""Read untrusted YAML within limits; call it in a process that can be killed.

With aliases a kilobyte of text can stand for gigabytes of objects, and merge keys copy what they
refer to. Therefore the expanded size of a document is counted before any object is made. Plain
scalars become what kubectl makes of them, so that a file means the same in both.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

EXPANDED_NODES = 100_000
"""The limit of values that a file expands to; a Blueprint in the API server has far fewer.

Each `NODE_CHARACTERS` characters of a text count as one value.
"""
NODE_CHARACTERS = 100
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # of surrogates


class YamlRefused(Exception):
    """The text is not usable YAML; the message says why.

    Attributes:
        line: Line of the mistake, from 1; None if it is unknown.
        column: Column of the mistake, from 1; None if it is unknown.
    """

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def read(text: str) -> list[Any]:
    """Read all documents of a text.

    Raises:
        YamlRefused: The text is not YAML, contains values that JSON cannot represent, or expands
            beyond the limit through aliases.
    """
    with _loader(text) as loader:
        documents = list(_documents(loader))
    try:
        json.dumps(documents, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise YamlRefused(f"JSON cannot hold what is in it: {exc}") from exc
    return documents


def lines(text: str, document: int, paths: Sequence[str]) -> list[int | None]:
    """Return the line of each path, such as `spec.parameters[1].name`, in a document of a text.

    The line is that of the deepest part of the path that exists. Inside a list with `$if` or `$for`
    the items of a rendering have other positions, so the line is that of the list. `[name=x]`
    selects the item of a list with this name.

    Raises:
        YamlRefused: The text is not YAML.
    """
    with _loader(text) as loader:
        node = _node_at(loader, document)
    return [_line(node, path) for path in paths]


@contextlib.contextmanager
def _loader(text: str) -> Iterator[_Loader]:
    loader = None
    try:
        loader = _Loader(text)
        yield loader
    except yaml.reader.ReaderError as exc:
        raise _unprintable(text, exc) from exc
    except yaml.MarkedYAMLError as exc:
        raise _refusal(text, exc) from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise YamlRefused(str(exc) or "it is nested too deeply") from exc
    finally:
        if loader is not None:
            loader.dispose()


def _unprintable(text: str, failure: yaml.reader.ReaderError) -> YamlRefused:
    before = text[: failure.position]
    return YamlRefused(
        f"the character U+{failure.character:04X} is not allowed in YAML; remove it",
        line=before.count("\n") + 1,
        column=len(before) - before.rfind("\n"),
    )


def _refusal(text: str, failure: yaml.MarkedYAMLError) -> YamlRefused:
    """Return the error of the parser in one line: what it expected, and in which context."""
    mark = failure.problem_mark or failure.context_mark
    message = _unquoted_braces(text, failure)
    if message is not None:
        mark = failure.context_mark or mark
    else:
        message = str(failure.problem or failure.context)
        if "'\\t'" in message:
            message = "a tab begins the line or the value; YAML is indented with spaces"
        elif failure.problem and failure.context:
            message += f" ({failure.context}{_beginning(failure.context_mark)})"
    if mark is None:
        return YamlRefused(message)
    return YamlRefused(message, line=mark.line + 1, column=mark.column + 1)


def _beginning(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f" that begins in line {mark.line + 1}"


def _node_at(loader: _Loader, document: int) -> yaml.Node | None:
    node: yaml.Node | None = None
    for _ in range(document + 1):
        node = loader.get_node() if loader.check_node() else None
    return node


_STEP = re.compile(r"\[name=([^\]]*)\]|\[(\d+)\]|([^.\[]+)")


def _line(node: yaml.Node | None, path: str) -> int | None:
    if node is None:
        return None
    line = node.start_mark.line
    for name, index, key in _STEP.findall(path):
        step = _child(node, name=name, index=index, key=key)
        if step is None:
            break
        line, node = step
    return int(line) + 1


def _child(node: yaml.Node, *, name: str, index: str, key: str) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of one step of a path; None if it does not exist."""
    if isinstance(node, yaml.SequenceNode) and (name or index):
        items = node.value
        if any(_value(item, key) for item in items for key in _RESHAPING):
            return None
        if name:
            matches = (i for i in items if (n := _value(i, "name")) and n[1].value == name)
            item = next(matches, None)
        else:
            item = items[int(index)] if int(index) < len(items) else None
        return None if item is None else (item.start_mark.line, item)
    return _value(node, key) if key else None


_RESHAPING = ("$if", "$for")


def _value(node: yaml.Node, name: str) -> tuple[int, yaml.Node] | None:
    """Return the line of a key of a mapping, and its value."""
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs = ((key, value) for key, value in node.value if key.value == name)
    return next(((key.start_mark.line, value) for key, value in pairs), None)


def _unquoted_braces(text: str, failure: yaml.MarkedYAMLError) -> str | None:
    """Explain a template outside quotes, which YAML reads as a mapping; None for other errors."""
    mark = failure.context_mark or failure.problem_mark
    if mark is None or failure.problem != "found unhashable key":
        return None
    line = text.splitlines()[mark.line]
    if not line[mark.column :].startswith("{{"):
        return None
    expression = line[mark.column :].partition("}}")[0] + "}}"
    return f'YAML reads braces as a mapping; put the template in quotes: "{expression}"'


class _Loader(yaml.SafeLoader):
    """Loads only values that JSON can represent, with the plain scalars of kubectl."""


_TAG = "tag:yaml.org,2002:"
_MERGE, _NULL, _BOOL = f"{_TAG}merge", f"{_TAG}null", f"{_TAG}bool"
_NUMBER = f"{_TAG}kubectl-number"
_TRUE = frozenset({"y", "yes", "on", "true"})
_INTEGER = re.compile(r"[-+]?(0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MAX_INTEGER = 2**63 - 1  # beyond, kubectl rounds to a float
_GO_INTEGRAL = 1e21  # below, Go writes an integral float to JSON without a fraction


def _construct_bool(loader: _Loader, node: yaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() in _TRUE


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> int | float | str:
    """Return a number as Go reads it: `012` is octal, `08` and `1e3` are decimal."""
    text = str(loader.construct_scalar(node))
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        unsigned = digits.lstrip("+-")
        is_octal = len(unsigned) > 1 and unsigned[0] == "0" and unsigned[1].isdigit()
        value = int(unsigned, 8 if is_octal else 0) * (-1 if digits.startswith("-") else 1)
        return value if abs(value) <= _MAX_INTEGER else _rounded(value)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return int(number) if number.is_integer() and abs(number) < _GO_INTEGRAL else number
    if digits.lstrip("-+").lower() in (".inf", ".nan"):
        return float(digits.replace(".", ""))
    return text


def _rounded(value: int) -> float:
    try:
        return int(float(value))
    except OverflowError:
        return math.inf  # which JSON cannot hold


# kubectl reads YAML with a Go library for version 1.1, whose plain scalars differ from PyYAML's:
# `y` and `n` are booleans, `1e3` and `0o17` are numbers, `1:30` and dates are text.
_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(_MERGE, re.compile(r"^<<$"), ["<"])
_Loader.add_implicit_resolver(_NULL, re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    _BOOL,
    re.compile(
        r"^(y|Y|yes|Yes|YES|on|On|ON|true|True|TRUE|n|N|no|No|NO|off|Off|OFF|false|False|FALSE)$"
    ),
    list("yYnNtTfFoO"),
)
_Loader.add_implicit_resolver(
    _NUMBER,
    re.compile(r"^[-+.]{0,2}([0-9][0-9a-fA-FxXoObBeE_.+-]*|inf|Inf|INF|nan|NaN|NAN)$"),
    list("-+.0123456789"),
)
_Loader.add_constructor(_BOOL, _construct_bool)
_Loader.add_constructor(_NUMBER, _construct_number)


def _documents(loader: _Loader) -> Iterator[Any]:
    nodes_left = EXPANDED_NODES
    while loader.check_node():
        node = loader.get_node()
        nodes_left -= _expanded(node, {}) if node is not None else 0
        if nodes_left < 0:
            megabytes = EXPANDED_NODES * NODE_CHARACTERS // 1_000_000
            raise YamlRefused(
                f"its aliases expand it to more than {EXPANDED_NODES:,} values"
                f" or {megabytes} MB of text"
            )
        yield loader.construct_document(node)


def _expanded(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Count the nodes of a document; the target of an alias counts once for each use.

    Raises:
        YamlRefused: An alias refers to a node that contains it, or a text is not Unicode.
    """
    size = sizes.get(id(node))
    if size == 0:
        raise YamlRefused("an alias stands inside what it names")
    if size is None:
        if isinstance(node, yaml.ScalarNode):
            node.value = _joined(node.value)
            _require_unicode(node)
        sizes[id(node)] = 0
        parts = sum(_expanded(part, sizes) for part in _parts(node))
        size = sizes[id(node)] = 1 + _characters(node) // NODE_CHARACTERS + parts
    return size


def _joined(text: str) -> str:
    """Join the two escapes of a character, as JSON writes it."""
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def _require_unicode(node: yaml.ScalarNode) -> None:
    """Refuse half a surrogate pair, which an escape can write, as kubectl does."""
    try:
        node.value.encode()
    except UnicodeEncodeError as exc:
        mark = node.start_mark
        raise YamlRefused(
            f"the escape \\u{ord(node.value[exc.start]):04x} is half a character; write the"
            " character itself, or its escape with \\U and eight digits",
            line=mark.line + 1,
            column=mark.column + 1,
        ) from exc


def _characters(node: yaml.Node) -> int:
    return len(node.value) if isinstance(node, yaml.ScalarNode) else 0


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
