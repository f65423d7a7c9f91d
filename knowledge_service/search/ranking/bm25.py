"""BM25 over postings: exhaustive, deterministic, with the statistics of what it is given.

The caller gives the visible scopes only, and documents, lengths and frequencies
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

from knowledge_service.search.postings import reader
from knowledge_service.search.postings.cache import Kept
from knowledge_service.search.postings.reader import Columns, Texts
from knowledge_service.search.text import term_ids

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
        """Weigh postings, one or many: each has its term's factor, where its weight is put."""
        norm = lengths * (_K1 * _B / self.mean)
        norm += _K1 * (1 - _B)
        norm += tf
        factors *= tf
        factors /= norm
        return factors


_NOTHING = Scale(np.empty(0), 1.0)


@dataclass(frozen=True)
class Scores:
    """Every document of the visible scopes with its score, 0 without any term.

    Documents are named by their place: scope after scope, each in the order in which they came.
    """

    scopes: Sequence[Texts]
    values: Floats
    terms: tuple[str, ...] = ()
    scale: Scale = _NOTHING

    def numbers(self, places: NDArray[np.intp]) -> NDArray[np.uint32]:
        """Return the numbers of the facts at some places, which ascend."""
        found = np.empty(len(places), dtype=np.uint32)
        base = done = 0
        for piece in chain.from_iterable([scope.numbers for scope in self.scopes]):
            if done == len(places):
                break
            end = int(places.searchsorted(base + len(piece)))
            if end > done:
                found[done:end] = piece[places[done:end] - base]
            base, done = base + len(piece), end
        return found

    def place(self, fact_no: int) -> int | None:
        """Return the place of a fact; None when it is not in the index of these scopes."""
        base = 0
        for piece in chain.from_iterable([scope.numbers for scope in self.scopes]):
            found = np.flatnonzero(piece == fact_no)
            if len(found):
                return base + int(found[0])
            base += len(piece)
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
        place = self.place(fact_no)
        base = 0
        for scope in self.scopes:
            if place is not None and base <= place < base + scope.count:
                return dict(self._parts(scope, place - base))
            base += scope.count
        return {}

    def _parts(self, scope: Texts, place: int) -> Iterator[tuple[str, float]]:
        for term, first, (places, frequencies, lengths) in scope.found:
            spot = int(places.searchsorted(place - first))
            if spot < len(places) and places[spot] == place - first:
                factor, length = float(self.scale.factors[term]), float(lengths[spot])
                yield self.terms[term], self.scale.weights(factor, length, int(frequencies[spot]))

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
        chosen.sort()
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
    source: reader.Source, kept: Kept, scope_nos: Iterable[int], question: Mapping[str, float]
) -> Scores:
    """Score the documents of some scopes; nothing outside of these is read.

    The question says what each of its terms weighs. What was decoded before is taken from `kept`,
    and left there.
    """
    ascending = sorted((term_ids.number(term), term) for term in question)
    asked = np.array([number for number, _ in ascending], dtype=np.int64)
    found = reader.read(source, kept, sorted(scope_nos), asked)
    return _scores(found, tuple([term for _, term in ascending]), question)


def _scores(
    scopes: Sequence[Texts], words: tuple[str, ...], question: Mapping[str, float]
) -> Scores:
    documents = sum([scope.count for scope in scopes])
    live = sum([scope.live for scope in scopes])
    scale = _scale(scopes, live, [question[word] for word in words])
    batches = list(_batches(scopes))
    if len(batches) == 1:
        return Scores(scopes, _values(scopes, scale), words, scale)
    values = np.empty(documents)
    base = 0
    for together in batches:
        found = _values(together, scale)
        values[base : base + len(found)] = found
        base += len(found)
    return Scores(scopes, values, words, scale)


def _scale(scopes: Sequence[Texts], documents: int, asked_for: Sequence[float]) -> Scale:
    counts = [0] * len(asked_for)
    for scope in scopes:
        for term, _, postings in scope.found:
            counts[term] += len(postings.places)
    df = np.array(counts, dtype=np.float64)
    idf = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    idf *= asked_for
    length = sum([scope.total_length for scope in scopes])
    return Scale(idf * (_K1 + 1), max(length / max(documents, 1), 1e-9))


def _batches(scopes: Sequence[Texts]) -> Iterator[list[Texts]]:
    batch: list[Texts] = []
    postings = 0
    for scope in scopes:
        batch.append(scope)
        postings += sum([len(each.postings.places) for each in scope.found])
        if postings >= _TOGETHER:
            yield batch
            batch, postings = [], 0
    if batch:
        yield batch


def _values(scopes: Sequence[Texts], scale: Scale) -> Floats:
    """Add up what each posting gives its document, in the order of the terms."""
    terms: list[int] = []
    bases: list[int] = []
    columns: list[Columns] = []
    base = 0
    for scope in scopes:
        for term, first, postings in scope.found:
            terms.append(term)
            bases.append(base + first)
            columns.append(postings)
        base += scope.count
    if not columns:
        return np.zeros(base)
    places, tf, lengths = [np.concatenate(column) for column in zip(*columns, strict=True)]
    sizes = [len(postings.places) for postings in columns]
    places += np.repeat(np.array(bases, dtype=np.int32), sizes)
    weights = scale.weights(np.repeat(scale.factors[terms], sizes), lengths, tf)
    values: Any = np.bincount(places, weights=weights, minlength=base)
    return cast("Floats", values)
