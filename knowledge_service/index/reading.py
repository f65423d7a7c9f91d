"""From packed rows to the postings that a question needs, decoded once and kept for the next one.

The documents of a scope are read in stretches: those in runs of 4,096, of which only the postings
of asked terms are read; those in runs of 512, those in runs of 64, and the rest, which are decoded
whole. How many documents a scope has says which runs there are, so that is all that must be looked
up in a snapshot to know what of the kept is right for it.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge_service.index import segments
from knowledge_service.index.keeping import Kept
from knowledge_service.index.segments import SPLIT, WHOLE

# The sizes of runs at which a stretch ends; whatever is smaller is in the last one.
_ENDS = (512, 64, 1)
_HEAD = struct.Struct("<III")
_TERM = struct.Struct("<q")

Places = NDArray[np.int32]
Frequencies = NDArray[np.uint8]
Found = tuple[int, Places, Frequencies]


class Source(Protocol):
    """Where the rows of one snapshot are."""

    def count(self, scope_no: int) -> int:
        """Return how many documents a scope has."""
        ...

    def rows(self, scope_no: int, bucket: int, first: int, end: int) -> list[tuple[int, bytes]]:
        """Read a bucket's rows of the runs from `first` up to `end`, with where they begin."""
        ...


@dataclass(frozen=True)
class Stretch:
    """Documents of a scope in their order, and what they have of the asked terms.

    `found` has for a term, by its place among the asked, the documents and how often it is there;
    ascending by term. Places count from the stretch's first document.
    """

    numbers: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    total_length: int
    found: Sequence[Found]


@dataclass(frozen=True)
class _Documents:
    numbers: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    total_length: int

    @property
    def size_bytes(self) -> int:
        return self.numbers.nbytes + self.lengths.nbytes


@dataclass(frozen=True)
class _Postings:
    """A term's postings in the first so many documents."""

    documents: int
    places: Places
    frequencies: Frequencies

    @property
    def size_bytes(self) -> int:
        return self.places.nbytes + self.frequencies.nbytes

    def until(self, documents: int) -> tuple[Places, Frequencies]:
        if documents == self.documents:
            return self.places, self.frequencies
        end = int(self.places.searchsorted(documents))
        return self.places[:end], self.frequencies[:end]


@dataclass(frozen=True)
class _Whole:
    """A stretch with all its terms, ascending; the last stands twice, so that there is a next.

    The postings of term n are those from `spans[n][0]` up to `spans[n][1]`.
    """

    first: int
    documents: _Documents
    terms: NDArray[np.int64]
    spans: NDArray[np.int32]
    places: Places
    frequencies: Frequencies

    @property
    def size_bytes(self) -> int:
        columns = (self.terms, self.spans, self.places, self.frequencies)
        return self.documents.size_bytes + sum([column.nbytes for column in columns])

    def is_of(self, first: int, end: int) -> bool:
        return self.first == first and len(self.documents.numbers) == end - first


def stretches(source: Source, kept: Kept, scope_no: int, asked: NDArray[np.int64]) -> list[Stretch]:
    """Read what a scope has of the asked terms, which are numbers in ascending order."""
    count = source.count(scope_no)
    first = count // SPLIT * SPLIT
    found = [_split(source, kept, (scope_no, first), asked.tolist())] if first else []
    for size in _ENDS:
        end = count // size * size
        if end > first:
            found.append(_asked(_whole(source, kept, (scope_no, size), (first, end)), asked))
        first = end
    return found


def _whole(source: Source, kept: Kept, key: tuple[int, int], span: tuple[int, int]) -> _Whole:
    (scope_no, size), (first, end) = key, span
    held: _Whole | None = kept.get((scope_no, "whole", size))
    if held is None or not held.is_of(first, end):
        rows = source.rows(scope_no, WHOLE, first, end)
        held = _decoded(first, [data for _, data in rows])
        kept.put((scope_no, "whole", size), held, held.size_bytes)
    return held


def _decoded(first: int, rows: Sequence[bytes]) -> _Whole:
    run = segments.join([segments.unpack(data) for data in rows])
    starts = np.flatnonzero(np.diff(run.terms, prepend=run.terms[:1] - 1))
    ends = np.append(starts, len(run.terms))[1:]
    return _Whole(
        first,
        _documents_of(run.numbers, run.lengths),
        np.append(run.terms[starts], run.terms[-1:]),
        np.column_stack((starts, ends)).astype(np.int32),
        run.places.astype(np.int32),
        run.frequencies,
    )


