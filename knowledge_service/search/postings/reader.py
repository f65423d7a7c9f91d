"""From packed rows to the postings that a question needs, decoded once and kept for the next one.

The documents of a scope lie in runs of 4,096, of which only the postings of asked terms are read,
and behind these in runs of 512, of 64, and the rest, which are decoded whole. What a scope has of a
term is put together from both and kept as one. How many documents a scope has says which runs there
are, so that is all that must be looked up in a snapshot to know what of the kept is right for it.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import segment, segment_codec
from knowledge_service.search.postings.cache import LruCache
from knowledge_service.search.postings.segment_codec import DOCUMENTS, SHARD_SIZE

# The sizes of runs at which a stretch ends; whatever is smaller is in the last one.
_TAIL_SIZES = (512, 64, 1)
_HEAD = struct.Struct("<III")
_TERM = struct.Struct("<q")

Numbers = NDArray[np.uint32]


class RowRange(NamedTuple):
    """Rows of one bucket of a scope: those of runs from `first` up to `end`."""

    scope_no: int
    bucket: int
    first: int
    end: int


Rows = Mapping[tuple[int, int], Sequence[tuple[int, bytes]]]
"""By scope and bucket, rows in ascending order, each with its first document."""


class Source(Protocol):
    """Where the rows of one snapshot are."""

    def counts(self, scope_nos: Sequence[int]) -> Mapping[int, int]:
        """Return how many documents scopes have; scopes without any may be missing."""
        ...

    def rows(self, ranges: Sequence[RowRange]) -> Rows:
        """Read the rows of some ranges, which do not overlap."""
        ...


class Columns(NamedTuple):
    """Postings: the documents ascending, how often the term is in each, how long each is."""

    ordinals: NDArray[np.int32]
    frequencies: NDArray[np.uint8]
    lengths: NDArray[np.uint16]

    def slice_(self, first: int, end: int) -> Columns:
        """Return those from one up to another."""
        ordinals, frequencies, lengths = self
        return Columns(ordinals[first:end], frequencies[first:end], lengths[first:end])

    def shifted(self, first: int) -> Columns:
        """Return them with places that count from so many documents before."""
        return Columns(self.ordinals + np.int32(first), self.frequencies, self.lengths)


class TermPostings(NamedTuple):
    """What some documents have of a term, which is named by its place among the asked.

    The places of the postings count from document `first` of the scope.
    """

    term: int
    first: int
    postings: Columns


@dataclass(frozen=True)
class ScopePostings:
    """The documents of a scope in their order, and what they have of the asked terms.

    The numbers of their facts come in pieces. What is found of a document is ascending by term.
    """

    numbers: Sequence[Numbers]
    count: int
    live: int
    """How many of them are no tombstones."""
    total_length: int
    postings: Sequence[TermPostings]


@dataclass(frozen=True)
class _Documents:
    numbers: Numbers
    lengths: NDArray[np.uint16]
    live: int
    total_length: int

    @property
    def size_bytes(self) -> int:
        return self.numbers.nbytes + self.lengths.nbytes

    def without(self, ordinal: int) -> _Documents:
        """Return them with a tombstone at a place."""
        if ordinal >= len(self.numbers):
            return self
        numbers, lengths = self.numbers.copy(), self.lengths.copy()
        numbers[ordinal], lengths[ordinal] = segment.TOMBSTONE, 0
        return _documents_of(numbers, lengths)


@dataclass(frozen=True, slots=True)
class _Postings:
    """A term's postings in the first so many documents."""

    documents: int
    columns: Columns

    def until(self, documents: int) -> Columns:
        if documents == self.documents:
            return self.columns
        return self.columns.slice_(0, int(self.columns.ordinals.searchsorted(documents)))

    def without(self, ordinal: int) -> _Postings:
        """Return them without those of a document."""
        index = int(self.columns.ordinals.searchsorted(ordinal))
        if index == len(self.columns.ordinals) or self.columns.ordinals[index] != ordinal:
            return self
        ordinals, frequencies, lengths = self.columns
        columns = Columns(
            np.delete(ordinals, index), np.delete(frequencies, index), np.delete(lengths, index)
        )
        return _Postings(self.documents, columns)


