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

_ARMS = {
    "bm25": "words of the question",
    "session": "the rest of its conversation or run",
    "context": "what was said beside it",
    "links": "facts that it is linked with",
    "meaning": "nearness in meaning",
}
# The words when a factor raises a score, and when it lowers one.
_FACTORS = {
    "x_recency": ("is recent", "is old"),
    "x_validity": ("is valid", "is not valid any more"),
    "x_speaker": ("is spoken by the person asked about", "is spoken by somebody else"),
    "x_phrase": ("has the words side by side", "has the words apart"),
    "x_date": ("is of the date asked for", "is of another date"),
    "x_asks": ("answers", "asks itself"),
    "x_when": ("names a time", "names no time"),
    "x_wanted": (
        "has the kind of answer requested: number, name, place or reason",
        "lacks the kind of answer requested",
    ),
    "x_short": ("says much", "hardly says anything"),
    "x_usefulness": ("helped runs to succeed", "was there when runs failed"),
}
NAMED = frozenset({*_ARMS, *_FACTORS, "x_confidence"})
"""Parts that have a description; others are shown by name."""
_WORD = "="
_DATE = "d:"
_MARKS = re.compile(r"[\u0300-\u036f]")
_TIMES = "\N{MULTIPLICATION SIGN}"
_SHOWN = 0.005  # smaller values would be shown as zero


def explained(fact: RecalledFact, question: str) -> list[str]:
    """Explain a score: its components on the first line, its factors on the second."""
    parts = fact.parts
    typed = [word.strip(string.punctuation) for word in question.split()]
    arms = [f"{value:.2f} {_arm(name, parts, typed)}" for name, value in _arms(parts)]
    if not arms:
        return [f"{fact.score:.2f}: no word of the question, given to fill the answer up"]
    lines = [f"{fact.score:.2f} = {' + '.join(arms)}"]
    factors = [
        f"{_TIMES} {value:.2f} {_factor(name, fact)}"
        for name, value in parts.items()
        if name.startswith("x_") and abs(value - 1) >= _SHOWN
    ]
    return [*lines, ", ".join(factors)] if factors else lines


def _arms(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    found = [
        (name, value)
        for name, value in parts.items()
        if not name.startswith(("x_", _WORD)) and value >= _SHOWN
    ]
    return sorted(found, key=lambda part: -part[1])


def _arm(name: str, parts: Mapping[str, float], typed: Sequence[str]) -> str:
    words = _ARMS.get(name, name)
    if name != "bm25":
        return words
    each = sorted(
        ((value, term.removeprefix(_WORD)) for term, value in parts.items() if term[:1] == _WORD),
        reverse=True,
    )
    if not each:
        return words
    spelled = _spelled([term for _, term in each], typed)
    told = ", ".join(f"{spelled.get(term, term)} {value:.2f}" for value, term in each)
    are_typed = all(_is_typed(term, spelled, typed) for _, term in each)
    return f"{words} ({told})" if are_typed else f"{words}, and others for them ({told})"


def _spelled(terms: Sequence[str], typed: Sequence[str]) -> dict[str, str]:
    """Give words as they were typed; the index knows their stems, and dates as `d:2023-05`.

    A typed word is that of the longest term that it begins with: others were brought along.
    """
    found = {
        term: f"the date {term.removeprefix(_DATE)}" for term in terms if term.startswith(_DATE)
    }
    for word in typed:
        folded = _folded(word)
        stems = [term for term in terms if _is_stem(term, folded)]
        if stems:
            found.setdefault(max(stems, key=len), word)
    return found


def _is_stem(term: str, word: str) -> bool:
    """Tell whether a word begins with a term; a stem ends in i where the word has y."""
    if word.startswith(term.removeprefix(_WORD)):
        return term.isascii() or 2 * len(term) > len(word)
    return term.endswith("i") and word.startswith(f"{term[:-1]}y")


def _is_typed(term: str, spelled: Mapping[str, str], typed: Sequence[str]) -> bool:
    return term in spelled or any(term in _folded(word) for word in typed)


def _folded(word: str) -> str:
    """Fold case and drop accents, as the index does."""
    return unicodedata.normalize(
        "NFKC", _MARKS.sub("", unicodedata.normalize("NFKD", word))
    ).casefold()


def _factor(name: str, fact: RecalledFact) -> str:
    if name == "x_confidence":
        return f"has confidence {fact.confidence:.2f}"
    raises, lowers = _FACTORS.get(name, (name.removeprefix("x_"),) * 2)
    return raises if fact.parts[name] > 1 else lowers