def _asked(whole: _Whole, asked: NDArray[np.int64]) -> Stretch:
    found: list[Found] = []
    if len(whole.terms):
        spots = whole.terms[:-1].searchsorted(asked)
        hits = (whole.terms[spots] == asked).nonzero()[0]
        spans = whole.spans[spots[hits]].tolist()
        found = [
            (place, whole.places[start:end], whole.frequencies[start:end])
            for place, (start, end) in zip(hits.tolist(), spans, strict=True)
        ]
    documents = whole.documents
    return Stretch(documents.numbers, documents.lengths, documents.total_length, found)


def _split(source: Source, kept: Kept, span: tuple[int, int], asked: Sequence[int]) -> Stretch:
    """Read the postings of asked terms in the runs that are split."""
    scope_no, count = span
    known: list[_Postings | None] = kept.get_all([(scope_no, term) for term in asked])
    read: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    found = []
    for place, (term, held) in enumerate(zip(asked, known, strict=True)):
        postings = held
        if postings is None or postings.documents < count:
            part = segments.bucket(term), postings.documents if postings else 0
            if part not in read:
                read[part] = source.rows(scope_no, *part, count)
            postings = _postings(postings, term, read[part], count)
            kept.put((scope_no, term), postings, postings.size_bytes)
        places, frequencies = postings.until(count)
        if len(places):
            found.append((place, places, frequencies))
    documents = _documents(source, kept, scope_no, count)
    return Stretch(documents.numbers, documents.lengths, documents.total_length, found)


def _documents(source: Source, kept: Kept, scope_no: int, count: int) -> _Documents:
    held: _Documents | None = kept.get((scope_no, "documents"))
    before = len(held.numbers) if held else 0
    if held is None or before < count:
        rows = source.rows(scope_no, WHOLE, before, count)
        numbers = b"".join([data[-6 * SPLIT : -2 * SPLIT] for _, data in rows])
        lengths = b"".join([data[-2 * SPLIT :] for _, data in rows])
        if held:
            numbers, lengths = held.numbers.tobytes() + numbers, held.lengths.tobytes() + lengths
        held = _documents_of(np.frombuffer(numbers, "<u4"), np.frombuffer(lengths, "<u2"))
        kept.put((scope_no, "documents"), held, held.size_bytes)
    elif before > count:
        return _documents_of(held.numbers[:count], held.lengths[:count])
    return held


def _documents_of(numbers: NDArray[np.uint32], lengths: NDArray[np.uint16]) -> _Documents:
    return _Documents(numbers, lengths, int(lengths.sum(dtype=np.int64)))


@functools.lru_cache(maxsize=4096)
def _counts(number: int) -> struct.Struct:
    return struct.Struct(f"<{number}H")


def _postings(
    held: _Postings | None, term: int, rows: Sequence[tuple[int, bytes]], documents: int
) -> _Postings:
    """Find a term's postings in the rows of its bucket; they come after those that are held."""
    firsts, sizes, places, frequencies = [], [], [], []
    needle = _TERM.pack(term)
    for first, data in rows:
        _, terms, postings = _HEAD.unpack_from(data)
        counts = _HEAD.size + 8 * terms
        at = data.find(needle, _HEAD.size, counts)
        while at >= 0 and (at - _HEAD.size) % 8:  # the end of one term and the start of the next
            at = data.find(needle, at + 1, counts)
        if at < 0:
            continue
        own = _counts((at - _HEAD.size) // 8 + 1).unpack_from(data, counts)
        size = own[-1]
        before = sum(own) - size
        start = counts + 2 * terms
        places.append(data[start + 2 * before : start + 2 * (before + size)])
        start += 2 * postings + before
        frequencies.append(data[start : start + size])
        firsts.append(first)
        sizes.append(size)
    found = np.frombuffer(b"".join(places), "<u2").astype(np.int32)
    found += np.repeat(np.array(firsts, dtype=np.int32), sizes)
    often = np.frombuffer(b"".join(frequencies), "u1")
    if held:
        found = np.concatenate([held.places, found])
        often = np.concatenate([held.frequencies, often])
    return _Postings(documents, found, often)