@dataclass(frozen=True)
class _DecodedSegment:
    """A stretch with all its terms, ascending; the last stands twice, so that there is a next.

    The postings of term n are those from `spans[n][0]` up to `spans[n][1]`.
    """

    first: int
    documents: _Documents
    terms: NDArray[np.int64]
    spans: NDArray[np.int32]
    columns: Columns

    @property
    def size_bytes(self) -> int:
        columns = (self.terms, self.spans, *self.columns)
        return self.documents.size_bytes + sum([column.nbytes for column in columns])

    def without(self, ordinal: int) -> _DecodedSegment | None:
        """Return it as it is, or None when it has that document: it is soon decoded again."""
        is_inside = self.first <= ordinal < self.first + len(self.documents.numbers)
        return None if is_inside else self

    def covers(self, first: int, end: int) -> bool:
        return self.first == first and len(self.documents.numbers) == end - first

    def postings_of(self, terms: NDArray[np.int64]) -> list[TermPostings]:
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
class _Layout:
    """The runs of a scope: documents of those that are split, and the stretches behind them."""

    count: int
    sharded: _Documents | None
    segments: Sequence[_DecodedSegment]

    @property
    def sharded_count(self) -> int:
        return len(self.sharded.numbers) if self.sharded else 0

    @functools.cached_property
    def numbers(self) -> Sequence[Numbers]:
        return [piece.numbers for piece in self._pieces]

    @functools.cached_property
    def live(self) -> int:
        return sum([piece.live for piece in self._pieces])

    @functools.cached_property
    def total_length(self) -> int:
        return sum([piece.total_length for piece in self._pieces])

    @property
    def _pieces(self) -> Sequence[_Documents]:
        tail = [decoded.documents for decoded in self.segments]
        return [self.sharded, *tail] if self.sharded else tail

    @property
    def size_bytes(self) -> int:
        sharded_bytes = self.sharded.size_bytes if self.sharded else 0
        return sharded_bytes + sum([decoded.size_bytes for decoded in self.segments])

    def without(self, ordinal: int) -> _Layout:
        """Return it with a tombstone at a place; what held that document is soon decoded again."""
        sharded = self.sharded.without(ordinal) if self.sharded else None
        segments = [
            remaining
            for decoded in self.segments
            if (remaining := decoded.without(ordinal)) is not None
        ]
        count = self.count if len(segments) == len(self.segments) else -1
        return _Layout(count, sharded, segments)

    def segment_covering(self, first: int, end: int) -> _DecodedSegment | None:
        return next((decoded for decoded in self.segments if decoded.covers(first, end)), None)


_EMPTY = _Layout(-1, None, ())


def read(
    source: Source, cache: LruCache, scope_nos: Sequence[int], query_terms: NDArray[np.int64]
) -> list[ScopePostings]:
    """Read what scopes have of the asked terms, which are numbers in ascending order."""
    layouts = _layouts(source, cache, scope_nos)
    postings = _read_terms(source, cache, layouts, query_terms)
    return [
        ScopePostings(
            layout.numbers, layout.count, layout.live, layout.total_length, postings[scope_no]
        )
        for scope_no, layout in layouts.items()
    ]


def _layouts(source: Source, cache: LruCache, scope_nos: Sequence[int]) -> dict[int, _Layout]:
    counts = source.counts(scope_nos)
    layouts: dict[int, _Layout] = {}
    cached_layouts: list[_Layout | None] = cache.get_all(
        [(number, "layout") for number in scope_nos]
    )
    for scope_no, layout in zip(scope_nos, cached_layouts, strict=True):
        count = counts.get(scope_no, 0)
        if layout is None or layout.count != count:
            previous = layout or _EMPTY
            layout = _layout(source, scope_no, count, previous)  # noqa: PLW2901 - the current one
            if count >= previous.count:  # an older snapshot leaves what newer ones need
                cache.put((scope_no, "layout"), layout, layout.size_bytes)
        layouts[scope_no] = layout
    return layouts


