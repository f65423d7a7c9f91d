"""Reads a text as content words in order, each with its sentence, its clause and its negation."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from knowledge_service.extraction.evidence import vocabulary
from knowledge_service.search import thesaurus
from knowledge_service.search.query import expansion
from knowledge_service.search.ranking import word_vectors
from knowledge_service.search.text import analyser

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019]t)?|\d+(?:[-.:,]\d+)*|[,;:()%]|[.!?](?=\s|$)|\n")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_CONSTITUENT = re.compile(r"(?:\b(?:but|and|or|rather)|,) $")
_ZERO_OF = re.compile(r" ([a-z]+)")
_GENERAL_WEIGHT = 0.25
# Terms with this many equal letters at their start count as forms of one word.
_SAME_START = 6


@dataclass(frozen=True, slots=True)
class Word:
    """A content word or a number.

    `negated` counts the content words from a negation in the same clause, from 1; 0 without one.
    """

    place: int
    spelling: str
    term: str
    start: int
    sentence: int
    clause: int
    negated: int
    is_verb_negated: bool
    is_number: bool
    # A number in an identifier such as `web-0` counts nothing.
    is_amount: bool


@dataclass(frozen=True, slots=True)
class Negation:
    """A word that negates, and the content words after it in its clause."""

    word: str
    sentence: int
    clause: int
    # "not" in "from the cache and not from the disk" negates a part of a sentence.
    is_partial: bool
    is_obliged: bool
    governed: list[Word] = field(default_factory=list)


@dataclass(frozen=True)
class Passage:
    """The content words and negations of texts in order."""

    texts: tuple[str, ...]
    words: tuple[Word, ...]
    negations: tuple[Negation, ...]

    @functools.cached_property
    def terms(self) -> frozenset[str]:
        """The different terms."""
        return frozenset(word.term for word in self.words)

    @functools.cached_property
    def _by_form(self) -> dict[str, list[Word]]:
        by_form: dict[str, list[Word]] = {}
        for word in self.words:
            for form in forms(word.term):
                by_form.setdefault(form, []).append(word)
        return by_form

    def has(self, term: str) -> bool:
        """Whether the term, a form of it or a related term occurs."""
        return any(form in self._by_form for form in sought_forms(term))

    def occurrences(self, term: str) -> list[Word]:
        """Return the words with the term, a form of it or a related term, in order."""
        if term not in self._occurrences:
            found = (self._by_form.get(form, ()) for form in sought_forms(term))
            places = sorted({word.place for words in found for word in words})
            self._occurrences[term] = [self.words[place] for place in places]
        return self._occurrences[term]

    @functools.cached_property
    def _occurrences(self) -> dict[str, list[Word]]:
        return {}

    @functools.cached_property
    def sentences(self) -> dict[int, list[Word]]:
        """The words of each sentence that has any."""
        sentences: dict[int, list[Word]] = {}
        for word in self.words:
            sentences.setdefault(word.sentence, []).append(word)
        return sentences


def are_alike(first: str, second: str) -> bool:
    """Whether two terms are equal, forms of one word, or related."""
    return not forms(second).isdisjoint(sought_forms(first))


@functools.lru_cache(maxsize=8192)
def forms(term: str) -> frozenset[str]:
    """Return the keys by which `sought_forms` of a like term finds this one."""
    keys = {term, f"-{_bare(term)}"}
    if len(term) >= _SAME_START:
        keys.add(f"{term[:_SAME_START]}*")
    if len(term) >= _SAME_START - 1:
        keys.add(f"{term[: _SAME_START - 1]}+")
    return frozenset(keys)


@functools.lru_cache(maxsize=8192)
def sought_forms(term: str) -> frozenset[str]:
    """Return the keys by which words like the term are found."""
    keys = {*expansion.expand_terms((term,)).weights, f"-{_bare(term)}"}
    if len(term) >= _SAME_START:
        keys |= {f"{term[:_SAME_START]}*", term[: _SAME_START - 1]}
    if len(term) == _SAME_START - 1:
        keys.add(f"{term}+")
    return frozenset(keys)


def _bare(term: str) -> str:
    return vocabulary.NEGATING_PREFIX.sub("", term, count=1)


def is_negated_form(term: str, of: str) -> bool:
    """Whether a prefix such as "un" makes the term the opposite of another."""
    return term != of and _bare(term) == of


@functools.lru_cache(maxsize=8192)
def weight(term: str) -> float:
    """Return how much a term says: from 0.25, for a general word, to 1, for a rare one."""
    if term in vocabulary.GENERAL:
        return _GENERAL_WEIGHT
    rank = word_vectors.OF_CONTEXTS.frequency_rank(term)
    rarity = math.log(rank + 20) / math.log(word_vectors.OF_CONTEXTS.term_count + 20)
    return expansion.expand_terms((term,)).weights[term] * (0.4 + 0.6 * rarity)


def read(texts: Sequence[str]) -> Passage:
    """Read texts; each begins a sentence."""
    reader = _Reader()
    for text in texts:
        reader.read(text)
    return Passage(tuple(texts), tuple(reader.words), tuple(reader.negations))


class _Reader:
    def __init__(self) -> None:
        self.words: list[Word] = []
        self.negations: list[Negation] = []
        self._sentence = self._clause = 0
        self._open: Negation | None = None
        self._is_obliged = False

    def read(self, text: str) -> None:
        for match in _WORD.finditer(text):
            folded = match.group().casefold()
            if folded in ".!?;\n":
                self._begin_sentence()
            elif folded in ",:()" or folded in vocabulary.CONJUNCTIONS:
                self._begin_clause()
            elif folded in vocabulary.NEGATIONS or folded.endswith(vocabulary.NEGATED_ENDINGS):
                before = text[max(match.start() - 8, 0) : match.start()]
                self._negate(folded, is_partial=_CONSTITUENT.search(before) is not None)
            elif folded not in thesaurus.STOP_WORDS:
                self._add("percent" if folded == "%" else folded, match, text)
        self._begin_sentence()

    def _begin_sentence(self) -> None:
        self._sentence += 1
        self._is_obliged = False
        self._begin_clause()

    def _begin_clause(self) -> None:
        self._clause += 1
        self._open = None

    def _negate(self, word: str, *, is_partial: bool) -> None:
        self._open = Negation(
            word, self._sentence, self._clause, is_partial and word == "not", self._is_obliged
        )
        self.negations.append(self._open)

    def _add(self, folded: str, match: re.Match[str], text: str) -> None:
        is_figure = folded[0].isdigit()
        term = _THOUSANDS.sub("", folded) if is_figure else analyser.stem(folded)
        is_number = term[0].isdigit()
        if not is_number:
            term = vocabulary.UNITS.get(folded, term)
        if term in vocabulary.OBLIGATIONS and self._open is None:
            self._is_obliged = True
        before = text[max(match.start() - 2, 0) : match.start()]
        word = Word(
            len(self.words),
            folded,
            term,
            match.start(),
            self._sentence,
            self._clause,
            len(self._open.governed) + 1 if self._open else 0,
            self._open is not None
            and (
                self._open.word in vocabulary.VERB_NEGATIONS
                or self._open.word.endswith(vocabulary.NEGATED_ENDINGS)
            ),
            is_number,
            is_number and not (is_figure and _is_inside_identifier(before)),
        )
        self.words.append(word)
        if self._open is not None:
            self._open.governed.append(word)
        if folded == "0" and before[-1:] in ("", " ", "(") and _counts_things(text, match.end()):
            self._negate(folded, is_partial=False)


def _is_inside_identifier(before: str) -> bool:
    return before[-1:].isalpha() or (before[-1:] in tuple("-_@") and before[:1].isalnum())


def _counts_things(text: str, at: int) -> bool:
    following = _ZERO_OF.match(text, at)
    return following is not None and following[1] not in vocabulary.UNITS


def distinct_terms(words: Iterable[Word]) -> Sequence[str]:
    """Return the terms of words, each once, in order."""
    return tuple(dict.fromkeys(word.term for word in words))
