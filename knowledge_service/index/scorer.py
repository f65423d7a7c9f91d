"""BM25 over postings: exhaustive, deterministic, with the statistics of what it is given.

The caller gives the stretches of the visible scopes only, and documents, lengths and frequencies
are counted in these, so nothing invisible can move a score. The postings of a document are added in
the order of the terms' numbers, wherever it is: floating point makes that part of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from knowledge_service.index import reading, terms
from knowledge_service.index.keeping import Kept
from knowledge_service.index.reading import Found, Stretch

RANKER = "fused-1"
# As is common for short passages: length says less of a sentence than of a page.
_K1 = 0.9
_B = 0.4
# Up to here the threshold is found by a partition; beyond it by the best of each chunk first.
_SMALL = 16_384
_CHUNK = 64

# Postings that are weighted at once: so few fit into a cache, so many are worth the calls.
_TOGETHER = 65_536

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """What turns postings into scores: a factor for each term, and the mean length."""

    factors: Floats
    mean: float

    def weights(self, factors: Any, lengths: Any, tf: Any) -> Any:
        """Weigh postings, one or many: each has its term's factor."""
        norm = lengths * (_K1 * _B / self.mean)
        norm += _K1 * (1 - _B)
        norm += tf
        return factors * tf / norm


_NOTHING = Scale(np.empty(0), 1.0)


@dataclass(frozen=True)
class Scores:
    """Every document of the visible scopes with its score, 0 without any term.

    Documents are named by their place: scope after scope, each in the order in which they came.
    """

    stretches: Sequence[Stretch]
    values: Floats
    terms: tuple[str, ...] = ()
    scale: Scale = _NOTHING

    def numbers(self, places: NDArray[np.intp]) -> NDArray[np.uint32]:
        """Return the numbers of the facts at some places."""
        starts = np.cumsum([0, *(len(stretch.numbers) for stretch in self.stretches)])
        owners = starts.searchsorted(places, side="right") - 1
        found = np.empty(len(places), dtype=np.uint32)
        for owner in np.unique(owners).tolist():
            own = owners == owner
            found[own] = self.stretches[owner].numbers[places[own] - starts[owner]]
        return found

    def place(self, fact_no: int) -> int | None:
        """Return the place of a fact; None when it is not in the index of these scopes."""
        base = 0
        for stretch in self.stretches:
            found = np.flatnonzero(stretch.numbers == fact_no)
            if len(found):
                return base + int(found[0])
            base += len(stretch.numbers)
        return None

    def best(self, size: int) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
        """Return the numbers and places of the best facts, equal ones by number.

        At least `size` when so many have a score, and all that score as the last of them.
        """
        places = self._reaching(size)
        numbers = self.numbers(places)
        order = np.lexsort((numbers, -self.values[places]))
        return numbers[order], places[order]

    def parts(self, fact_no: int) -> dict[str, float]:
        """Return what each term of the question gave to a fact's score."""
        found: dict[str, float] = {}
        for stretch in self.stretches:
            for place in np.flatnonzero(stretch.numbers == fact_no):
                length = float(stretch.lengths[place])
                for term, places, frequencies in stretch.found:
                    spot = int(places.searchsorted(place))
                    if spot < len(places) and places[spot] == place:
                        factor, tf = float(self.scale.factors[term]), int(frequencies[spot])
                        found[self.terms[term]] = self.scale.weights(factor, length, tf)
        return found

    def _reaching(self, size: int) -> NDArray[np.intp]:
        values = self.values
        if size < len(values) // _CHUNK and len(values) > _SMALL:
            chosen = _in_best_chunks(values, size)
        else:
            chosen = np.flatnonzero(values)
        if 0 < size < len(chosen):
            found = values[chosen]
            floor = np.partition(found, len(found) - size)[len(found) - size]
            chosen = chosen[found >= floor]
        return chosen


def _in_best_chunks(values: Floats, size: int) -> NDArray[np.intp]:
    """Return the places of at least the best `size`, looking through few chunks of documents."""
    count = len(values) // _CHUNK
    # A chunk has every `count`th document, so that the tops of all are found together.
    tops = values[: count * _CHUNK].reshape(_CHUNK, count).max(axis=0)
    # So many chunks have a value of at least this, hence so many documents have.
    floor = np.partition(tops, count - size)[count - size] if size else 0.0
    if floor <= 0:
        return np.flatnonzero(values)
    chunks = np.flatnonzero(tops >= floor)
    near = (chunks[:, np.newaxis] + np.arange(_CHUNK) * count).ravel()
    near = np.append(near, np.arange(count * _CHUNK, len(values)))
    found: NDArray[np.intp] = near[values[near] >= floor]
    return found


def search(
    source: reading.Source, kept: Kept, scope_nos: Iterable[int], question: Mapping[str, float]
) -> Scores:
    """Score the documents of some scopes; nothing outside of these is read.

    The question says what each of its terms weighs. What was decoded before is taken from `kept`,
    and left there.
    """
    ascending = sorted((terms.number(term), term) for term in question)
    asked = np.array([number for number, _ in ascending], dtype=np.int64)
    found = [reading.stretches(source, kept, number, asked) for number in sorted(scope_nos)]
    stretches = list(chain.from_iterable(found))
    return _scores(stretches, tuple(term for _, term in ascending), question)


def _scores(
    stretches: Sequence[Stretch], words: tuple[str, ...], question: Mapping[str, float]
) -> Scores:
    documents = sum([len(stretch.numbers) for stretch in stretches])
    scale = _scale(stretches, documents, [question[word] for word in words])
    values = np.empty(documents)
    base = 0
    for together in _batches(stretches):
        end = base + sum([len(stretch.numbers) for stretch in together])
        values[base:end] = _values(together, end - base, scale)
        base = end
    return Scores(stretches, values, words, scale)


def _scale(stretches: Sequence[Stretch], documents: int, asked_for: Sequence[float]) -> Scale:
    df = np.zeros(len(asked_for))
    for stretch in stretches:
        for term, places, _ in stretch.found:
            df[term] += len(places)
    idf = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    idf *= asked_for
    length = sum([stretch.total_length for stretch in stretches])
    return Scale(idf * (_K1 + 1), max(length / max(documents, 1), 1e-9))


def _batches(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    batch: list[Stretch] = []
    postings = 0
    for stretch in stretches:
        batch.append(stretch)
        postings += sum([len(places) for _, places, _ in stretch.found])
        if postings >= _TOGETHER:
            yield batch
            batch, postings = [], 0
    if batch:
        yield batch


def _values(stretches: Sequence[Stretch], documents: int, scale: Scale) -> Floats:
    """Add up what each posting gives its document, in the order of the terms."""
    found: list[Found] = []
    bases: list[int] = []
    base = 0
    for stretch in stretches:
        found += stretch.found
        bases += [base] * len(stretch.found)
        base += len(stretch.numbers)
    if not found:
        return np.zeros(documents)
    sizes = [len(places) for _, places, _ in found]
    lengths = np.concatenate([stretch.lengths for stretch in stretches])
    places = np.repeat(np.array(bases, dtype=np.int32), sizes)
    places += np.concatenate([places for _, places, _ in found])
    tf = np.concatenate([frequencies for _, _, frequencies in found])
    factors = np.repeat(scale.factors[[term for term, _, _ in found]], sizes)
    weights = scale.weights(factors, lengths[places], tf)
    values: Any = np.bincount(places, weights=weights, minlength=documents)
    return cast("Floats", values)
