"""Word vectors: how near the words of a fact are to those of the query, even if they differ.

Terms that stand in the same contexts in documentation of operations have near vectors: "expire" and
"ttl", "bill" and "price". A text has the sum of the vectors of its different terms, and the
similarity of two texts is the cosine of their sums. A term's vector is shorter if it is frequent.

`python -m bench.recall vectors DIR` makes the files. All numbers are small integers, so sums are
exact and the same on every machine. Pure.
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
HIGHEST = 127
"""The highest number in a vector."""
# The rest of a long fact is left out: its beginning says what it is about.
_MOST_CHARACTERS = 1_000


def _read(name: str) -> bytes:
    return (resources.files(__package__) / name).read_bytes()


_TERM_LIST, _NUMBERS = _read(TERMS_FILE), _read(VECTORS_FILE)
DIGEST = hashlib.sha256(_TERM_LIST + _NUMBERS).hexdigest()
"""Identifies the vectors in the name of the ranker."""
_terms = [line for line in _TERM_LIST.decode().splitlines() if line[:1] != "#"]
_row_of = {term: row for row, term in enumerate(_terms)}
TERM_COUNT = len(_terms)
"""The number of terms with a vector."""
_vectors = np.frombuffer(_NUMBERS, dtype=np.int8).reshape(len(_terms), -1)


def frequency_rank(term: str) -> int:
    """Return the place of a term among the most frequent ones, from 0; `TERM_COUNT` if rarer."""
    return _row_of.get(term, TERM_COUNT)


def highest_similarities(terms: Sequence[str], others: Iterable[str]) -> list[float]:
    """Return for each term its similarity to the nearest of the others, from 0 to 1."""
    rows = sorted({_row_of[term] for term in others if term in _row_of})
    if not rows:
        return [0.0] * len(terms)
    vectors = _vectors[rows].astype(np.int32)
    lengths = np.sqrt((vectors * vectors).sum(axis=1))
    return [_highest_similarity(term, vectors, lengths) for term in terms]


def _highest_similarity(
    term: str, vectors: NDArray[np.int32], lengths: NDArray[np.float64]
) -> float:
    if term not in _row_of:
        return 0.0
    own = _vectors[_row_of[term]].astype(np.int32)
    return max(float(((vectors @ own) / lengths).max()) / math.sqrt(own @ own), 0.0)


def similarities(query_terms: Iterable[str], texts: Sequence[str]) -> list[float]:
    """Return the similarity of each text to the query, from 0 to 1; 0 if the query has no vector.

    A negative cosine counts as 0.
    """
    rows = {_row_of[term] for term in query_terms if term in _row_of}
    if not (rows and texts):
        return [0.0] * len(texts)
    query = _sums([rows])[0]
    sums = _sums([_rows_of_text(text[:_MOST_CHARACTERS]) for text in texts])
    length = math.sqrt(query @ query)
    products = (sums @ query).tolist()
    squares = (sums * sums).sum(axis=1).tolist()
    return [
        max(product, 0.0) / (math.sqrt(square) * length) if square and length else 0.0
        for product, square in zip(products, squares, strict=True)
    ]


@functools.lru_cache(maxsize=2048)
def _rows_of_text(text: str) -> tuple[int, ...]:
    """Return the rows of the different terms of a text; no token of the analyser spans a space."""
    return tuple({*chain.from_iterable(map(_rows_of_chunk, text.split()))})


@functools.lru_cache(maxsize=8192)
def _rows_of_chunk(chunk: str) -> tuple[int, ...]:
    terms, _ = analyser.of_chunk(chunk)
    return tuple([_row_of[term] for term in terms if term in _row_of])


def _sums(rows_of_texts: Sequence[Collection[int]]) -> NDArray[np.float64]:
    """Return the sum of the vectors of each text; all numbers are integers."""
    sums = np.zeros((len(rows_of_texts), _vectors.shape[1]))
    counts = np.array([len(rows) for rows in rows_of_texts])
    filled = counts.nonzero()[0]
    if len(filled):
        starts = counts[filled].cumsum() - counts[filled]
        gathered = _vectors[list(chain.from_iterable(rows_of_texts))]
        sums[filled] = np.add.reduceat(gathered, starts, axis=0, dtype=np.int32)
    return sums
