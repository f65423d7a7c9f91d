"""Facts that say nearly the same are shown once; a nearer scope's fact overrides a farther one's.

Nearly the same means the same words but few, where none stands in another's place: "on Monday" and
"on Tuesday" stay two, whatever the words around them, and so do "checkout" and "payments". One of
the two may say more, but no other number, day, month, name or negation. The same words of two
speakers, of two sessions, about two things or on two keys stay two. Pure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from knowledge_service.domain import access_control
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import sessions, speakers
from knowledge_service.search.text import analyser, dates
from knowledge_service.search.text.english import WEEKDAYS
from knowledge_service.search.thesaurus import STOP_WORDS

_MIN_OVERLAP = 0.9
_TOKEN = re.compile(r"\w+(?:[-./:@]+\w+)*")
# A word in capitals, or that begins with one.
_NAME = re.compile(r"\b[A-Z]\w*")
_DAYS = frozenset(
    [form for day in (*WEEKDAYS, "weekend") for form in (day, f"{day}s")]
    + ["today", "tomorrow", "yesterday"]
)
_NEGATIONS = frozenset(("not", "no", "never", "without", "none", "cannot", "nor", "t"))


@dataclass(frozen=True)
class FactWords:
    """A fact and all of its words; the rest is worked out for the few that share most of them."""

    row: Candidate
    all: frozenset[str]

    @functools.cached_property
    def exact_tokens(self) -> frozenset[str]:
        """Return the words that must be equal."""
        proper_names = frozenset(map(str.casefold, _NAME.findall(self.row.content)))
        numbers = frozenset([token for token in self.all if not token.isalpha()])
        proper_names = (proper_names & self.all) - STOP_WORDS
        return numbers | proper_names | (self.all & (_NEGATIONS | _DAYS | dates.MONTH_WORDS))

    @functools.cached_property
    def stems(self) -> frozenset[str]:
        """Return what the words tell: inflected forms are one, and words of grammar none."""
        return frozenset(map(analyser.stem, self.all - STOP_WORDS))

    @functools.cached_property
    def of(self) -> tuple[Hashable, ...]:
        """Return who says the words, in which session, and of what."""
        row = self.row
        return (
            row.about,
            row.subject,
            row.predicate,
            row.title,
            speakers.speaker(row),
            sessions.conversation_of(row),
        )


def fact_words(row: Candidate) -> FactWords:
    """Take the words of a fact's content."""
    return FactWords(row, frozenset(_TOKEN.findall(row.content.casefold())))


def is_near_duplicate(first: FactWords, second: FactWords) -> bool:
    """Tell whether two facts say nearly the same."""
    first_count, second_count = len(first.all), len(second.all)
    if min(first_count, second_count) < _MIN_OVERLAP * max(first_count, second_count):
        return False
    shared = len(first.all & second.all)
    if shared < _MIN_OVERLAP * (first_count + second_count - shared):
        return False
    if first.exact_tokens != second.exact_tokens or first.of != second.of:
        return False
    # Where each has a word that the other has not, one stands for the other.
    return first.stems <= second.stems or second.stems <= first.stems


class Deduplicator:
    """Takes facts best first and tells which of them are shown.

    `paths` are the scopes of the facts by number.
    """

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = paths
        self._kept: list[tuple[int, FactWords]] = []
        self._keys: dict[tuple[str, str], dict[int, int]] = {}

    def register_keys(self, rows: Iterable[Candidate]) -> None:
        """Note which scopes say something on a key, before any fact is taken."""
        for row in rows:
            if row.key:
                self._keys.setdefault(row.key, {}).setdefault(row.scope_no, row.number)

    def overridden_by(self, row: Candidate) -> int | None:
        """Return the fact of a nearer scope on the same key."""
        own_path = self._paths[row.scope_no]
        for scope_no, number in self._keys.get(row.key, {}).items() if row.key else ():
            if scope_no != row.scope_no and access_control.contains(
                own_path, self._paths[scope_no]
            ):
                return number
        return None

    def duplicate_of(self, row: Candidate) -> int | None:
        """Return the fact taken before that says nearly the same; else take this one."""
        candidate = fact_words(row)
        for number, shown in self._kept:
            if is_near_duplicate(candidate, shown):
                return number
        self._kept.append((row.number, candidate))
        return None
