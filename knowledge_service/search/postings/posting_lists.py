"""Posting lists: the postings of a term as arrays, and how they are decoded from packed rows."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import segment_codec
from knowledge_service.search.postings.segment_codec import SHARD_SIZE

_HEAD = struct.Struct("<III")
_TERM = struct.Struct("<q")
_NO_HEAD = 0, 0, 0
Numbers = NDArray[np.uint32]


class Columns(NamedTuple):
    """Postings as columns: ascending document positions, term frequencies, document lengths."""

    ordinals: NDArray[np.int32]
    frequencies: NDArray[np.uint8]
    lengths: NDArray[np.uint16]

    @property
    def size_bytes(self) -> int:
        """Return the size of the arrays."""
        return self.ordinals.nbytes + self.frequencies.nbytes + self.lengths.nbytes

    def slice_(self, first: int, end: int) -> Columns:
        """Return the postings from index `first` up to `end`."""
        ordinals, frequencies, lengths = self
        return Columns(ordinals[first:end], frequencies[first:end], lengths[first:end])

    def shifted(self, first: int) -> Columns:
        """Return the postings with `first` added to each position."""
        return Columns(self.ordinals + np.int32(first), self.frequencies, self.lengths)


class TermPostings(NamedTuple):
    """The postings of one term in some documents; `term` is its index among the query's terms.

    The positions of the postings count from document `first` of the scope.
    """

    term: int
    first: int
    postings: Columns


@dataclass(frozen=True)
class ScopePostings:
    """The documents of a scope, in order, with their postings of the query's terms.

    The fact numbers are in several arrays. The postings of a document are ascending by term.
    """

    numbers: Sequence[Numbers]
    count: int
    live: int
    """The number of documents that are not tombstones."""
    total_length: int
    postings: Sequence[TermPostings]


NO_POSTINGS = Columns(np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.uint16))


@functools.lru_cache(maxsize=4096)
def _counts(number: int) -> struct.Struct:
    return struct.Struct(f"<{number}H")


def find_postings(
    terms: Sequence[tuple[int, Sequence[tuple[int, bytes]]]], lengths: NDArray[np.uint16]
) -> list[Columns]:
    """Find the postings of each term in the rows of its bucket.

    All terms are decoded at once, because a recall has dozens and most have few postings.
    """
    firsts, sizes, ordinals, frequencies, ends = [], [], [], [], [0]
    head_size = _HEAD.size
    for term, rows in terms:
        needle, end_of_term = _TERM.pack(term), ends[-1]
        for first, data in rows:  # hundreds in a recall, so nothing here is a call
            documents, terms_of_row, postings = (
                _HEAD.unpack_from(data) if len(data) >= head_size else _NO_HEAD
            )
            counts = head_size + 8 * terms_of_row
            start = counts + 2 * terms_of_row
            if documents or len(data) != start + 3 * postings:
                segment_codec.head(data)
            offset = data.find(needle, head_size, counts)
            while offset >= 0 and (offset - head_size) % 8:  # a match across two terms
                offset = data.find(needle, offset + 1, counts)
            if offset < 0:
                continue
            counts_before = _counts((offset - head_size) // 8 + 1).unpack_from(data, counts)
            size = counts_before[-1]
            end = sum(counts_before)
            if end > postings:
                raise segment_codec.CorruptSegment(
                    "a row of the index lacks postings that its header states"
                )
            skipped = end - size
            ordinals.append(data[start + 2 * skipped : start + 2 * end])
            start += 2 * postings
            frequencies.append(data[start + skipped : start + end])
            firsts.append(first)
            sizes.append(size)
            end_of_term += size
        ends.append(end_of_term)
    if not sizes:
        return [NO_POSTINGS] * len(terms)
    document_ordinals = segment_codec.check_ordinals(
        np.frombuffer(b"".join(ordinals), "<u2"), SHARD_SIZE
    ).astype(np.int32)
    document_ordinals += np.repeat(np.array(firsts, dtype=np.int32), sizes)
    columns = Columns(
        document_ordinals, np.frombuffer(b"".join(frequencies), "u1"), lengths[document_ordinals]
    )
    return [columns.slice_(start, end) for start, end in pairwise(ends)]


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Join postings whose documents ascend from part to part into new arrays."""
    ordinals, frequencies, lengths = zip(*parts, strict=True)
    return Columns(np.concatenate(ordinals), np.concatenate(frequencies), np.concatenate(lengths))
