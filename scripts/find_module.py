"""Find the modules for a term of the field, such as `rate limit` or `leader election`.

Usage: python -m scripts.find_module [TERM...]

Searches the paths and first paragraphs of all modules, and docs/glossary.md: a module that the
glossary names for a term is found by that term, and by the words that the glossary replaces. All
words of a term have to match; case, hyphens, word endings and American spelling do not matter.
Rows of the glossary and their modules come first. Without terms, every module is listed with its
length in lines.
"""

import ast
import functools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import Stemmer

from scripts import rename_map

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
_TOKEN = re.compile(r"[a-z0-9]+")
_NO_MATCH = 4
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BRITISH = {"analyz": "analys", "ization": "isation", "izer": "iser", "neighbor": "neighbour"}


@dataclass(frozen=True)
class Module:
    """A module, by its path below the root and the first paragraph of its docstring."""

    path: str
    summary: str


@dataclass(frozen=True)
class GlossaryEntry:
    """A row of the glossary; a path that ends in `/` refers to all modules below it."""

    term: str
    meaning: str
    paths: tuple[str, ...]
    replaced: str
    """The words that the term stands for, which the project does not use."""


@dataclass(frozen=True)
class Match:
    """A matching path and the reason: a row of the glossary, or the summary of the module."""

    path: str
    reason: str


@functools.cache
def modules(folders: tuple[str, ...] = rename_map.SOURCE_FOLDERS) -> tuple[Module, ...]:
    """Return each module that has a docstring, folder by folder; the files are read once."""
    return tuple(_read_modules(folders))


def _read_modules(folders: Sequence[str]) -> Iterator[Module]:
    for path in rename_map.source_paths(ROOT, folders):
        docstring = ast.get_docstring(ast.parse((ROOT / path).read_text()))
        if docstring:
            yield Module(str(path), " ".join(docstring.split("\n\n")[0].split()))


def glossary(text: str) -> Iterator[GlossaryEntry]:
    """Yield the rows of all tables of the glossary."""
    for line in text.splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if line.startswith("|") and len(columns) == 4 and columns[0] not in ("Term", "---"):  # noqa: PLR2004
            term, meaning, locations, replaced = columns
            yield GlossaryEntry(term, meaning, tuple(re.findall("`([^`]+)`", locations)), replaced)


def find(term: str, all_modules: Sequence[Module], entries: Sequence[GlossaryEntry]) -> list[Match]:
    """Return the matches of a term, best first: glossary terms, replaced words, paths, the rest.

    A row whose term has no module yields one match without a path.
    """
    query = stems(term)
    ranked: list[tuple[int, Match]] = []
    for entry in entries:
        fields = {0: entry.term, 1: entry.replaced, 3: f"{entry.term} {entry.meaning}"}
        reason = f"{entry.term}: {entry.meaning}"
        ranked += [(_rank(query, fields), Match(path, reason)) for path in entry.paths or ("",)]
    for module in all_modules:
        fields = {2: module.path, 3: f"{module.path} {module.summary}"}
        ranked.append((_rank(query, fields), Match(module.path, module.summary)))
    matches = sorted((pair for pair in ranked if pair[0] < _NO_MATCH), key=lambda pair: pair[0])
    first = {match.path or match.reason: match for _, match in reversed(matches)}
    return [match for _, match in matches if first[match.path or match.reason] is match]


def _rank(query: frozenset[str], fields: Mapping[int, str]) -> int:
    """Return the lowest rank whose text contains all words of the query."""
    return min((rank for rank, text in fields.items() if query <= stems(text)), default=_NO_MATCH)


@functools.cache
def stems(text: str) -> frozenset[str]:
    """Return the stems of the words in a text, in lower case and British spelling."""
    text = _CAMEL_CASE.sub(" ", text).lower()
    for american, british in _BRITISH.items():
        text = text.replace(american, british)
    return frozenset(_stem(token) for token in _TOKEN.findall(text))


@functools.cache
def _stem(token: str) -> str:
    return str(_stemmer().stemWord(token))


@functools.cache
def _stemmer() -> "Stemmer.Stemmer":
    return Stemmer.Stemmer("english")


def main(arguments: Sequence[str]) -> int:
    """Print the matches of a term, or every module; return 1 if nothing matches."""
    all_modules = modules()
    if not arguments:
        for module in all_modules:
            lines = len((ROOT / module.path).read_text().splitlines())
            print(f"{module.path} {lines:>4}  {module.summary}")  # noqa: T201
        return 0
    term = " ".join(arguments)
    matches = find(term, all_modules, list(glossary(GLOSSARY.read_text())))
    if not matches:
        print(f"nothing matches: {term}", file=sys.stderr)  # noqa: T201
        return 1
    width = max(len(match.path) for match in matches)
    for match in matches:
        print(f"{match.path:<{width}}  {match.reason}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
