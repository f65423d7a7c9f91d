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
from knowledge_service.search.postings.cache import Kept
from knowledge_service.search.postings.segment_codec import SPLIT, WHOLE

# The sizes of runs at which a stretch ends; whatever is smaller is in the last one.
_ENDS = (512, 64, 1)
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

    places: NDArray[np.int32]
    frequencies: NDArray[np.uint8]
    lengths: NDArray[np.uint16]

    def some(self, first: int, end: int) -> Columns:
        """Return those from one up to another."""
        places, frequencies, lengths = self
        return Columns(places[first:end], frequencies[first:end], lengths[first:end])

    def shifted(self, first: int) -> Columns:
        """Return them with places that count from so many documents before."""
        return Columns(self.places + np.int32(first), self.frequencies, self.lengths)


class Found(NamedTuple):
    """What some documents have of a term, which is named by its place among the asked.

    The places of the postings count from document `first` of the scope.
    """

    term: int
    first: int
    postings: Columns


@dataclass(frozen=True)
class Texts:
    """The documents of a scope in their order, and what they have of the asked terms.

    The numbers of their facts come in pieces. What is found of a document is ascending by term.
    """

    numbers: Sequence[Numbers]
    count: int
    live: int
    """How many of them are no tombstones."""
    total_length: int
    found: Sequence[Found]


@dataclass(frozen=True)
class _Documents:
    numbers: Numbers
    lengths: NDArray[np.uint16]
    live: int
    total_length: int

    @property
    def size_bytes(self) -> int:
        return self.numbers.nbytes + self.lengths.nbytes

    def without(self, place: int) -> _Documents:
        """Return them with a tombstone at a place."""
        if place >= len(self.numbers):
            return self
        numbers, lengths = self.numbers.copy(), self.lengths.copy()
        numbers[place], lengths[place] = segment.TOMBSTONE, 0
        return _documents_of(numbers, lengths)


@dataclass(frozen=True, slots=True)
class _Postings:
    """A term's postings in the first so many documents."""

    documents: int
    columns: Columns

    def until(self, documents: int) -> Columns:
        if documents == self.documents:
            return self.columns
        return self.columns.some(0, int(self.columns.places.searchsorted(documents)))

    def without(self, place: int) -> _Postings:
        """Return them without those of a document."""
        spot = int(self.columns.places.searchsorted(place))
        if spot == len(self.columns.places) or self.columns.places[spot] != place:
            return self
        places, frequencies, lengths = self.columns
        columns = Columns(
            np.delete(places, spot), np.delete(frequencies, spot), np.delete(lengths, spot)
        )
        return _Postings(self.documents, columns)


@dataclass(frozen=True)
class _Whole:
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

    def without(self, place: int) -> _Whole | None:
        """Return it as it is, or None when it has that document: it is soon decoded again."""
        is_here = self.first <= place < self.first + len(self.documents.numbers)
        return None if is_here else self

    def is_of(self, first: int, end: int) -> bool:
        return self.first == first and len(self.documents.numbers) == end - first

    def found(self, asked: NDArray[np.int64]) -> list[Found]:
        if not len(self.terms):
            return []
        spots = self.terms[:-1].searchsorted(asked)
        hits = (self.terms[spots] == asked).nonzero()[0]
        spans = self.spans[spots[hits]].tolist()
        return [
            Found(place, self.first, self.columns.some(start, end))
            for place, (start, end) in zip(hits.tolist(), spans, strict=True)
        ]


@dataclass(frozen=True)
class _Layout:
    """The runs of a scope: documents of those that are split, and the stretches behind them."""

    count: int
    split: _Documents | None
    wholes: Sequence[_Whole]

    @property
    def split_count(self) -> int:
        return len(self.split.numbers) if self.split else 0

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
        behind = [whole.documents for whole in self.wholes]
        return [self.split, *behind] if self.split else behind

    @property
    def size_bytes(self) -> int:
        split = self.split.size_bytes if self.split else 0
        return split + sum([whole.size_bytes for whole in self.wholes])

    def without(self, place: int) -> _Layout:
        """Return it with a tombstone at a place; what held that document is soon decoded again."""
        split = self.split.without(place) if self.split else None
        wholes = [left for whole in self.wholes if (left := whole.without(place)) is not None]
        count = self.count if len(wholes) == len(self.wholes) else -1
        return _Layout(count, split, wholes)

    def whole_of(self, first: int, end: int) -> _Whole | None:
        return next((whole for whole in self.wholes if whole.is_of(first, end)), None)


_EMPTY = _Layout(-1, None, ())


