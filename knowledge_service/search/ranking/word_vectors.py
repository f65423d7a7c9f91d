"""Word vectors: how near the words of a text are to those of the query, even if they differ.

There are two tables of vectors. In `OF_CONTEXTS`, terms that stand in the same contexts in
documentation of operations are near: "expire" and "ttl", "bill" and "price". A term's vector is
shorter if it is frequent. The distilled vectors are of words of general English; the sum of the
vectors of a sentence's terms is near to the vector that a sentence encoder gives it.

The vector of a text in a table is the sum of the vectors of its different terms, and the similarity
of two texts is the cosine of theirs. Facts are ranked by the product of both similarities, turns by
the distilled vectors alone. `python -m bench.recall vectors DIR` and `distil DIR` make the files.
All numbers are small integers, so sums are exact and the same on every machine. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable, Sequence, Set
from importlib import resources
from itertools import chain
from typing import NamedTuple

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
        self.terms = [line for line in term_list.decode().splitlines() if line[:1] != "#"]
        self.vectors = np.frombuffer(numbers, dtype=np.int8).reshape(len(self.terms), -1)
        self.digest = hashlib.sha256(term_list + numbers).hexdigest()
        self._row_of = {term: row for row, term in enumerate(self.terms)}

    def frequency_rank(self, term: str) -> int:
        """Return the place of a term among the most frequent, from 0; `term_count` if rarer."""
        return self._row_of.get(term, self.term_count)

    @property
    def term_count(self) -> int:
        """Return the number of terms with a vector."""
        return len(self.terms)

    def highest_similarities(self, terms: Sequence[str], others: Iterable[str]) -> list[float]:
        """Return for each term its similarity to the nearest of the others, from 0 to 1."""
        rows = sorted({self._row_of[term] for term in others if term in self._row_of})
        if not rows:
            return [0.0] * len(terms)
        vectors = self.vectors[rows].astype(np.int32)
        lengths = np.sqrt((vectors * vectors).sum(axis=1))
        return [self._highest_similarity(term, vectors, lengths) for term in terms]

    def _highest_similarity(
        self, term: str, vectors: NDArray[np.int32], lengths: NDArray[np.float64]
    ) -> float:
        if term not in self._row_of:
            return 0.0
        own = self.vectors[self._row_of[term]].astype(np.int32)
        return max(float(((vectors @ own) / lengths).max()) / math.sqrt(own @ own), 0.0)


class Similarities(NamedTuple):
    """The similarities of some texts to a query by each table, from 0 to 1."""

    by_contexts: list[float]
    distilled: list[float]


class TextVectors:
    """Compares texts by both tables at once."""

    def __init__(self, of_contexts: WordVectors, distilled: WordVectors) -> None:
        terms = dict.fromkeys(of_contexts.terms + distilled.terms)
        self._row_of = {term: row for row, term in enumerate(terms)}
        # A row has the vectors of its term in both tables, one after the other.
        self._edge = of_contexts.vectors.shape[1]
        width = self._edge + distilled.vectors.shape[1]
        self._vectors = np.zeros((len(terms), width), dtype=np.int8)
        for table, columns in (
            (of_contexts, slice(self._edge)),
            (distilled, slice(self._edge, width)),
        ):
            self._vectors[[self._row_of[term] for term in table.terms], columns] = table.vectors
        # Arbitrary, for a scope of some thousand facts: an entry is a text and 800 bytes, so all
        # entries take 4 MB with short texts, and 20 MB at most.
        self._vector_of_text = functools.lru_cache(maxsize=4_096)(self._add_up_text)
        # Texts share most of their chunks. Arbitrary: 3 MB with usual chunks, 18 MB at most.
        self._rows_of_chunk = functools.lru_cache(maxsize=16_384)(self._find_rows_of_chunk)

    def similarities(self, query_terms: Iterable[str], texts: Sequence[str]) -> Similarities:
        """Return the similarities of texts to the query, by each table.

        It is 0 if the table lacks the terms of the query or of the text, or the cosine is negative.
        """
        rows = set(self._find_rows(query_terms))
        if not (rows and texts):
            return Similarities([0.0] * len(texts), [0.0] * len(texts))
        query = self._add_up(rows).astype(np.float64)
        vectors = np.empty((len(texts), len(query)))
        for row, text in enumerate(texts):
            vectors[row] = self._vector_of_text(text[:_MOST_CHARACTERS])
        edge = self._edge
        return Similarities(
            _cosines(query[:edge], vectors[:, :edge]), _cosines(query[edge:], vectors[:, edge:])
        )

    def _add_up_text(self, text: str) -> NDArray[np.int32]:
        rows_of_chunks = map(self._rows_of_chunk, text.split())
        return self._add_up(set(chain.from_iterable(rows_of_chunks)))

    def _find_rows_of_chunk(self, chunk: str) -> tuple[int, ...]:
        terms, _ = analyser.of_chunk(chunk)
        return self._find_rows(terms)

    def _find_rows(self, terms: Iterable[str]) -> tuple[int, ...]:
        """Return the rows of terms, as far as they have one."""
        row_of = self._row_of
        return tuple([row_of[term] for term in terms if term in row_of])

    def _add_up(self, rows: Set[int]) -> NDArray[np.int32]:
        vectors = self._vectors.take(np.array(list(rows), dtype=np.intp), axis=0)
        total: NDArray[np.int32] = np.add.reduce(vectors, axis=0, dtype=np.int32)
        total.flags.writeable = False  # the cache shares it
        return total


def _cosines(query: NDArray[np.float64], vectors: NDArray[np.float64]) -> list[float]:
    length = math.sqrt(query @ query)
    products = (vectors @ query).tolist()
    squares = (vectors * vectors).sum(axis=1).tolist()
    return [
        max(product, 0.0) / (math.sqrt(square) * length) if square and length else 0.0
        for product, square in zip(products, squares, strict=True)
    ]


OF_CONTEXTS = WordVectors(_read(TERMS_FILE), _read(VECTORS_FILE))
_DISTILLED = WordVectors(_read(DISTILLED_TERMS_FILE), _read(DISTILLED_VECTORS_FILE))
TEXT_VECTORS = TextVectors(OF_CONTEXTS, _DISTILLED)
DIGEST = OF_CONTEXTS.digest + _DISTILLED.digest
"""Identifies the vectors in the name of the ranker."""
del _DISTILLED
