"""BM25 over packed rows: exhaustive, deterministic, with the statistics of what it is given.

The caller gives the rows of the visible scopes only, and documents, lengths and frequencies are
counted in these, so nothing invisible can move a score. The postings of a document are added in the
order of the terms' numbers, wherever it is stored: floating point makes that part of the result.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge_service.index import terms
from knowledge_service.index.segments import WHOLE, Row

RANKER = "fused-1"
# As is common for short passages: length says less of a sentence than of a page.
_K1 = 0.9
_B = 0.4
_HEAD = struct.Struct("<III")
_DOCUMENTS, _TERM, _COUNT, _PLACE = 4, 8, 2, 2
_MASK = 1023
# Up to here the threshold is found by a partition; beyond it by the best of each chunk first.
_SMALL = 16_384
_CHUNK = 64

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Scores:
    """Every document of the visible scopes: fact numbers and scores, 0 without any term.

    `hits` are the postings of the question: term (by its place in `terms`), document, weight.
    """

    numbers: NDArray[np.uint32]
    values: Floats
    terms: tuple[str, ...]
    hits: tuple[Whole, Whole, Floats]

    def best_first(self, first: int) -> Iterator[tuple[int, float]]:
        """Yield (fact number, score), best first, equal ones by fact number.

        Only the best `first` are sorted until more are asked for.
        """
        yielded = 0
        for size in (first, len(self.values)):
            facts, values = self.best(size)
            yield from zip(facts[yielded:], values[yielded:], strict=True)
            yielded = max(yielded, len(facts))

    def best(self, size: int) -> tuple[list[int], list[float]]:
        """Return the best facts and their scores, at least `size` when there are so many.

        All facts that score as the last one are among them.
        """
        chosen = self.at_least(size)
        numbers, values = self.numbers[chosen], self.values[chosen]
        order = np.lexsort((numbers, -values))
        return numbers[order].tolist(), values[order].tolist()

    def parts(self, fact_no: int) -> dict[str, float]:
        """Return what each term of the question gave to a fact's score."""
        which, places, weights = self.hits
        found = np.flatnonzero(self.numbers[places] == fact_no)
        return {self.terms[which[place]]: float(weights[place]) for place in found}

    def at_least(self, size: int) -> NDArray[np.intp]:
        """Return the places of the best `size`, and of all that score as the last of them."""
        values = self.values
        if size < len(values) // _CHUNK and len(values) > _SMALL:
            whole = len(values) - len(values) % _CHUNK
            # So many chunks have a value of at least this, hence so many documents have.
            tops = values[:whole].reshape(-1, _CHUNK).max(axis=1)
            floor = np.partition(tops, len(tops) - size)[len(tops) - size] if size else 0.0
            chosen = np.flatnonzero(values >= floor) if floor > 0 else np.flatnonzero(values)
        else:
            chosen = np.flatnonzero(values)
        if 0 < size < len(chosen):
            found = values[chosen]
            floor = np.partition(found, len(found) - size)[len(found) - size]
            chosen = chosen[found >= floor]
        return chosen


def score(scopes: Sequence[Sequence[Row]], question: Mapping[str, float]) -> Scores:
    """Score the documents of some scopes, each given by its rows.

    The question says what each of its terms weighs.

    The rows of a scope are ordered by bucket and first document; rows without a term of the
    question may be left out unless they hold documents.
    """
    asked = sorted((terms.number(term), term) for term in question)
    words = tuple(term for _, term in asked)
    documents = [row for rows in scopes for row in rows if row.bucket == WHOLE]
    numbers = np.frombuffer(b"".join([_numbers(row) for row in documents]), "<u4")
    lengths = np.frombuffer(b"".join([_lengths(row) for row in documents]), "<u2")
    nothing = np.empty(0, dtype=np.int64)
    if not asked or not len(numbers):
        return Scores(numbers, np.zeros(len(numbers)), words, (nothing, nothing, np.empty(0)))
    which, places, tf = _match(scopes, np.array([number for number, _ in asked], dtype=np.int64))
    df = np.bincount(which, minlength=len(asked))
    idf = np.log(1 + (len(numbers) - df + 0.5) / (df + 0.5))
    idf *= [question[word] for word in words]
    mean = max(float(lengths.sum(dtype=np.int64)) / len(numbers), 1e-9)
    norm = lengths[places] * (_K1 * _B / mean)
    norm += _K1 * (1 - _B)
    norm += tf
    weights = (idf * (_K1 + 1))[which]
    weights *= tf
    weights /= norm
    counted = np.bincount(places, weights=weights, minlength=len(numbers))
    values = counted.astype(np.float64, copy=False)
    return Scores(numbers, values, words, (which, places, weights))


def _match(scopes: Sequence[Sequence[Row]], asked: Whole) -> tuple[Whole, Whole, NDArray[np.uint8]]:
    """Find the postings of the asked terms: which term, which document, how often."""
    rows, bases, base = [], [], 0
    for scope in scopes:
        documents = 0
        for row in scope:
            rows.append(row.data)
            bases.append(base + row.first)
            if row.bucket == WHOLE:
                documents = max(documents, row.first + row.size)
        base += documents
    heads = [_HEAD.unpack_from(data) for data in rows]
    sections = [_sections(data, u, m) for data, (_, u, m) in zip(rows, heads, strict=True)]
    held = np.frombuffer(b"".join([s[0] for s in sections]), "<i8")
    counts = np.frombuffer(b"".join([s[1] for s in sections]), "<u2")
    places = np.frombuffer(b"".join([s[2] for s in sections]), "<u2")
    frequencies = np.frombuffer(b"".join([s[3] for s in sections]), "u1")
    # A table of the last bits lets few pass; only these are looked up.
    table = np.zeros(_MASK + 1, dtype=bool)
    table[asked & _MASK] = True
    likely = np.flatnonzero(table[held & _MASK])
    found = np.searchsorted(asked, held[likely])
    found[found == len(asked)] = 0
    is_asked = asked[found] == held[likely]
    chosen, found = likely[is_asked], found[is_asked]
    sizes = counts[chosen].astype(np.int64)
    starts = (np.cumsum(counts, dtype=np.int64) - counts)[chosen]
    row_of = np.searchsorted(np.cumsum([u for _, u, _ in heads]), chosen, side="right")
    offsets = np.array(bases, dtype=np.int64)[row_of]
    before = np.cumsum(sizes) - sizes
    spots = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
    found_places = places[spots] + np.repeat(offsets, sizes)
    return np.repeat(found, sizes), found_places, frequencies[spots]


def _sections(data: bytes, u: int, m: int) -> tuple[bytes, bytes, bytes, bytes]:
    a = _HEAD.size + _TERM * u
    b = a + _COUNT * u
    c = b + _PLACE * m
    return data[_HEAD.size : a], data[a:b], data[b:c], data[c : c + m]


def _numbers(row: Row) -> bytes:
    return row.data[-6 * row.size : -2 * row.size]


def _lengths(row: Row) -> bytes:
    return row.data[-2 * row.size :]
