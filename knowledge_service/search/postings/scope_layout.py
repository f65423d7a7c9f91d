"""The cached documents of a scope: sharded segments without postings, the others decoded whole."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import segment, segment_codec
from knowledge_service.search.postings.cache import LruCache
from knowledge_service.search.postings.index_rows import RowRange, Source
from knowledge_service.search.postings.posting_lists import Columns, Numbers, TermPostings
from knowledge_service.search.postings.segment_codec import DOCUMENTS, SHARD_SIZE

# Documents after the sharded segments are decoded in up to three parts. Each ends at a multiple of
# one of these sizes.
_TAIL_SIZES = (512, 64, 1)
# In a scope of at least this many documents, reading the joined postings of a term costs less than
# reading them from each segment. Smaller scopes have few postings, and an entry for each term would
# fill the cache.
_MIN_CACHED_BY_TERM = 512


@dataclass(frozen=True)
class Documents:
    """The fact numbers and lengths of documents in their order; tombstones have neither."""

    numbers: Numbers
    lengths: NDArray[np.uint16]
    live: int
    total_length: int

    @property
    def size_bytes(self) -> int:
        """Return the size of the arrays."""
        return self.numbers.nbytes + self.lengths.nbytes

    def without(self, ordinal: int) -> Documents:
        """Return these documents with a tombstone at a position."""
        if ordinal >= len(self.numbers):
            return self
        numbers, lengths = self.numbers.copy(), self.lengths.copy()
        numbers[ordinal], lengths[ordinal] = segment.TOMBSTONE, 0
        return _documents_of(numbers, lengths)


@dataclass(frozen=True)
class DecodedSegment:
    """A decoded segment. `terms` ascend; the last is repeated, so that every search hits an entry.

    The postings of term n are those from `spans[n][0]` up to `spans[n][1]`.
    """

    first: int
    documents: Documents
    terms: NDArray[np.int64]
    spans: NDArray[np.int32]
    columns: Columns

    @property
    def size_bytes(self) -> int:
        """Return the size of the arrays."""
        columns = (self.terms, self.spans, *self.columns)
        return self.documents.size_bytes + sum([column.nbytes for column in columns])

    def without(self, ordinal: int) -> DecodedSegment | None:
        """Return this segment; None if it has the document, because it must be decoded again."""
        is_inside = self.first <= ordinal < self.first + len(self.documents.numbers)
        return None if is_inside else self

    def covers(self, first: int, end: int) -> bool:
        """Return whether the segment has exactly the documents from `first` up to `end`."""
        return self.first == first and len(self.documents.numbers) == end - first

    def postings_of(self, terms: NDArray[np.int64]) -> list[TermPostings]:
        """Return the postings of those terms that the segment has."""
        if not len(self.terms):
            return []
        positions = self.terms[:-1].searchsorted(terms)
        hits = (self.terms[positions] == terms).nonzero()[0]
        spans = self.spans[positions[hits]].tolist()
        return [
            TermPostings(query_index, self.first, self.columns.slice_(start, end))
            for query_index, (start, end) in zip(hits.tolist(), spans, strict=True)
        ]


@dataclass(frozen=True)
class ScopeLayout:
    """The segments of a scope: the documents of the sharded ones, then the decoded ones."""

    count: int
    sharded: Documents | None
    segments: Sequence[DecodedSegment]

    @property
    def sharded_count(self) -> int:
        """Return the number of documents in sharded segments."""
        return len(self.sharded.numbers) if self.sharded else 0

    @property
    def is_cached_by_term(self) -> bool:
        """Return whether the joined postings of each term are cached as an entry of their own."""
        return self.count >= _MIN_CACHED_BY_TERM

    @functools.cached_property
    def numbers(self) -> Sequence[Numbers]:
        """Return the fact numbers of all documents, in several arrays."""
        return [piece.numbers for piece in self._pieces]

    @functools.cached_property
    def live(self) -> int:
        """Return the number of documents that are not tombstones."""
        return sum([piece.live for piece in self._pieces])

    @functools.cached_property
    def total_length(self) -> int:
        """Return the sum of the lengths of all documents."""
        return sum([piece.total_length for piece in self._pieces])

    @property
    def _pieces(self) -> Sequence[Documents]:
        tail = [decoded.documents for decoded in self.segments]
        return [self.sharded, *tail] if self.sharded else tail

    @property
    def size_bytes(self) -> int:
        """Return the size of the arrays."""
        sharded_bytes = self.sharded.size_bytes if self.sharded else 0
        return sharded_bytes + sum([decoded.size_bytes for decoded in self.segments])

    def without(self, ordinal: int) -> ScopeLayout:
        """Return the layout with a tombstone; a decoded segment with that document is dropped."""
        sharded = self.sharded.without(ordinal) if self.sharded else None
        segments = [
            remaining
            for decoded in self.segments
            if (remaining := decoded.without(ordinal)) is not None
        ]
        count = self.count if len(segments) == len(self.segments) else -1
        return ScopeLayout(count, sharded, segments)

    def segment_covering(self, first: int, end: int) -> DecodedSegment | None:
        """Return the segment with exactly these documents, or None."""
        return next((decoded for decoded in self.segments if decoded.covers(first, end)), None)


_EMPTY = ScopeLayout(-1, None, ())


def read_layouts(
    source: Source, cache: LruCache, scope_nos: Sequence[int]
) -> dict[int, ScopeLayout]:
    """Read the layouts of scopes; current ones come from the cache.

    Scopes without documents have no layout, because a reader of everything sees thousands of them.
    """
    counts = source.counts(scope_nos)
    scope_nos = [number for number in scope_nos if counts.get(number)]
    layouts: dict[int, ScopeLayout] = {}
    cached_layouts: list[ScopeLayout | None] = cache.get_all(
        [(number, "layout") for number in scope_nos]
    )
    for scope_no, layout in zip(scope_nos, cached_layouts, strict=True):
        count = counts[scope_no]
        if layout is None or layout.count != count:
            previous = layout or _EMPTY
            layout = _layout(source, scope_no, count, previous)  # noqa: PLW2901 - the current one
            if count >= previous.count:  # an older snapshot leaves what newer ones need
                cache.put((scope_no, "layout"), layout, layout.size_bytes)
        layouts[scope_no] = layout
    return layouts


def _layout(source: Source, scope_no: int, count: int, previous: ScopeLayout) -> ScopeLayout:
    """Decode the segments of a scope; those in `previous` are reused."""
    first = count // SHARD_SIZE * SHARD_SIZE
    sharded = _documents(source, scope_no, first, previous.sharded) if first else None
    segments = []
    for size in _TAIL_SIZES:
        end = count // size * size
        if end > first:
            segments.append(
                previous.segment_covering(first, end) or _read_segment(source, scope_no, first, end)
            )
        first = end
    return ScopeLayout(count, sharded, segments)


def _read_segment(source: Source, scope_no: int, first: int, end: int) -> DecodedSegment:
    rows = source.rows([RowRange(scope_no, DOCUMENTS, first, end)])
    decoded = _decoded(first, [data for _, data in rows.get((scope_no, DOCUMENTS), ())])
    if not decoded.covers(first, end):
        raise segment_codec.CorruptSegment("rows of the index are missing")
    return decoded


def _decoded(first: int, rows: Sequence[bytes]) -> DecodedSegment:
    if not rows:
        raise segment_codec.CorruptSegment("rows of the index are missing")
    joined = segment.join([segment_codec.unpack(data) for data in rows])
    starts = np.flatnonzero(np.diff(joined.terms, prepend=joined.terms[:1] - 1))
    ends = np.append(starts, len(joined.terms))[1:]
    return DecodedSegment(
        first,
        _documents_of(joined.numbers, joined.lengths),
        np.append(joined.terms[starts], joined.terms[-1:]),
        np.column_stack((starts, ends)).astype(np.int32),
        Columns(
            joined.ordinals.astype(np.int32), joined.frequencies, joined.lengths[joined.ordinals]
        ),
    )


def _documents(source: Source, scope_no: int, count: int, cached: Documents | None) -> Documents:
    cached_count = len(cached.numbers) if cached else 0
    if cached and cached_count >= count:
        return (
            cached
            if cached_count == count
            else _documents_of(cached.numbers[:count], cached.lengths[:count])
        )
    answer = source.rows([RowRange(scope_no, DOCUMENTS, cached_count, count)])
    rows = answer.get((scope_no, DOCUMENTS), ())
    if sum([segment_codec.head(data)[0] for _, data in rows]) != count - cached_count:
        raise segment_codec.CorruptSegment("rows of the index are missing")
    numbers = b"".join([data[-6 * SHARD_SIZE : -2 * SHARD_SIZE] for _, data in rows])
    lengths = b"".join([data[-2 * SHARD_SIZE :] for _, data in rows])
    if cached:
        numbers, lengths = cached.numbers.tobytes() + numbers, cached.lengths.tobytes() + lengths
    return _documents_of(np.frombuffer(numbers, "<u4"), np.frombuffer(lengths, "<u2"))


def _documents_of(numbers: Numbers, lengths: NDArray[np.uint16]) -> Documents:
    live = int(np.count_nonzero(numbers))  # the number of a tombstone is 0
    return Documents(numbers, lengths, live, int(lengths.sum(dtype=np.int64)))
