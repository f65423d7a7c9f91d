"""Runs: documents of a scope with their postings as arrays, made, joined and parted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

MAX_LENGTH = 65_535
"""A longer document counts as one of so many terms."""
MAX_FREQUENCY = 255
"""A term that comes more often in a document counts so often."""
TOMBSTONE = 0
"""The number at the place of an erased document: no fact has it. It has no terms and no length."""


@dataclass(frozen=True)
class Document:
    """What the index keeps of a text: its terms by number, ascending, with their frequencies.

    A document without terms keeps its place and nothing else.
    """

    number: int
    length: int
    terms: tuple[int, ...]
    frequencies: tuple[int, ...]


@dataclass(frozen=True)
class Segment:
    """Documents with their postings, one entry a (term, document), ordered by term, then place.

    `places` count from the run's first document.
    """

    numbers: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    terms: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    frequencies: NDArray[np.uint8]


def build(documents: Sequence[Document]) -> Segment:
    """Make a run of new documents."""
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
    """Make a run of new documents from their numbers and those of their terms.

    What is packed is one term after the other in any order, as often as it comes, 8 bytes each.
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
    """Put runs one after the other."""
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
    """Put a tombstone in the place of a document; the others stay where they are."""
    is_kept = source.ordinals != ordinal
    numbers, lengths = source.numbers.copy(), source.lengths.copy()
    numbers[ordinal : ordinal + 1], lengths[ordinal : ordinal + 1] = TOMBSTONE, 0
    columns = (source.terms[is_kept], source.ordinals[is_kept], source.frequencies[is_kept])
    return Segment(numbers, lengths, *columns)


def slice_documents(source: Segment, start: int, size: int) -> Segment:
    """Take so many documents out of a run, from the place `start` on."""
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
    """Return how far it is from each start to the next; as `diff`, at a third of its cost."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts


def _ordered(source: Segment) -> Segment:
    order = np.argsort(source.terms, kind="stable")
    columns = (source.terms[order], source.ordinals[order], source.frequencies[order])
    return Segment(source.numbers, source.lengths, *columns)
