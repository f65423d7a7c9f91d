"""Segments: build, join and slice documents with their postings as arrays. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings.documents import Document

MAX_LENGTH = 65_535
"""The maximum length; a longer document counts as one of this many terms."""
MAX_FREQUENCY = 255
"""The maximum frequency; a term that occurs more often in a document counts this often."""
TOMBSTONE = 0
"""The number in the place of an erased document; no fact has it. It has no terms and length 0."""


@dataclass(frozen=True)
class Segment:
    """Documents and their postings, one entry for each (term, document), in that order.

    `ordinals` count from the segment's first document.
    """

    numbers: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    terms: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    frequencies: NDArray[np.uint8]


def build(documents: Sequence[Document]) -> Segment:
    """Build a segment of new documents."""
    counts = [len(document.terms) for document in documents]
    total = sum(counts)
    terms = np.fromiter(
        chain.from_iterable([document.terms for document in documents]), np.int64, total
    )
    counted = chain.from_iterable([document.frequencies for document in documents])
    frequencies = np.fromiter(counted, np.int64, total)
    return _ordered(
        Segment(
            np.array([document.number for document in documents], dtype=np.uint32),
            np.array([min(document.length, MAX_LENGTH) for document in documents], dtype=np.uint16),
            terms,
            np.repeat(np.arange(len(documents)), counts),
            np.minimum(frequencies, MAX_FREQUENCY).astype(np.uint8),
        )
    )


def build_packed(numbers: Sequence[int], packed: Sequence[bytes]) -> Segment:
    """Build a segment from the numbers of facts and the packed numbers of their terms.

    Packed terms are 8 bytes each, in any order; a term is repeated as often as it occurs.
    """
    lengths = np.array([len(terms_of) for terms_of in packed], dtype=np.int64) >> 3
    all_terms = np.frombuffer(b"".join(packed), "<i8")
    order = np.argsort(all_terms, kind="stable")
    terms, ordinals = all_terms[order], np.repeat(np.arange(len(packed)), lengths)[order]
    is_first = np.ones(len(terms), dtype=bool)
    is_first[1:] = (terms[1:] != terms[:-1]) | (ordinals[1:] != ordinals[:-1])
    firsts = np.flatnonzero(is_first)
    frequencies = gaps(firsts, len(terms))
    return Segment(
        np.array(numbers, dtype=np.uint32),
        np.minimum(lengths, MAX_LENGTH).astype(np.uint16),
        terms[firsts],
        ordinals[firsts],
        np.minimum(frequencies, MAX_FREQUENCY).astype(np.uint8),
    )


def join(segments: Sequence[Segment]) -> Segment:
    """Join segments in the given order."""
    firsts = np.cumsum([0, *(len(source.numbers) for source in segments[:-1])])
    return _ordered(
        Segment(
            np.concatenate([source.numbers for source in segments]),
            np.concatenate([source.lengths for source in segments]),
            np.concatenate([source.terms for source in segments]),
            np.concatenate(
                [source.ordinals + first for source, first in zip(segments, firsts, strict=True)]
            ),
            np.concatenate([source.frequencies for source in segments]),
        )
    )


def erase_document(source: Segment, ordinal: int) -> Segment:
    """Replace a document with a tombstone; the positions of the others do not change."""
    is_unerased = source.ordinals != ordinal
    numbers, lengths = source.numbers.copy(), source.lengths.copy()
    numbers[ordinal : ordinal + 1], lengths[ordinal : ordinal + 1] = TOMBSTONE, 0
    columns = (
        source.terms[is_unerased],
        source.ordinals[is_unerased],
        source.frequencies[is_unerased],
    )
    return Segment(numbers, lengths, *columns)


def slice_documents(source: Segment, start: int, size: int) -> Segment:
    """Return a segment of `size` documents, from position `start` on."""
    if size == len(source.numbers):
        return source
    is_inside = (source.ordinals >= start) & (source.ordinals < start + size)
    end = start + size
    columns = (
        source.terms[is_inside],
        source.ordinals[is_inside] - start,
        source.frequencies[is_inside],
    )
    return Segment(source.numbers[start:end], source.lengths[start:end], *columns)


def gaps(starts: NDArray[np.intp], end: int) -> NDArray[np.intp]:
    """Return the distance from each start to the next, at a third of the cost of `np.diff`."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts


def _ordered(source: Segment) -> Segment:
    order = np.argsort(source.terms, kind="stable")
    columns = (source.terms[order], source.ordinals[order], source.frequencies[order])
    return Segment(source.numbers, source.lengths, *columns)