def read(
    source: Source, kept: Kept, scope_nos: Sequence[int], asked: NDArray[np.int64]
) -> list[Texts]:
    """Read what scopes have of the asked terms, which are numbers in ascending order."""
    layouts = _layouts(source, kept, scope_nos)
    found = _together(source, kept, layouts, asked)
    return [
        Texts(each.numbers, each.count, each.live, each.total_length, found[scope_no])
        for scope_no, each in layouts.items()
    ]


def _layouts(source: Source, kept: Kept, scope_nos: Sequence[int]) -> dict[int, _Layout]:
    counts = source.counts(scope_nos)
    layouts: dict[int, _Layout] = {}
    held: list[_Layout | None] = kept.get_all([(number, "layout") for number in scope_nos])
    for scope_no, layout in zip(scope_nos, held, strict=True):
        count = counts.get(scope_no, 0)
        if layout is None or layout.count != count:
            before = layout or _EMPTY
            layout = _layout(source, scope_no, count, before)  # noqa: PLW2901 - the current one
            if count >= before.count:  # an older snapshot leaves what newer ones need
                kept.put((scope_no, "layout"), layout, layout.size_bytes)
        layouts[scope_no] = layout
    return layouts


def _layout(source: Source, scope_no: int, count: int, before: _Layout) -> _Layout:
    """Decode the runs of a scope; those that `before` has are taken from there."""
    first = count // SPLIT * SPLIT
    split = _documents(source, scope_no, first, before.split) if first else None
    wholes = []
    for size in _ENDS:
        end = count // size * size
        if end > first:
            wholes.append(before.whole_of(first, end) or _whole(source, scope_no, first, end))
        first = end
    return _Layout(count, split, wholes)


def _whole(source: Source, scope_no: int, first: int, end: int) -> _Whole:
    rows = source.rows([RowRange(scope_no, WHOLE, first, end)])
    whole = _decoded(first, [data for _, data in rows.get((scope_no, WHOLE), ())])
    if not whole.is_of(first, end):
        raise segment_codec.Unreadable("rows of the index are missing")
    return whole


def _decoded(first: int, rows: Sequence[bytes]) -> _Whole:
    if not rows:
        raise segment_codec.Unreadable("rows of the index are missing")
    run = segment.join([segment_codec.unpack(data) for data in rows])
    starts = np.flatnonzero(np.diff(run.terms, prepend=run.terms[:1] - 1))
    ends = np.append(starts, len(run.terms))[1:]
    return _Whole(
        first,
        _documents_of(run.numbers, run.lengths),
        np.append(run.terms[starts], run.terms[-1:]),
        np.column_stack((starts, ends)).astype(np.int32),
        Columns(run.places.astype(np.int32), run.frequencies, run.lengths[run.places]),
    )


Known = Mapping[int, list[_Postings | None]]
"""By scope, the postings of each asked term as far as the cache has them."""


def _together(
    source: Source, kept: Kept, layouts: Mapping[int, _Layout], asked: NDArray[np.int64]
) -> dict[int, Sequence[Found]]:
    """Find the postings of asked terms in the runs that are split and in those that are not."""
    terms = asked.tolist()
    split = [scope_no for scope_no, layout in layouts.items() if layout.split]
    every: list[_Postings | None] = kept.get_all([(no, term) for no in split for term in terms])
    size = len(terms)
    known = {no: every[n * size : (n + 1) * size] for n, no in enumerate(split)}
    _complete(source, kept, layouts, asked, known)
    found: dict[int, Sequence[Found]] = {}
    for scope_no, layout in layouts.items():
        if layout.split:
            cut = [(n, held.until(layout.count)) for n, held in enumerate(known[scope_no]) if held]
            found[scope_no] = [Found(n, 0, columns) for n, columns in cut if len(columns.places)]
        else:
            found[scope_no] = [each for whole in layout.wholes for each in whole.found(asked)]
    return found


def _complete(
    source: Source,
    kept: Kept,
    layouts: Mapping[int, _Layout],
    asked: NDArray[np.int64],
    known: Known,
) -> None:
    """Read the postings that the cache lacks, for all scopes at once; changes `known`."""
    terms = asked.tolist()
    stale: dict[int, list[int]] = {}
    for scope_no, own in known.items():
        count = layouts[scope_no].count
        missing = [n for n, held in enumerate(own) if held is None or held.documents < count]
        if missing:
            stale[scope_no] = missing
    ranges = _ranges(layouts, terms, known, stale)
    rows = source.rows(ranges) if ranges else {}
    for scope_no, missing in stale.items():
        layout, own = layouts[scope_no], known[scope_no]
        behind = _by_term(each for whole in layout.wholes for each in whole.found(asked[missing]))
        for n, spot in enumerate(missing):
            before = _split(terms[spot], own[spot], layout, rows, scope_no)
            columns = _joined([before, *behind.get(n, ())])
            own[spot] = held = _Postings(layout.count, columns)
            kept.put((scope_no, terms[spot]), held, sum([column.nbytes for column in columns]))


