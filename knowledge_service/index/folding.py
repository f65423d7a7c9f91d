"""Facts that say nearly the same are shown once; a nearer scope's fact overrides a farther one's.

Nearly the same means the same words but few, and exactly the same numbers, names of things and
negations: "the limit is 30" and "the limit is 40" stay two. So do the same words of two speakers,
of two sessions, or about two things. Pure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from knowledge_service.domain import visibility
from knowledge_service.index import sessions, speakers
from knowledge_service.index.candidates import Candidate

_SAME = 0.9
_WORD = re.compile(r"\w+(?:[-./:@]+\w+)*")
_NOT = frozenset(("not", "no", "never", "without", "none", "cannot", "nor", "t"))


@dataclass(frozen=True)
class Words:
    """A fact and all of its words; the rest is worked out for the few that share most of them."""

    row: Candidate
    all: frozenset[str]

    @functools.cached_property
    def exact(self) -> frozenset[str]:
        """Return the words that must be equal."""
        return frozenset([word for word in self.all if not word.isalpha()]) | (self.all & _NOT)

    @functools.cached_property
    def of(self) -> tuple[Hashable, ...]:
        """Return who says the words, in which session, and of what."""
        row = self.row
        return row.about, row.subject, row.title, speakers.speaker(row), sessions.of(row)


def words(row: Candidate) -> Words:
    """Take the words of a fact's content."""
    return Words(row, frozenset(_WORD.findall(row.content.casefold())))


def is_same(one: Words, other: Words) -> bool:
    """Tell whether two facts say nearly the same."""
    ours, theirs = len(one.all), len(other.all)
    if min(ours, theirs) < _SAME * max(ours, theirs):
        return False
    shared = len(one.all & other.all)
    if shared < _SAME * (ours + theirs - shared):
        return False
    return one.exact == other.exact and one.of == other.of


class Folder:
    """Takes facts best first and tells which of them are shown.

    `paths` are the scopes of the facts by number.
    """

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = paths
        self._kept: list[tuple[int, Words]] = []
        self._keys: dict[tuple[str, str], dict[int, int]] = {}

    def know(self, rows: Iterable[Candidate]) -> None:
        """Note which scopes say something on a key, before any fact is taken."""
        for row in rows:
            if row.key:
                self._keys.setdefault(row.key, {}).setdefault(row.scope_no, row.number)

    def overridden_by(self, row: Candidate) -> int | None:
        """Return the fact of a nearer scope on the same key."""
        own = self._paths[row.scope_no]
        for scope_no, number in self._keys.get(row.key, {}).items() if row.key else ():
            if scope_no != row.scope_no and visibility.contains(own, self._paths[scope_no]):
                return number
        return None

    def same_as(self, row: Candidate) -> int | None:
        """Return the fact taken before that says nearly the same; else take this one."""
        own = words(row)
        for number, other in self._kept:
            if is_same(own, other):
                return number
        self._kept.append((row.number, own))
        return None
