"""Removes near-duplicates, and facts that a nearer scope's fact overrides.

Near-duplicates have nearly the same words, and no word of one replaces a word of the other. "on
Monday" and "on Tuesday" stay two facts whatever the words around them, and so do "checkout" and
"payments". One of the two may say more, but no other number, day, month, name or negation. The same
words stay two if a sign between them differs, such as `<` and `>`, and so do those of two speakers,
in two sessions, about two things or on two keys. Pure.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from knowledge_service.domain import access_control
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import grouping, speakers
from knowledge_service.search.text import analyser, dates
from knowledge_service.search.text.english import WEEKDAYS
from knowledge_service.search.thesaurus import STOP_WORDS

_MIN_OVERLAP = 0.9
_TOKEN = re.compile(r"\w+(?:[-./:@]+\w+)*")
# A word in capitals or with an initial capital.
_NAME = re.compile(r"\b[A-Z]\w*")
_DAYS = frozenset(
    [form for day in (*WEEKDAYS, "weekend") for form in (day, f"{day}s")]
    + ["today", "tomorrow", "yesterday"]
)
_NEGATIONS = frozenset(("not", "no", "never", "without", "none", "cannot", "nor", "t"))


@dataclass(frozen=True)
class FactWords:
    """A fact and its words; the other sets are computed only for facts that share most words."""

    row: Candidate
    all: frozenset[str]
    use_conversations: bool = True

    @functools.cached_property
    def exact_tokens(self) -> frozenset[str]:
        """Return the words that must be equal: numbers, names, negations, days and months."""
        proper_names = frozenset(map(str.casefold, _NAME.findall(self.row.content)))
        numbers = frozenset([token for token in self.all if not token.isalpha()])
        proper_names = (proper_names & self.all) - STOP_WORDS
        return numbers | proper_names | (self.all & (_NEGATIONS | _DAYS | dates.MONTH_WORDS))

    @functools.cached_property
    def signs(self) -> tuple[str, ...]:
        """Return the signs that change what the words say, in order.

        These are operators, currencies, emoji, percent signs, negative numbers, and marks on
        letters, which are no words: vowels of many scripts.
        """
        # Constants of this module would change the name of the ranker, and no score changes.
        signs = re.findall(r"(?<!\w)-(?=[\d.])|!(?==)|[^\w\s!\ufe0f-]", self.row.content)
        kinds = ("Sm", "Sc", "So", "Mn", "Mc")
        return tuple(
            [sign for sign in signs if sign in "-!%" or unicodedata.category(sign) in kinds]
        )

    @functools.cached_property
    def stems(self) -> frozenset[str]:
        """Return the stems of the words without stop words, so that inflected forms are equal."""
        return frozenset(map(analyser.stem, self.all - STOP_WORDS))

    @functools.cached_property
    def of(self) -> tuple[Hashable, ...]:
        """Return the fact's subject matter, speaker and conversation, which must be equal."""
        row = self.row
        return (
            row.about,
            row.subject,
            row.predicate,
            row.title,
            speakers.speaker(row) if self.use_conversations else None,
            grouping.conversation_of(row) if self.use_conversations else None,
        )


def fact_words(row: Candidate, *, use_conversations: bool = True) -> FactWords:
    """Return a fact with the words of its content.

    Without `use_conversations`, neither the speaker nor the session tells two facts apart.
    """
    return FactWords(row, frozenset(_TOKEN.findall(row.content.casefold())), use_conversations)


def is_near_duplicate(first: FactWords, second: FactWords) -> bool:
    """Return whether two facts say nearly the same."""
    first_count, second_count = len(first.all), len(second.all)
    if min(first_count, second_count) < _MIN_OVERLAP * max(first_count, second_count):
        return False
    shared = len(first.all & second.all)
    if shared < _MIN_OVERLAP * (first_count + second_count - shared):
        return False
    if first.exact_tokens != second.exact_tokens or first.of != second.of:
        return False
    if first.signs != second.signs:
        return False
    # If each has a word that the other lacks, one word replaces the other.
    return first.stems <= second.stems or second.stems <= first.stems


class Deduplicator:
    """Decides, best fact first, which facts are returned.

    `paths` are the scopes of the facts by number.
    """

    def __init__(self, paths: Mapping[int, str], *, use_conversations: bool = True) -> None:
        self._paths = paths
        self._use_conversations = use_conversations
        self._kept: list[tuple[int, FactWords]] = []
        self._keys: dict[tuple[str, str], dict[int, int]] = {}

    def register_keys(self, rows: Iterable[Candidate]) -> None:
        """Record which scopes have a fact on each key; call this before facts are compared."""
        for row in rows:
            if row.key:
                self._keys.setdefault(row.key, {}).setdefault(row.scope_no, row.number)

    def overridden_by(self, row: Candidate) -> int | None:
        """Return the fact of a nearer scope on the same key, or None."""
        own_path = self._paths[row.scope_no]
        for scope_no, number in self._keys.get(row.key, {}).items() if row.key else ():
            if scope_no != row.scope_no and access_control.contains(
                own_path, self._paths[scope_no]
            ):
                return number
        return None

    def duplicate_of(self, row: Candidate) -> int | None:
        """Return the near-duplicate among the earlier facts; if there is none, add this fact."""
        candidate = fact_words(row, use_conversations=self._use_conversations)
        for number, earlier in self._kept:
            if is_near_duplicate(candidate, earlier):
                return number
        self._kept.append((row.number, candidate))
        return None
