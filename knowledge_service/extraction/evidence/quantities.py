"""Compares the numbers of a statement with those of the record: value, unit, order and place.

The place of a number is the words near it. Words of the sentences before belong to it, too, because
a record tells what was done and then what it brought.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from knowledge_service.extraction.evidence import arithmetic, passages, vocabulary
from knowledge_service.extraction.evidence.passages import Passage, Word

# At most this many numbers are compared by their place, the others by their value only.
_MOST_RECORDED, _MOST_CLAIMED = 200, 8
_WORDS_BEFORE, _WORDS_AFTER, _SENTENCES_BEFORE = 30, 13, 3
# The distance, in words, at which a word counts half.
_REACH = 8.0
_REACH_AMONG_SEVERAL = 2.0
_CLAUSE_DISTANCE, _SENTENCE_DISTANCE = 2.0, 1.0
_ALIKE = 0.8
_GENERAL = 0.3
_ADJACENT = 0.5
_FIGURE = r"\d{1,20}(?:[-.:,]\d{1,20}){0,8}"
_FROM_TO = re.compile(
    rf"from \S{{0,20}}?({_FIGURE})\S{{0,20}}(?: [^\W\d]{{1,20}})? to \S{{0,20}}?({_FIGURE})"
    rf"|to \S{{0,20}}?({_FIGURE})\S{{0,20}}(?: [^\W\d]{{1,20}})? from \S{{0,20}}?({_FIGURE})"
)
_INSTEAD_OF = re.compile(rf"({_FIGURE})[^\W\d]{{0,20}}(?: [^\W\d]{{1,20}})? instead of ({_FIGURE})")
_JOINT = re.compile(r"[-:]")
_PART_OF = re.compile(r"\b(\d+) (?:out )?of (?:the )?(\d+)\b")
_STATE_AFTER = re.compile(r"^(?:After|With|Once|Since|Now|On|Using)\b|\b(?:now|once|since)\b")
_CHANGE_TO = re.compile(
    r"(?:reduc|cut|rais|bring|brought|lower|increas|dropp?|fell|fall|rose|rise|gr[eo]w|shr[aiu]nk"
    r"|shorten|chang|set|went|goes|mov)\w*\b.*\bto \d",
    re.IGNORECASE,
)
_EARLIER_VALUE = re.compile(rf"(?:from|of|than|instead of|without|after|before) ({_FIGURE})")


@dataclass(frozen=True)
class Quantities:
    """What is wrong with the numbers of a statement; a number in question, if any.

    `underivable` is a missing number that does not follow from others by a conversion or a sum.
    `misplaced` is how much better the place of a number fits another number of the record.
    """

    missing: str | None
    underivable: str | None
    is_other_unit: bool
    is_reversed: bool
    is_earlier_state: bool
    misplaced: float
    misplaced_number: str | None


@dataclass(frozen=True)
class _Occurrence:
    number: str
    is_amount: bool
    unit: str
    previous: str
    following: str
    sentence: int
    nearness: dict[str, float]
    """How near each term is, from 0 to 1."""
    own_terms: frozenset[str]
    """The terms of its sentence."""

    @functools.cached_property
    def nearness_of_forms(self) -> dict[str, float]:
        nearness: dict[str, float] = {}
        for term, near in self.nearness.items():
            for form in passages.forms(term):
                nearness[form] = max(nearness.get(form, 0.0), near)
        return nearness

    @property
    def dimension(self) -> str:
        return vocabulary.DIMENSIONS.get(self.unit, "")


def compare(statement: str, claim: Passage, record: Passage) -> Quantities:
    """Compare the numbers of a statement, which is also given as a passage."""
    numbers = {
        part
        for word in record.words
        if word.is_number
        for part in (word.term, *_JOINT.split(word.term))
    }
    missing = [
        word.term
        for word in claim.words
        if word.is_number and word.spelling[0].isdigit() and word.term not in numbers
    ]
    of_record = _occurrences(record, _REACH)
    derivable = _derivable(claim, of_record) if missing else frozenset()
    misplaced, number = _misplaced(claim, of_record)
    return Quantities(
        missing[0] if missing else None,
        next((number for number in missing if number not in derivable), None),
        _is_other_unit(claim, of_record),
        _is_reversed(statement, record),
        _is_earlier_state(statement, claim, of_record),
        misplaced,
        number,
    )


def _derivable(claim: Passage, of_record: Sequence[_Occurrence]) -> frozenset[str]:
    recorded = [amount for it in of_record if (amount := _amount(it))]
    claimed = _occurrences(claim, _REACH)
    underivable = {
        it.number
        for it in claimed
        if not ((amount := _amount(it)) and arithmetic.follows(amount, recorded))
    }
    return frozenset(it.number for it in claimed) - underivable


def _amount(occurrence: _Occurrence) -> arithmetic.Amount | None:
    return arithmetic.amount(occurrence.number, occurrence.unit, occurrence.following)


def _occurrences(passage: Passage, reach: float) -> list[_Occurrence]:
    places = [at for at, word in enumerate(passage.words) if word.is_number]
    terms = {
        sentence: frozenset(word.term for word in words if not word.is_number)
        for sentence, words in passage.sentences.items()
    }
    return [_occurrence(passage.words, at, reach, terms) for at in places[:_MOST_RECORDED]]


def _occurrence(
    words: Sequence[Word], at: int, reach: float, terms: dict[int, frozenset[str]]
) -> _Occurrence:
    number = words[at]
    previous = words[at - 1] if at and words[at - 1].sentence == number.sentence else None
    following = words[at + 1] if at + 1 < len(words) else None
    if following is not None and following.sentence != number.sentence:
        following = None
    nearness: dict[str, float] = {}
    for term, distance in (*_before(words, at), *_after(words, at)):
        nearness[term] = max(nearness.get(term, 0.0), 1 / (1 + distance / reach))
    following_term = following.term if following else ""
    return _Occurrence(
        number.term,
        number.is_amount,
        following_term if following_term in vocabulary.DIMENSIONS else "",
        previous.term if previous else "",
        following_term,
        number.sentence,
        nearness,
        terms[number.sentence],
    )


def _before(words: Sequence[Word], at: int) -> Iterator[tuple[str, float]]:
    number, distance = words[at], 0.0
    for word in reversed(words[max(at - _WORDS_BEFORE, 0) : at]):
        sentences = number.sentence - word.sentence
        if sentences > _SENTENCES_BEFORE:
            return
        if word.is_number:
            distance += 0.5
            continue
        extra = _SENTENCE_DISTANCE * sentences
        if not sentences and word.clause != number.clause:
            extra = _CLAUSE_DISTANCE
        yield word.term, distance + extra
        distance += 1


def _after(words: Sequence[Word], at: int) -> Iterator[tuple[str, float]]:
    number, distance = words[at], 0.0
    for word in words[at + 1 : at + 1 + _WORDS_AFTER]:
        if word.sentence != number.sentence:
            return
        if not word.is_number:
            yield word.term, distance + _CLAUSE_DISTANCE * (word.clause != number.clause)
        distance += 1


def _fit(claimed: _Occurrence, other: _Occurrence) -> float:
    """Return how well the words near one number fit those near another, from 0 to about 2."""
    total = shared = 0.0
    for term, near in claimed.nearness.items():
        weight = near * passages.weight(term)
        total += weight
        shared += weight * _nearness(term, other)
    for own, others in ((claimed.following, other.following), (claimed.previous, other.previous)):
        if own and own == others:
            shared += _ADJACENT * passages.weight(own)
    return shared / (total + 1)


def _nearness(term: str, occurrence: _Occurrence) -> float:
    if term in occurrence.nearness:
        return occurrence.nearness[term]
    nearness = occurrence.nearness_of_forms
    return _ALIKE * max(nearness.get(form, 0.0) for form in passages.sought_forms(term))


def _misplaced(claim: Passage, of_record: Sequence[_Occurrence]) -> tuple[float, str | None]:
    """Return the number whose place another number fits best, and by how much it fits better."""
    recorded = {it.number for it in of_record}
    claimed = {
        it.number: it
        for it in _occurrences(claim, _REACH)[:_MOST_CLAIMED]
        if it.is_amount and it.number in recorded
    }
    fits = {number: _best_fits(it, of_record) for number, it in claimed.items()}
    narrow_fits = {
        it.number: _best_fits(it, of_record)
        for it in _occurrences(claim, _REACH_AMONG_SEVERAL)
        if it.number in claimed and len(claimed) > 1
    }
    worst, misplaced = 0.0, None
    for number, occurrence in claimed.items():
        for other in _rivals(occurrence, of_record):
            if other in claimed:
                advantage = _advantage_of_exchange(narrow_fits, number, other)
            else:
                advantage = fits[number][other] - fits[number][number]
            if advantage > worst:
                worst, misplaced = advantage, number
    return worst, misplaced


def _advantage_of_exchange(
    fits: Mapping[str, Mapping[str, float]], first: str, second: str
) -> float:
    exchanged = fits[first][second] + fits[second][first]
    return exchanged - fits[first][first] - fits[second][second]


def _best_fits(claimed: _Occurrence, of_record: Sequence[_Occurrence]) -> dict[str, float]:
    fits: dict[str, float] = {}
    for it in of_record:
        fits[it.number] = max(fits.get(it.number, 0.0), _fit(claimed, it))
    return fits


def _rivals(claimed: _Occurrence, of_record: Sequence[_Occurrence]) -> dict[str, None]:
    return {
        it.number: None
        for it in of_record
        if it.is_amount
        and it.number != claimed.number
        and (not claimed.dimension or it.dimension in ("", claimed.dimension))
    }


def _is_other_unit(claim: Passage, of_record: Sequence[_Occurrence]) -> bool:
    units: dict[str, set[str]] = {}
    for it in of_record:
        units.setdefault(it.number, set()).add(it.unit)
    return any(
        it.unit and it.is_amount and it.number in units and not {"", it.unit} & units[it.number]
        for it in _occurrences(claim, _REACH)
    )


def _is_reversed(statement: str, record: Passage) -> bool:
    """Whether "from A to B" or "A of B" stands the other way round in the record."""
    recorded_pairs = {pair for text in record.texts for pair in _changes(text)}
    numbers = [word.term for word in record.words if word.is_number]
    first = {number: at for at, number in reversed(list(enumerate(numbers)))}
    last = {number: at for at, number in enumerate(numbers)}
    for old, new in _changes(statement):
        if (new, old) in recorded_pairs:
            return True
        if (old, new) in recorded_pairs or not (old in first and new in last):
            continue
        if first[old] > last[new]:
            return True
    parts = {match.groups() for text in record.texts for match in _PART_OF.finditer(text)}
    return any((match[2], match[1]) in parts for match in _PART_OF.finditer(statement))


def _changes(text: str) -> Iterator[tuple[str, str]]:
    for match in _FROM_TO.finditer(text):
        old, new = (match[1], match[2]) if match[1] else (match[4], match[3])
        yield old.replace(",", ""), new.replace(",", "")
    for match in _INSTEAD_OF.finditer(text):
        yield match[2].replace(",", ""), match[1].replace(",", "")


def _is_earlier_state(statement: str, claim: Passage, of_record: Sequence[_Occurrence]) -> bool:
    """Whether a statement about the state after a change has a number from before it."""
    if not (_STATE_AFTER.search(statement) or _CHANGE_TO.search(statement)):
        return False
    earlier = {match[1].replace(",", "") for match in _EARLIER_VALUE.finditer(statement)}
    claimed = [it for it in _occurrences(claim, _REACH) if it.is_amount]
    numbers = {it.number for it in claimed}
    last = {it.number: (at, it) for at, it in enumerate(of_record)}
    for it in claimed:
        if it.number in earlier or it.number not in last:
            continue
        at, recorded = last[it.number]
        for later in of_record[at + 1 :]:
            if later.is_amount and later.number not in numbers and _measures_same(recorded, later):
                return True
    return False


def _measures_same(recorded: _Occurrence, later: _Occurrence) -> bool:
    if later.sentence == recorded.sentence:
        return False
    if recorded.following and recorded.following == later.following:
        return True
    if not recorded.dimension or recorded.dimension != later.dimension:
        return False
    return any(passages.weight(term) > _GENERAL for term in recorded.own_terms & later.own_terms)
