"""Check the prose of documents and of the texts that users read, with proselint and our style.

Usage: python -m scripts.prose [--docstrings] [PATH...]

Without paths it checks every document, the comments of charts and examples, and every message: a
string in code that reads as a sentence, such as the help of a command, the message of a condition
or of a problem, or the description of a CRD's field. `--docstrings` checks docstrings as well.
`scripts/prose_style.toml` is our style. The exit status is 1 if anything is found.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import proselint.checks
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags, Padding, types
from proselint.registry.checks.engine import Fancy
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parent.parent
_STYLE = Path(__file__).with_name("prose_style.toml")
_PACKAGES = (
    *("kais", "kais_cli", "kais_cluster", "kais_mcp", "kais_rendering", "knowledge_client"),
    *("agent_runtime", "knowledge_service", "operator/kais_operator"),
)
_DOCUMENTS = ("*.md", "docs/**/*.md", "examples/**/*.md", "operator/*.md", "charts/**/*.md")
_COMMENTED = ("charts/*/*.yaml", "charts/kais/templates/NOTES.txt", "examples/**/*.yaml")
_FEWEST_WORDS = 3  # a shorter string is a name or a heading
_TOKEN = re.compile(r"[A-Za-z][a-z]+")
_CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
_LINK_TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
_MARKUP_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|PRAGMA|DROP|ALTER)\b")
_EXPRESSION = re.compile(r"\(\?|\\[bswd]")


@dataclass(frozen=True)
class Line:
    """One line of prose and its location."""

    path: str
    number: int
    text: str


@dataclass(frozen=True)
class Problem:
    """One finding, as `path:line: message [check]`."""

    line: Line
    message: str
    check: str

    def __str__(self) -> str:
        """Format the problem as compilers do, so that editors can jump to it."""
        return f"{self.line.path}:{self.line.number}: {self.message} [{self.check}]"


def markdown_lines(path: str, text: str) -> list[Line]:
    """Return the lines of a page without code, link targets and comments."""
    for pattern in (_FENCE, _MARKUP_COMMENT, _LINK_TARGET):
        text = pattern.sub(lambda match: _line_breaks(match[0]), text)
    # A mark after a heading: its last word may begin the next paragraph.
    return [
        Line(path, number, f"{line} ¶" if line.startswith("#") else line)
        for number, line in enumerate(_without_code(text).splitlines(), 1)
    ]


def comment_lines(path: str, text: str) -> list[Line]:
    """Return the comments of a YAML file, or all of NOTES.txt without its template actions."""
    if path.endswith(".txt"):
        text = _ACTION.sub(lambda match: f"`x`{_line_breaks(match[0])}", text)
    else:
        text = "\n".join(line.partition("#")[2] for line in text.splitlines())
    lines = enumerate(_without_code(text).splitlines(), 1)
    return [Line(path, number, line) for number, line in lines]


def message_lines(path: str, text: str, *, docstrings: bool = False) -> Iterator[Line]:
    """Yield the lines of every string that reads as a sentence.

    Values inside an f-string become `…`. A string that stands alone as a statement documents the
    code; it is left out unless `docstrings` is set.
    """
    tree = ast.parse(text)
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if id(node) in parts or (id(node) in documentation and not docstrings):
            continue
        literal = _literal(node)
        if literal and _is_sentence(literal):
            for offset, line in enumerate(_without_code(literal).splitlines()):
                number = getattr(node, "lineno", 1) + offset
                yield Line(path, number, line.replace('"', " ").strip())


def check_lines(lines: Sequence[Line], config: Config) -> Iterator[Problem]:
    """Yield the problems of the lines, which are read as one text."""
    text = "\n".join(line.text for line in lines)
    if not text.strip():
        return
    for result in LintFile("text", text).lint(config):
        line = lines[min(result.pos[0], len(lines)) - 1]
        yield Problem(line, result.check_result.message, result.check_result.check_path)


def load_style() -> Config:
    """Register proselint's checks and ours, and return the configuration that enables them."""
    style: dict[str, Any] = tomllib.loads(_STYLE.read_text(encoding="utf-8"))
    registry = CheckRegistry()
    if not registry.checks:
        forms = {
            f"(?<![\\w-])(?:{form})(?![\\w-])": advice for form, advice in style["forms"].items()
        }
        registry.register_many(proselint.checks.__register__)
        registry.register(
            Check(
                check_type=types.PreferredForms(items=forms, padding=Padding.RAW),
                engine=Fancy(),
                path="kais",
                message="'{1}': write {0}.",
                flags=CheckFlags(allow_quotes=True),
            )
        )
    # The first key that is a prefix of a check decides.
    checks = {"kais": True, **style["proselint"], **DEFAULT["checks"]}
    return {"max_errors": 10_000, "checks": {**checks, **style["proselint"]}}


def sources(paths: Iterable[Path], *, docstrings: bool = False) -> Iterator[list[Line]]:
    """Yield the prose of the files: each document by itself, the messages of a package together."""
    messages: dict[str, list[Line]] = {}
    for path in paths:
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            package = messages.setdefault(path.relative_to(ROOT).parts[0], [])
            # A mark between messages: proselint looks for repeated words across lines.
            for line in message_lines(name, text, docstrings=docstrings):
                package += [line, Line(name, line.number, "¶")]
        elif path.suffix == ".md":
            yield markdown_lines(name, text)
        else:
            yield comment_lines(name, text)
    yield from messages.values()


def default_paths() -> list[Path]:
    """Return every file whose prose users read."""
    documents = [path for pattern in (*_DOCUMENTS, *_COMMENTED) for path in ROOT.glob(pattern)]
    code = [path for folder in _PACKAGES for path in (ROOT / folder).rglob("*.py")]
    return sorted(documents) + sorted(code)


def main(arguments: Sequence[str]) -> int:
    """Print each problem; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m scripts.prose")
    parser.add_argument("--docstrings", action="store_true", help="check docstrings as well")
    parser.add_argument("paths", nargs="*", type=Path, help="files to check (default: all)")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or default_paths()
    config = load_style()
    problems = [
        problem
        for lines in sources(paths, docstrings=options.docstrings)
        for problem in check_lines(lines, config)
    ]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def _literal(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in values
            )
    return None


def _is_sentence(text: str) -> bool:
    is_code = _STATEMENT.match(text) or _EXPRESSION.search(text)
    return " " in text and len(_TOKEN.findall(text)) >= _FEWEST_WORDS and not is_code


def _without_code(text: str) -> str:
    """Replace each piece of code by a placeholder, never the same twice in a row."""
    count = itertools.count()
    return _CODE.sub(lambda match: f"X{next(count)}{_line_breaks(match[0])}", text)


def _line_breaks(text: str) -> str:
    """Return the line breaks of removed text, so that line numbers stay correct."""
    return "\n" * text.count("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
