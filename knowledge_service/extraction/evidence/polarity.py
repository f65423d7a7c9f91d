"""Compares what a statement denies or affirms with what the record does.

A negated word is looked for in the sentence of the record that is most like the statement: if it is
affirmed there, and nothing in its clause denies it, the record contradicts the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from knowledge_service.extraction.evidence import passages, vocabulary
from knowledge_service.extraction.evidence.passages import Negation, Passage, Word

# A statement has few negations; a hostile one may have hundreds.
_MOST_NEGATIONS = 6
_GENERAL = 0.3
_ALIKE = 0.8
_EQUALLY_LIKE = 0.15
_CLEARLY_MORE_LIKE = 0.5
_SAME_MATTER = 0.7
# A negation governs this many content words.
_SCOPE = 3
_HAS = r"\b(?:has|have|had|is|are|was|were) (?:a |an |the )?"


class Denial(Enum):
    """What the record says of a negated word: how certain it is that it says the opposite."""

    SUPPORTED = 0.0
    UNMENTIONED = 0.6
    CONTRADICTED = 1.0


@dataclass(frozen=True)
class Polarity:
    """A word that the statement denies without support, and one that it affirms against it."""

    denial: Denial
    denied_term: str | None
    reversed_term: str | None


def compare(statement: str, claim: Passage, record: Passage) -> Polarity:
    """Compare what a statement, which is also given as a passage, denies and affirms."""
    comparison = _Comparison(statement, claim, record)
    denial, denied = Denial.SUPPORTED, None
    for negation in claim.negations[:_MOST_NEGATIONS]:
        if not negation.governed or negation.is_partial or negation.word in ("without", "0"):
            continue
        found = comparison.denial(negation)
        if found.value > denial.value:
            denial, denied = found, negation.governed[0].term
    return Polarity(denial, denied, comparison.reversed_term())


class _Comparison:
    def __init__(self, statement: str, claim: Passage, record: Passage) -> None:
        self._statement, self._claim, self._record = statement, claim, record
        self._terms = set(claim.terms)
        self._obliged = {word.clause for word in claim.words if word.term in vocabulary.OBLIGATIONS}
        self._affirmed = {word.term for word in claim.words if not word.negated}
        self._affirmed_forms = {
            form for term in self._affirmed for form in passages.sought_forms(term)
        }
        self._likeness = self._likeness_of_sentences()
        self._is_later_state = vocabulary.LATER_STATE.search(statement) is not None
        self._negations: dict[int, list[Negation]] = {}
        for negation in record.negations:
            if negation.governed:
                self._negations.setdefault(negation.sentence, []).append(negation)

    def _likeness_of_sentences(self) -> dict[int, float]:
        """Return for each sentence of the record the weight of the terms that it shares."""
        likeness = dict.fromkeys(self._record.sentences, 0.0)
        for term in self._claim.terms:
            best: dict[int, float] = {}
            for word in self._record.occurrences(term):
                share = 1.0 if word.term == term or word.is_number else _ALIKE
                best[word.sentence] = max(best.get(word.sentence, 0.0), share)
            weight = 1.0 if term[0].isdigit() else passages.weight(term)
            for sentence, share in best.items():
                likeness[sentence] += weight * share
        return likeness

    def denial(self, negation: Negation) -> Denial:
        governed = [word.term for word in negation.governed]
        if self._is_double_negation(governed):
            return Denial.CONTRADICTED
        specific = [term for term in governed if passages.weight(term) > _GENERAL]
        heads = list(dict.fromkeys((governed[0], *(specific or governed)[:1])))
        found = self._mentioned_denial(heads, governed)
        if found is None:
            is_denied = any(
                self._likeness[sentence] > _GENERAL and self._denies(words, governed)
                for sentence, words in self._record.sentences.items()
            )
            found = Denial.SUPPORTED if is_denied else Denial.UNMENTIONED
        if found is Denial.CONTRADICTED and self._explains_earlier_state(heads):
            return Denial.SUPPORTED
        # What must not be is not said to have been.
        return Denial.SUPPORTED if negation.is_obliged else found

    def _is_double_negation(self, governed: list[str]) -> bool:
        """Whether "did not prevent X" stands against a record that negates X."""
        if governed[0] not in vocabulary.DENIALS:
            return False
        negated = (
            word
            for term in governed[1 : _SCOPE + 1]
            for word in self._record.occurrences(term)
            if 0 < word.negated < _SCOPE
        )
        is_denial_negated = any(word.negated for word in self._record.occurrences(governed[0]))
        return not is_denial_negated and any(negated)

    def _mentioned_denial(self, heads: list[str], governed: list[str]) -> Denial | None:
        """Return what the sentences that have a head say of it; None if none has."""
        for head in heads:
            words = self._record.occurrences(head)
            if not words:
                continue
            best = max(self._likeness[word.sentence] for word in words) - _EQUALLY_LIKE
            words = [word for word in words if self._likeness[word.sentence] >= best]
            chosen = words[-1] if self._is_later_state else words[0]
            was_changed = (
                self._is_later_state
                and not chosen.negated
                and len({word.sentence for word in words}) > 1
            )
            if not was_changed and any(_is_negated(word, head) for word in words):
                return Denial.SUPPORTED
            clause = [
                word
                for word in self._record.sentences[chosen.sentence]
                if word.clause == chosen.clause
            ]
            return Denial.SUPPORTED if self._denies(clause, governed) else Denial.CONTRADICTED
        return None

    def _denies(self, words: list[Word], governed: list[str]) -> bool:
        """Whether words of the record deny something else than the statement affirms."""
        for word in words:
            if (
                word.term in vocabulary.DENIALS
                and word.term not in self._terms
                and not any(passages.are_alike(word.term, term) for term in governed[:2])
            ):
                return True
        clauses = {word.clause for word in words}
        return any(
            negation.clause in clauses
            and passages.forms(negation.governed[0].term).isdisjoint(self._affirmed_forms)
            for negation in self._negations.get(words[0].sentence, ())
        )

    def _explains_earlier_state(self, heads: list[str]) -> bool:
        """Whether a statement with "because" denies what only the last sentence affirms."""
        if self._is_later_state or not vocabulary.CAUSE.search(self._statement):
            return False
        last = max(self._record.sentences)
        return min(self._record.sentences) != last and all(
            word.sentence == last for head in heads for word in self._record.occurrences(head)
        )

    def reversed_term(self) -> str | None:
        """Return a term that the statement affirms and the record denies."""
        has_negation = any(negation.governed for negation in self._claim.negations)
        if has_negation or self._terms & vocabulary.DENIALS:
            return None
        candidates = (
            *self._negated_verbs(),
            *self._absent_things(),
            *self._switched(),
            *self._denied_in_same_matter(),
        )
        return next(iter(candidates), None)

    def _affirmations(self) -> list[Word]:
        """Return the words that the statement affirms; "closing" is not said to have happened."""
        words = {
            (word.spelling, word.clause in self._obliged): word
            for word in self._claim.words
            if not word.negated and not word.is_number and not word.spelling.endswith("ing")
        }
        return list(words.values())

    def _negated_verbs(self) -> Iterator[str]:
        for claimed in self._affirmations():
            is_obliged = (
                claimed.clause in self._obliged and claimed.term not in vocabulary.OBLIGATIONS
            )
            if not is_obliged and self._is_negated_verb(claimed.term):
                yield claimed.term

    def _is_negated_verb(self, term: str) -> bool:
        """Whether the sentence that is most like the statement negates the verb."""
        words = [
            word
            for word in self._record.occurrences(term)
            if not passages.is_negated_form(term, word.term)
        ]
        affirming = {word.sentence for word in words if not word.negated}
        rivals = sorted(affirming, key=self._likeness.__getitem__)[-2:]
        for word in words:
            if word.negated == 1 and word.is_verb_negated:
                others = (self._likeness[rival] for rival in rivals if rival != word.sentence)
                if self._likeness[word.sentence] > max(others, default=-1.0) + _CLEARLY_MORE_LIKE:
                    return True
        return False

    def _absent_things(self) -> Iterator[str]:
        for word in self._affirmations():
            words = self._record.occurrences(word.term)
            if (
                any(other.negated == 1 for other in words)
                and all(other.negated for other in words)
                and re.search(rf"{_HAS}{re.escape(word.spelling)}\b", self._statement)
            ):
                yield word.term

    def _switched(self) -> Iterator[str]:
        positions = set(vocabulary.SWITCH_POSITION.findall(self._statement))
        recorded = {
            position
            for text in self._record.texts
            for position in vocabulary.SWITCH_POSITION.findall(text)
        }
        if positions and recorded and not positions & recorded and not self._is_later_state:
            yield from positions

    def _denied_in_same_matter(self) -> Iterator[str]:
        """Yield terms that the sentence most like the statement denies."""
        is_obliged = not self._terms.isdisjoint(vocabulary.OBLIGATIONS)
        total = sum(1.0 if term[0].isdigit() else passages.weight(term) for term in self._terms)
        if vocabulary.CONDITION.search(self._statement) or not total:
            return
        affirmed = {word.term for word in self._affirmations()}
        most = max(self._likeness.values())
        for sentence, likeness in self._likeness.items():
            if likeness / total < _SAME_MATTER:
                continue
            words = self._record.sentences[sentence]
            if not is_obliged:
                yield from _directly_negated(words, affirmed)
            terms = {word.term for word in words}
            lacking = (self._terms & vocabulary.AFFIRMATIONS) - terms
            if likeness == most and self._is_denying(sentence, terms):
                yield from sorted(lacking)

    def _is_denying(self, sentence: int, terms: set[str]) -> bool:
        denials = len(terms & vocabulary.DENIALS - self._terms)
        return (denials + len(self._negations.get(sentence, ()))) % 2 == 1


def _is_negated(word: Word, term: str) -> bool:
    """Whether a word of the record negates a term, with "not" or with "un"."""
    return 0 < word.negated <= _SCOPE or passages.is_negated_form(word.term, term)


def _directly_negated(words: Iterable[Word], terms: set[str]) -> Iterator[str]:
    for word in words:
        if word.negated == 1 and not word.is_number and word.term in terms:
            yield word.term
