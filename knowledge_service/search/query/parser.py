"""Query parsing: weighted terms, names, phrases, dates, and the expected answer type.

Pure; relative dates such as "last week" count from `now`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from knowledge_service.search.query import answer_types, expansion
from knowledge_service.search.text import analyser, dates
from knowledge_service.search.text.english import MONTHS, WEEKDAYS
from knowledge_service.search.thesaurus import STOP_WORDS

_ALPHABETIC = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_TIME = re.compile(
    r"(?i)\b(?:when|how long ago|(?:what|which) (?:date|day|time|week|month|year|weekday))\b"
)
_CURRENT = re.compile(
    r"(?i)\b(?:now|nowadays|current(?:ly)?|at present|at the moment|today|these days|latest)\b"
)
# `did Anna say`, `do Anna and Bruno like`: the people the query is about, even if it has other
# names.
_NAME = r"[A-Z][^\W\d_A-Z]+"
_SUBJECT = re.compile(
    r"\b(?:did|does|do|has|have|is|are|was|were|would|will|had|can|could|should)\s+"
    rf"({_NAME}(?:(?:,|,? and| or)\s+{_NAME}){{0,5}})\b"
)
_NO_NAMES = STOP_WORDS | set(MONTHS) | set(WEEKDAYS)


@dataclass(frozen=True)
class ParsedQuery:
    """A parsed query. Phrases and names are case-folded.

    `own_terms` are the terms of the text itself. `related` maps each added term in `terms` to those
    that it is related to. `answer_pattern` matches texts with the expected answer type; None when
    any text may answer.
    """

    terms: Mapping[str, float]
    own_terms: tuple[str, ...] = ()
    related: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    dates: tuple[dates.Moment | dates.Span, ...] = ()
    asks_time: bool = False
    prefers_recent: bool = False
    answer_pattern: re.Pattern[str] | None = None


def parse(text: str, now: datetime, synonyms: Sequence[Sequence[str]] = ()) -> ParsedQuery:
    """Parse a query; relative dates count from `now`.

    `synonyms` are groups of words that match each other, in addition to the thesaurus.
    """
    query_terms = tuple(dict.fromkeys(analyser.sequence(text)))
    # "before 7 May" does not ask for facts of 7 May.
    excluded = {term for moment in dates.comparisons(text) for term in moment.terms}
    if excluded:
        query_terms = tuple(term for term in query_terms if term not in excluded)
    expanded = expansion.expand_terms(query_terms, synonyms)
    return ParsedQuery(
        terms=expanded.weights,
        own_terms=query_terms,
        related=expanded.related,
        names=_names(text),
        phrases=tuple(dict.fromkeys(_phrases(text))),
        dates=dates.dates_in_query(text, now),
        asks_time=_TIME.search(text) is not None,
        prefers_recent=_CURRENT.search(text) is not None,
        answer_pattern=answer_types.answer_pattern(text),
    )


def _names(text: str) -> frozenset[str]:
    subject = _SUBJECT.search(text)
    if subject:
        subject_names = _names_of(subject[1])
        if subject_names:
            return subject_names
    return _names_of(text)


def _names_of(text: str) -> frozenset[str]:
    tokens = (match.group() for match in _ALPHABETIC.finditer(text))
    folded_names = (
        token.casefold() for token in tokens if token[0].isupper() and token[1:].islower()
    )
    return frozenset(name for name in folded_names if name not in _NO_NAMES)


def _phrases(text: str) -> Iterator[str]:
    tokens = [match.group().casefold() for match in _ALPHABETIC.finditer(text)]
    for first, second in pairwise(tokens):
        if len(second) > 1 and not {first, second} & STOP_WORDS:
            yield f"{first} {second}"
