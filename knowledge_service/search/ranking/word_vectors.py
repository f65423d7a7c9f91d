"""Word vectors: how near the words of a text are to those of the query, even if they differ.

There are two tables of vectors. In `OF_CONTEXTS`, terms that stand in the same contexts in
documentation of operations are near: "expire" and "ttl", "bill" and "price". A term's vector is
shorter if it is frequent. `DISTILLED` has words of general English; the sum of the vectors of a
sentence's terms is near to the vector that a sentence encoder gives it.

A text has the sum of the vectors of its different terms, and the similarity of two texts is the
cosine of their sums. `python -m bench.recall vectors DIR` and `distil DIR` make the files. All
numbers are small integers, so sums are exact and the same on every machine. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from importlib import resources
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.text import analyser

TERMS_FILE, VECTORS_FILE = "word_vectors.txt", "word_vectors.bin"
DISTILLED_TERMS_FILE, DISTILLED_VECTORS_FILE = "distilled_vectors.txt", "distilled_vectors.bin"
HIGHEST = 127
"""The highest number in a vector."""
# The rest of a long text is left out: its beginning says what it is about.
_MOST_CHARACTERS = 1_000


def _read(name: str) -> bytes:
    return (resources.files(__package__) / name).read_bytes()


class WordVectors:
    """A table of vectors, one for each of its terms, the most frequent first."""

    def __init__(self, term_list: bytes, numbers: bytes) -> None:
        terms = [line for line in term_list.decode().splitlines() if line[:1] != "#"]
        self.digest = hashlib.sha256(term_list + numbers).hexdigest()
        self._row_of = {term: row for row, term in enumerate(terms)}
        self.term_count = len(terms)
        self._vectors = np.frombuffer(numbers, dtype=np.int8).reshape(len(terms), -1)
        self._rows_of_text = functools.lru_cache(maxsize=2048)(self._find_rows)

    def similarities(self, query_terms: Iterable[str], texts: Sequence[str]) -> list[float]:
        """Return the similarity of each text to the query, from 0 to 1.

        0 if the query has no vector. A negative cosine counts as 0.
        """
        rows = {self._row_of[term] for term in query_terms if term in self._row_of}
        if not (rows and texts):
            return [0.0] * len(texts)
        query = self._sums([rows])[0]
        sums = self._sums([self._rows_of_text(text[:_MOST_CHARACTERS]) for text in texts])
        length = math.sqrt(query @ query)
        products = (sums @ query).tolist()
        squares = (sums * sums).sum(axis=1).tolist()
        return [
            max(product, 0.0) / (math.sqrt(square) * length) if square and length else 0.0
            for product, square in zip(products, squares, strict=True)
        ]

    def frequency_rank(self, term: str) -> int:
        """Return the place of a term among the most frequent, from 0; `term_count` if rarer."""
        return self._row_of.get(term, self.term_count)

    def highest_similarities(self, terms: Sequence[str], others: Iterable[str]) -> list[float]:
        """Return for each term its similarity to the nearest of the others, from 0 to 1."""
        rows = sorted({self._row_of[term] for term in others if term in self._row_of})
        if not rows:
            return [0.0] * len(terms)
        vectors = self._vectors[rows].astype(np.int32)
        lengths = np.sqrt((vectors * vectors).sum(axis=1))
        return [self._highest_similarity(term, vectors, lengths) for term in terms]

    def _highest_similarity(
        self, term: str, vectors: NDArray[np.int32], lengths: NDArray[np.float64]
    ) -> float:
        if term not in self._row_of:
            return 0.0
        own = self._vectors[self._row_of[term]].astype(np.int32)
        return max(float(((vectors @ own) / lengths).max()) / math.sqrt(own @ own), 0.0)

    def _find_rows(self, text: str) -> tuple[int, ...]:
        """Return the rows of the different terms of a text; dates have none."""
        row_of = self._row_of
        return tuple({row_of[term] for term in analyser.token_terms(text) if term in row_of})

    def _sums(self, rows_of_texts: Sequence[Collection[int]]) -> NDArray[np.float64]:
        """Return the sum of the vectors of each text; all numbers are integers."""
        sums = np.zeros((len(rows_of_texts), self._vectors.shape[1]))
        counts = np.array([len(rows) for rows in rows_of_texts])
        filled = counts.nonzero()[0]
        if len(filled):
            starts = counts[filled].cumsum() - counts[filled]
            gathered = self._vectors[list(chain.from_iterable(rows_of_texts))]
            sums[filled] = np.add.reduceat(gathered, starts, axis=0, dtype=np.int32)
        return sums


OF_CONTEXTS = WordVectors(_read(TERMS_FILE), _read(VECTORS_FILE))
DISTILLED = WordVectors(_read(DISTILLED_TERMS_FILE), _read(DISTILLED_VECTORS_FILE))
DIGEST = OF_CONTEXTS.digest + DISTILLED.digest
"""Identifies the vectors in the name of the ranker."""