def _ranges(
    layouts: Mapping[int, _Layout],
    terms: Sequence[int],
    known: Known,
    stale: Mapping[int, Sequence[int]],
) -> list[RowRange]:
    """Return the rows of split runs that stale terms need, each bucket of a scope once."""
    ranges: dict[tuple[int, int], RowRange] = {}
    for scope_no, missing in stale.items():
        end = layouts[scope_no].split_count
        for n in missing:
            first = _known_until(known[scope_no][n], end)
            key = scope_no, segment_codec.bucket(terms[n])
            if first < end and (key not in ranges or first < ranges[key].first):
                ranges[key] = RowRange(*key, first, end)
    return list(ranges.values())


def _by_term(found: Iterable[Found]) -> dict[int, list[Columns]]:
    terms: dict[int, list[Columns]] = {}
    for term, first, postings in found:
        terms.setdefault(term, []).append(postings.shifted(first))
    return terms


def _joined(parts: Sequence[Columns]) -> Columns:
    filled = [part for part in parts if len(part.places)]
    if len(filled) < 2:  # noqa: PLR2004 - nothing to join
        return filled[0] if filled else parts[0]
    parts = filled
    return Columns(*[np.concatenate(column) for column in zip(*parts, strict=True)])


def _split(
    term: int, held: _Postings | None, layout: _Layout, rows: Rows, scope_no: int
) -> Columns:
    """Return what the runs that are split have of a term, which may be known up to a document."""
    end = layout.split_count
    first = _known_until(held, end)
    columns = [held.until(first)] if held else []
    if first < end and layout.split:
        own = rows.get((scope_no, segment_codec.bucket(term)), ())
        new = [row for row in own if row[0] >= first]
        columns.append(_postings(term, new, layout.split.lengths))
    return _joined(columns)


def _known_until(held: _Postings | None, count: int) -> int:
    """Return where the runs begin that are still to be read."""
    return min(held.documents // SPLIT * SPLIT, count) if held else 0


def _documents(source: Source, scope_no: int, count: int, held: _Documents | None) -> _Documents:
    before = len(held.numbers) if held else 0
    if held and before >= count:
        return (
            held if before == count else _documents_of(held.numbers[:count], held.lengths[:count])
        )
    read = source.rows([RowRange(scope_no, WHOLE, before, count)])
    rows = read.get((scope_no, WHOLE), ())
    if sum([segment_codec.head(data)[0] for _, data in rows]) != count - before:
        raise segment_codec.Unreadable("rows of the index are missing")
    numbers = b"".join([data[-6 * SPLIT : -2 * SPLIT] for _, data in rows])
    lengths = b"".join([data[-2 * SPLIT :] for _, data in rows])
    if held:
        numbers, lengths = held.numbers.tobytes() + numbers, held.lengths.tobytes() + lengths
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
    firsts, sizes, places, frequencies = [], [], [], []
    needle = _TERM.pack(term)
    for first, data in rows:
        _, terms, postings = segment_codec.head(data)
        counts = _HEAD.size + 8 * terms
        at = data.find(needle, _HEAD.size, counts)
        while at >= 0 and (at - _HEAD.size) % 8:  # the end of one term and the start of the next
            at = data.find(needle, at + 1, counts)
        if at < 0:
            continue
        own = _counts((at - _HEAD.size) // 8 + 1).unpack_from(data, counts)
        size = own[-1]
        before = sum(own) - size
        if before + size > postings:
            raise segment_codec.Unreadable("a row of the index has not the postings that it says")
        start = counts + 2 * terms
        places.append(data[start + 2 * before : start + 2 * (before + size)])
        start += 2 * postings + before
        frequencies.append(data[start : start + size])
        firsts.append(first)
        sizes.append(size)
    if not sizes:
        return _NO_POSTINGS
    found = segment_codec.placed(np.frombuffer(b"".join(places), "<u2"), SPLIT).astype(np.int32)
    found += np.repeat(np.array(firsts, dtype=np.int32), sizes)
    return Columns(found, np.frombuffer(b"".join(frequencies), "u1"), lengths[found])
