"""Measures how much of a statement has no counterpart in the record.

A word has one if it, a form of it or a related word occurs. Otherwise the more it says, and the
less it is used in the contexts of the record's words, the more of the statement is uncovered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge_service.extraction.evidence import passages, vocabulary
from knowledge_service.extraction.evidence.passages import Passage, Word
from knowledge_service.search import thesaurus
from knowledge_service.search.ranking import word_vectors
from knowledge_service.search.text import analyser

# A term whose weight is mostly uncovered continues a run of uncovered words.
_UNCOVERED_SHARE = 0.3
_GENERAL = 0.3
_NAME = re.compile(r"(?<=[a-z,)] )[A-Z]\w*")


@dataclass(frozen=True)
class Coverage:
    """What of a statement is uncovered.

    `run`: the largest sum over adjacent words; `reason`: the sum over the words after "because" and
    the like; `end`: the covered share of the second half; `has_new_name`: a capitalised word is
    uncovered.
    """

    length: int
    run: float
    reason: float
    end: float
    has_new_name: bool


def measure(statement: str, claim: Passage, record: Passage) -> Coverage:
    """Measure a statement, which is also given as a passage."""
    words = [word for word in claim.words if not word.is_number]
    uncovered = _uncovered(passages.distinct_terms(words), record)
    return Coverage(
        len(words),
        _largest_run(words, uncovered),
        _after_reason(statement, words, uncovered),
        _covered_share(words[len(words) // 2 :], uncovered),
        _has_new_name(statement, record),
    )


def _uncovered(terms: Sequence[str], record: Passage) -> dict[str, float]:
    missing = [term for term in terms if not record.has(term)]
    similarities = word_vectors.OF_CONTEXTS.highest_similarities(missing, record.terms)
    weights = dict.fromkeys(terms, 0.0)
    for term, similarity in zip(missing, similarities, strict=True):
        weights[term] = passages.weight(term) * (1 - similarity)
    return weights


def _largest_run(words: Sequence[Word], uncovered: Mapping[str, float]) -> float:
    largest = run = 0.0
    for word in words:
        weight = passages.weight(word.term)
        if uncovered[word.term] > _UNCOVERED_SHARE * weight:
            run += uncovered[word.term]
            largest = max(largest, run)
        elif weight > _GENERAL:
            run = 0.0
    return largest


def _after_reason(statement: str, words: Sequence[Word], uncovered: Mapping[str, float]) -> float:
    reason = vocabulary.REASON.search(statement)
    if reason is None:
        return 0.0
    after = passages.distinct_terms(word for word in words if word.start >= reason.end())
    return sum(uncovered[term] for term in after)


def _covered_share(words: Sequence[Word], uncovered: Mapping[str, float]) -> float:
    total = sum(passages.weight(word.term) for word in words)
    return 1 - sum(uncovered[word.term] for word in words) / total if total else 1.0


def _has_new_name(statement: str, record: Passage) -> bool:
    names = (match.group().casefold() for match in _NAME.finditer(statement))
    return any(
        name not in (thesaurus.STOP_WORDS | vocabulary.NEGATIONS)
        and name.isalpha()
        and not record.has(_term(name))
        for name in names
    )


def _term(name: str) -> str:
    return vocabulary.UNITS.get(name, analyser.stem(name))