def _layout(source: Source, scope_no: int, count: int, previous: _Layout) -> _Layout:
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
    return _Layout(count, sharded, segments)


def _read_segment(source: Source, scope_no: int, first: int, end: int) -> _DecodedSegment:
    rows = source.rows([RowRange(scope_no, DOCUMENTS, first, end)])
    decoded = _decoded(first, [data for _, data in rows.get((scope_no, DOCUMENTS), ())])
    if not decoded.covers(first, end):
        raise segment_codec.CorruptSegment("rows of the index are missing")
    return decoded


def _decoded(first: int, rows: Sequence[bytes]) -> _DecodedSegment:
    if not rows:
        raise segment_codec.CorruptSegment("rows of the index are missing")
    joined = segment.join([segment_codec.unpack(data) for data in rows])
    starts = np.flatnonzero(np.diff(joined.terms, prepend=joined.terms[:1] - 1))
    ends = np.append(starts, len(joined.terms))[1:]
    return _DecodedSegment(
        first,
        _documents_of(joined.numbers, joined.lengths),
        np.append(joined.terms[starts], joined.terms[-1:]),
        np.column_stack((starts, ends)).astype(np.int32),
        Columns(
            joined.ordinals.astype(np.int32), joined.frequencies, joined.lengths[joined.ordinals]
        ),
    )


CachedPostings = Mapping[int, list[_Postings | None]]
"""By scope, the postings of each asked term as far as the cache has them."""


def _read_terms(
    source: Source, cache: LruCache, layouts: Mapping[int, _Layout], query_terms: NDArray[np.int64]
) -> dict[int, Sequence[TermPostings]]:
    """Find the postings of asked terms in the runs that are split and in those that are not."""
    terms = query_terms.tolist()
    sharded = [scope_no for scope_no, layout in layouts.items() if layout.sharded]
    cached: list[_Postings | None] = cache.get_all(
        [(scope_no, term) for scope_no in sharded for term in terms]
    )
    size = len(terms)
    postings = {
        scope_no: cached[index * size : (index + 1) * size]
        for index, scope_no in enumerate(sharded)
    }
    _read_missing(source, cache, layouts, query_terms, postings)
    results: dict[int, Sequence[TermPostings]] = {}
    for scope_no, layout in layouts.items():
        if layout.sharded:
            current = [
                (index, entry.until(layout.count))
                for index, entry in enumerate(postings[scope_no])
                if entry
            ]
            results[scope_no] = [
                TermPostings(index, 0, columns)
                for index, columns in current
                if len(columns.ordinals)
            ]
        else:
            results[scope_no] = [
                match for decoded in layout.segments for match in decoded.postings_of(query_terms)
            ]
    return results


def _read_missing(
    source: Source,
    cache: LruCache,
    layouts: Mapping[int, _Layout],
    query_terms: NDArray[np.int64],
    postings: CachedPostings,
) -> None:
    """Read the postings that the cache lacks, for all scopes at once; fills `postings`."""
    terms = query_terms.tolist()
    stale: dict[int, list[int]] = {}
    for scope_no, cached in postings.items():
        count = layouts[scope_no].count
        missing = [n for n, entry in enumerate(cached) if entry is None or entry.documents < count]
        if missing:
            stale[scope_no] = missing
    ranges = _ranges(layouts, terms, postings, stale)
    rows = source.rows(ranges) if ranges else {}
    for scope_no, missing in stale.items():
        layout, cached = layouts[scope_no], postings[scope_no]
        tail = _by_term(
            match
            for decoded in layout.segments
            for match in decoded.postings_of(query_terms[missing])
        )
        for n, index in enumerate(missing):
            sharded = _read_sharded(terms[index], cached[index], layout, rows, scope_no)
            columns = _join([sharded, *tail.get(n, ())])
            cached[index] = entry = _Postings(layout.count, columns)
            cache.put((scope_no, terms[index]), entry, sum([column.nbytes for column in columns]))


