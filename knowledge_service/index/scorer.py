"""BM25 over posting arrays: exhaustive, deterministic, with the statistics it is given.

The caller sums documents and lengths over the visible scopes only, so nothing invisible can move a
score. Terms are added in alphabetical order: floating point makes the order of additions part of
the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge_service.index.postings import Postings

RANKER = "bm25-1"
_K1 = 1.2
_B = 0.75
# A dense accumulator costs 8 bytes per number between the first and last fact; past 16 M it would
# be 128 MiB.
_DENSE_SPAN = 16_000_000


@dataclass(frozen=True)
class Statistics:
    """Documents and the sum of their lengths over the visible scopes."""

    docs: int
    total_length: int


@dataclass(frozen=True)
class Scores:
    """The facts that hold at least one term, with their scores, in no particular order."""

    facts: NDArray[np.int64]
    values: NDArray[np.float64]

    def best_first(self, first: int) -> Iterator[tuple[int, float]]:
        """Yield (fact number, score), best first, equal ones by fact number.

        Only the best `first` are sorted until more are asked for.
        """
        yielded = 0
        for size in (first, len(self.facts)):
            chosen = self._at_least(size)
            order = np.lexsort((self.facts[chosen], -self.values[chosen]))
            for position in chosen[order][yielded:]:
                yielded += 1
                yield int(self.facts[position]), float(self.values[position])

    def _at_least(self, size: int) -> NDArray[np.intp]:
        if size >= len(self.values):
            return np.arange(len(self.values))
        threshold = np.partition(self.values, len(self.values) - size)[len(self.values) - size]
        return np.flatnonzero(self.values >= threshold)


def score(query: Mapping[str, Postings], statistics: Statistics) -> Scores:
    """Score every fact that holds a term of the query."""
    found = [(term, query[term]) for term in sorted(query) if len(query[term].facts)]
    if not found or not statistics.docs:
        return Scores(np.empty(0, dtype=np.int64), np.empty(0))
    low = min(int(postings.facts.min()) for _, postings in found)
    span = max(int(postings.facts.max()) for _, postings in found) - low + 1
    mean = statistics.total_length / statistics.docs
    if span <= _DENSE_SPAN:
        dense = np.zeros(span)
        for _, postings in found:
            dense[postings.facts - low] += _contribution(postings, statistics.docs, mean)
        hits = np.flatnonzero(dense)
        return Scores(hits + low, dense[hits])
    facts, places = np.unique(np.concatenate([p.facts for _, p in found]), return_inverse=True)
    weights = np.concatenate([_contribution(p, statistics.docs, mean) for _, p in found])
    values = np.bincount(places, weights=weights, minlength=len(facts)).astype(np.float64)
    return Scores(facts, values)


def _contribution(postings: Postings, docs: int, mean: float) -> NDArray[np.float64]:
    df = len(postings.facts)
    idf = math.log(1 + (docs - df + 0.5) / (df + 0.5))
    tf = postings.frequencies
    return idf * tf * (_K1 + 1) / (tf + _K1 * (1 - _B + _B * postings.lengths / mean))
