"""Checks whether the record of a run supports a statement that a model extracted from it. Pure.

The texts of the episodes that the statement names must meet four conditions: the numbers of the
statement occur in them; the numbers have the same words beside them; most words of the statement,
or synonyms of the thesaurus, occur in them; and words that the statement negates are negated there.
The check compares words: it detects what a model invents, negates or miscounts, but it also rejects
statements that follow only by reasoning. `tests/unit/knowledge_service/data/evidence_pairs.yaml`
has examples.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from knowledge_service.search import thesaurus
from knowledge_service.search.query import expansion
from knowledge_service.search.text import analyser

_MIN_COVERAGE = 0.55
# How many terms on either side of a number describe what it counts.
_CONTEXT = 3
_TOLERANCE = 1
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019]t)?|\d+(?:[-.:,]\d+)*")
_NEGATIONS = frozenset({"not", "no", "never", "cannot", "without", "nor", "neither"})
_NEGATED_ENDING = ("n't", "n\u2019t")
_SENTENCE = re.compile(r"[.;!?](?:\s|$)|\n")


@dataclass(frozen=True)
class _Text:
    """The terms of a text by sentence; `negated` are those that follow a negation."""

    sentences: tuple[tuple[str, ...], ...]
    negated: frozenset[str]
    affirmed: frozenset[str]

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(itertools.chain.from_iterable(self.sentences))


def missing_support(statement: str, texts: Sequence[str]) -> str | None:
    """Return why the texts do not carry the statement; None if they do."""
    claim = _read([statement])
    record = _read(texts)
    if not texts or not claim.terms:
        return "it names no episode that says anything"
    unknown = [term for term in claim.terms if _is_number(term) and term not in record.terms]
    if unknown:
        return f"its episodes do not have the number {unknown[0]}"
    swapped = _swapped_number(claim, record)
    if swapped is not None:
        return f"its episodes have the number {swapped} beside other words"
    reversed_term = _reversed_term(claim, record)
    if reversed_term is not None:
        return f"its episodes say the opposite about {reversed_term!r}"
    if _coverage(claim, record) < _MIN_COVERAGE:
        return "its episodes do not have most of its words"
    return None


def _read(texts: Iterable[str]) -> _Text:
    sentences: list[tuple[str, ...]] = []
    negated: set[str] = set()
    affirmed: set[str] = set()
    for text in texts:
        for sentence in _SENTENCE.split(text):
            terms: list[str] = []
            is_negated = False
            for term in _terms(sentence):
                if term == _NEGATION:
                    is_negated = True
                    continue
                terms.append(term)
                (negated if is_negated else affirmed).add(term)
                is_negated = False
            sentences.append(tuple(terms))
    return _Text(tuple(sentences), frozenset(negated), frozenset(affirmed))


_NEGATION = "\0not"


def _terms(sentence: str) -> Iterator[str]:
    """Yield stems and numbers in order, and `_NEGATION` for each word that negates the next one."""
    for word in _WORD.findall(sentence):
        folded = word.casefold()
        if folded in _NEGATIONS or folded.endswith(_NEGATED_ENDING):
            yield _NEGATION
        elif folded[0].isdigit():
            yield folded
        elif folded not in thesaurus.STOP_WORDS:
            yield analyser.stem(folded)


def _is_number(term: str) -> bool:
    return term[0].isdigit()


def _reversed_term(claim: _Text, record: _Text) -> str | None:
    """Return a term that one side negates and the other only affirms."""
    for term in claim.terms:
        if term in claim.negated and term in record.affirmed and term not in record.negated:
            return term
        if term in claim.affirmed - claim.negated and term in record.negated - record.affirmed:
            return term
    return None


def _coverage(claim: _Text, record: _Text) -> float:
    terms = dict.fromkeys(term for term in claim.terms if not _is_number(term))
    if not terms:
        return 1.0
    present = set(record.terms)
    return sum(_is_present(term, present) for term in terms) / len(terms)


def _is_present(term: str, present: set[str]) -> bool:
    return not present.isdisjoint(expansion.expand_terms((term,)).weights)


def _swapped_number(claim: _Text, record: _Text) -> str | None:
    """Return a number whose context in the record has another number."""
    contexts: dict[str, set[str]] = {}
    for number, words in _contexts(record):
        contexts.setdefault(number, set()).update(words)
    for number, words in _contexts(claim):
        own_overlap = len(words & contexts[number])
        if any(len(words & context) > own_overlap + _TOLERANCE for context in contexts.values()):
            return number
    return None


def _contexts(text: _Text) -> Iterator[tuple[str, set[str]]]:
    for terms in text.sentences:
        for at, term in enumerate(terms):
            if _is_number(term):
                nearby = terms[max(at - _CONTEXT, 0) : at + _CONTEXT + 1]
                yield term, {word for word in nearby if not _is_number(word)}
