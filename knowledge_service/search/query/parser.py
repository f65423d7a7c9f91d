"""What a question asks: weighted terms, names, phrases, dates, and which sort of thing it asks for.

Pure; `now` is what "last week" is counted from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from knowledge_service.search.query import answer_types, expansion
from knowledge_service.search.text import analyser, dates
from knowledge_service.search.text.english import MONTHS, WEEKDAYS
from knowledge_service.search.thesaurus import STOP_WORDS

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_TIME = re.compile(
    r"(?i)\b(?:when|how long ago|(?:what|which) (?:date|day|time|week|month|year|weekday))\b"
)
_CURRENT = re.compile(
    r"(?i)\b(?:now|nowadays|current(?:ly)?|at present|at the moment|today|these days|latest)\b"
)
# `did Anna say`, `do Anna and Bruno like`: whom the question is about, other names beside them.
_NAME = r"[A-Z][^\W\d_A-Z]+"
_WHOM = re.compile(
    r"\b(?:did|does|do|has|have|is|are|was|were|would|will|had|can|could|should)\s+"
    rf"({_NAME}(?:(?:,|,? and| or)\s+{_NAME}){{0,5}})\b"
)
_NO_NAMES = STOP_WORDS | set(MONTHS) | set(WEEKDAYS)


@dataclass(frozen=True)
class Question:
    """A question, taken apart. Phrases and names are case-folded.

    `wanted` is how texts have what is asked for, unless that may be anything.
    """

    terms: Mapping[str, float]
    names: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    dates: tuple[dates.Moment | dates.Span, ...] = ()
    asks_when: bool = False
    asks_now: bool = False
    wanted: re.Pattern[str] | None = None


def parse(text: str, now: datetime) -> Question:
    """Take a question apart."""
    own = tuple(dict.fromkeys(analyser.sequence(text)))
    # What is before a day is not of that day.
    unasked = {term for each in dates.compared(text) for term in each.terms}
    if unasked:
        own = tuple(term for term in own if term not in unasked)
    return Question(
        terms=expansion.weighted(own),
        names=_names(text),
        phrases=tuple(dict.fromkeys(_phrases(text))),
        dates=dates.asked(text, now),
        asks_when=_TIME.search(text) is not None,
        asks_now=_CURRENT.search(text) is not None,
        wanted=answer_types.sort_of(text),
    )


def _names(text: str) -> frozenset[str]:
    subject = _WHOM.search(text)
    if subject:
        about = _names_of(subject[1])
        if about:
            return about
    return _names_of(text)


def _names_of(text: str) -> frozenset[str]:
    words = (match.group() for match in _WORD.finditer(text))
    named = (word.casefold() for word in words if word[0].isupper() and word[1:].islower())
    return frozenset(name for name in named if name not in _NO_NAMES)


def _phrases(text: str) -> Iterator[str]:
    words = [match.group().casefold() for match in _WORD.finditer(text)]
    for first, second in pairwise(words):
        if len(second) > 1 and not {first, second} & STOP_WORDS:
            yield f"{first} {second}"
