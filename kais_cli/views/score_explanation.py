"""Explains the score of a recalled fact. Pure; `-o json` has the parts by name.

A score is the sum of its components times its factors. Scores of different answers do not compare.
"""

from __future__ import annotations

import re
import string
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knowledge_client.models import RecalledFact

# Only services of earlier versions send `expansion`, `session` and `x_asks`.
_COMPONENTS = {
    "bm25": "words of the question",
    "expansion": "related words",
    "session": "the rest of its conversation or run",
    "context": "what was said beside it",
    "links": "facts that it is linked with",
    "meaning": "nearness in meaning",
    "word_vectors": "words that are near those of the question",
}
# The texts for a factor that raises a score, and for one that lowers it.
_FACTORS = {
    "x_recency": ("is recent", "is old"),
    "x_validity": ("is valid", "is no longer valid"),
    "x_speaker": ("is spoken by the person asked about", "is spoken by another person"),
    "x_phrase": ("has the words side by side", "has the words apart"),
    "x_date": ("is of the date asked for", "is of another date"),
    "x_asks": ("answers", "asks itself"),
    "x_when": ("names a time", "names no time"),
    "x_wanted": (
        "has the kind of answer requested: number, name, place or reason",
        "lacks the kind of answer requested",
    ),
    "x_short": ("says much", "hardly says anything"),
    "x_bound": ("is held above a bound", "is held below a bound"),
    "x_usefulness": ("was there when runs succeeded", "was there when runs failed"),
}
DESCRIBED_PARTS = frozenset({*_COMPONENTS, *_FACTORS, "x_confidence"})
"""Parts that have a description; others are shown by name."""
_TERM_PREFIX = "="
_DATE_PREFIX = "d:"
_COMBINING_MARKS = re.compile(r"[\u0300-\u036f]")
_MULTIPLICATION_SIGN = "\N{MULTIPLICATION SIGN}"
_MIN_DISPLAYED = 0.005  # smaller values would be shown as zero


def explain_score(fact: RecalledFact, question: str) -> list[str]:
    """Explain a score: its components on the first line, its factors on the second."""
    parts = fact.parts
    query_terms = [query_term.strip(string.punctuation) for query_term in question.split()]
    components = [
        f"{value:.2f} {_describe_component(name, parts, query_terms)}"
        for name, value in _components(parts)
    ]
    if not components:
        return [f"{fact.score:.2f}: no word of the question, given to fill the answer up"]
    lines = [f"{fact.score:.2f} = {' + '.join(components)}"]
    factors = [
        f"{_MULTIPLICATION_SIGN} {value:.2f} {_describe_factor(name, fact)}"
        for name, value in parts.items()
        if name.startswith("x_") and abs(value - 1) >= _MIN_DISPLAYED
    ]
    return [*lines, ", ".join(factors)] if factors else lines


def _components(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    components = [
        (name, value)
        for name, value in parts.items()
        if not name.startswith(("x_", _TERM_PREFIX)) and value >= _MIN_DISPLAYED
    ]
    return sorted(components, key=lambda part: -part[1])


def _describe_component(name: str, parts: Mapping[str, float], query_terms: Sequence[str]) -> str:
    description = _COMPONENTS.get(name, name)
    if name != "bm25":
        return description
    weighted_terms = sorted(
        (
            (value, term.removeprefix(_TERM_PREFIX))
            for term, value in parts.items()
            if term[:1] == _TERM_PREFIX
        ),
        reverse=True,
    )
    if not weighted_terms:
        return description
    spelling = _original_spelling([term for _, term in weighted_terms], query_terms)
    term_scores = ", ".join(
        f"{spelling.get(term, term)} {value:.2f}" for value, term in weighted_terms
    )
    are_typed = all(_is_query_term(term, spelling, query_terms) for _, term in weighted_terms)
    return (
        f"{description} ({term_scores})"
        if are_typed
        else f"{description}, and others for them ({term_scores})"
    )


def _original_spelling(terms: Sequence[str], query_terms: Sequence[str]) -> dict[str, str]:
    """Return terms as they were typed; the index has stems, and dates such as `d:2023-05`.

    A typed word belongs to the longest term that it starts with; the other terms were added by
    query expansion.
    """
    spelling = {
        term: f"the date {term.removeprefix(_DATE_PREFIX)}"
        for term in terms
        if term.startswith(_DATE_PREFIX)
    }
    for query_term in query_terms:
        folded = _fold_case(query_term)
        stems = [term for term in terms if _is_stem(term, folded)]
        if stems:
            spelling.setdefault(max(stems, key=len), query_term)
    return spelling


def _is_stem(term: str, folded_term: str) -> bool:
    """Return whether a word begins with a term; a stem ends in i where the word has y."""
    if folded_term.startswith(term.removeprefix(_TERM_PREFIX)):
        return term.isascii() or 2 * len(term) > len(folded_term)
    return term.endswith("i") and folded_term.startswith(f"{term[:-1]}y")


def _is_query_term(term: str, spelling: Mapping[str, str], query_terms: Sequence[str]) -> bool:
    return term in spelling or any(term in _fold_case(query_term) for query_term in query_terms)


def _fold_case(term: str) -> str:
    """Fold case and drop accents, as the index does."""
    return unicodedata.normalize(
        "NFKC", _COMBINING_MARKS.sub("", unicodedata.normalize("NFKD", term))
    ).casefold()


def _describe_factor(name: str, fact: RecalledFact) -> str:
    if name == "x_confidence":
        return f"has confidence {fact.confidence:.2f}"
    raises, lowers = _FACTORS.get(name, (name.removeprefix("x_"),) * 2)
    return raises if fact.parts[name] > 1 else lowers