def _ranges(
    layouts: Mapping[int, _Layout],
    terms: Sequence[int],
    postings: CachedPostings,
    stale: Mapping[int, Sequence[int]],
) -> list[RowRange]:
    """Return the rows of split runs that stale terms need, each bucket of a scope once."""
    ranges: dict[tuple[int, int], RowRange] = {}
    for scope_no, missing in stale.items():
        end = layouts[scope_no].sharded_count
        for index in missing:
            first = _cached_until(postings[scope_no][index], end)
            key = scope_no, segment_codec.bucket(terms[index])
            if first < end and (key not in ranges or first < ranges[key].first):
                ranges[key] = RowRange(*key, first, end)
    return list(ranges.values())


def _by_term(matches: Iterable[TermPostings]) -> dict[int, list[Columns]]:
    terms: dict[int, list[Columns]] = {}
    for term, first, postings in matches:
        terms.setdefault(term, []).append(postings.shifted(first))
    return terms


def _join(parts: Sequence[Columns]) -> Columns:
    filled = [part for part in parts if len(part.ordinals)]
    if len(filled) < 2:  # noqa: PLR2004 - nothing to join
        return filled[0] if filled else parts[0]
    parts = filled
    return Columns(*[np.concatenate(column) for column in zip(*parts, strict=True)])


def _read_sharded(
    term: int, entry: _Postings | None, layout: _Layout, rows: Rows, scope_no: int
) -> Columns:
    """Return what the runs that are split have of a term, which may be known up to a document."""
    end = layout.sharded_count
    first = _cached_until(entry, end)
    columns = [entry.until(first)] if entry else []
    if first < end and layout.sharded:
        shard_rows = rows.get((scope_no, segment_codec.bucket(term)), ())
        unread = [row for row in shard_rows if row[0] >= first]
        columns.append(_postings(term, unread, layout.sharded.lengths))
    return _join(columns)


def _cached_until(entry: _Postings | None, count: int) -> int:
    """Return where the runs begin that are still to be read."""
    return min(entry.documents // SHARD_SIZE * SHARD_SIZE, count) if entry else 0


def _documents(source: Source, scope_no: int, count: int, cached: _Documents | None) -> _Documents:
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


def _documents_of(numbers: Numbers, lengths: NDArray[np.uint16]) -> _Documents:
    live = int(np.count_nonzero(numbers))  # the number of a tombstone is 0
    return _Documents(numbers, lengths, live, int(lengths.sum(dtype=np.int64)))


_NO_POSTINGS = Columns(np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.uint16))


@functools.lru_cache(maxsize=4096)
def _counts(number: int) -> struct.Struct:
    return struct.Struct(f"<{number}H")


def _postings(term: int, rows: Sequence[tuple[int, bytes]], lengths: NDArray[np.uint16]) -> Columns:
    """Find a term's postings in the rows of its bucket."""
    firsts, sizes, ordinals, frequencies = [], [], [], []
    needle = _TERM.pack(term)
    for first, data in rows:
        _, terms, postings = segment_codec.head(data)
        counts = _HEAD.size + 8 * terms
        offset = data.find(needle, _HEAD.size, counts)
        while (
            offset >= 0 and (offset - _HEAD.size) % 8
        ):  # the end of one term and the start of the next
            offset = data.find(needle, offset + 1, counts)
        if offset < 0:
            continue
        counts_before = _counts((offset - _HEAD.size) // 8 + 1).unpack_from(data, counts)
        size = counts_before[-1]
        skipped = sum(counts_before) - size
        if skipped + size > postings:
            raise segment_codec.CorruptSegment(
                "a row of the index has not the postings that it says"
            )
        start = counts + 2 * terms
        ordinals.append(data[start + 2 * skipped : start + 2 * (skipped + size)])
        start += 2 * postings + skipped
        frequencies.append(data[start : start + size])
        firsts.append(first)
        sizes.append(size)
    if not sizes:
        return _NO_POSTINGS
    document_ordinals = segment_codec.check_ordinals(
        np.frombuffer(b"".join(ordinals), "<u2"), SHARD_SIZE
    ).astype(np.int32)
    document_ordinals += np.repeat(np.array(firsts, dtype=np.int32), sizes)
    return Columns(
        document_ordinals, np.frombuffer(b"".join(frequencies), "u1"), lengths[document_ordinals]
    )
