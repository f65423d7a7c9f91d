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
Rows = Mapping[int, Sequence[tuple[int, bytes]]]


class Source(Protocol):
    """Where the rows of one snapshot are."""

    def count(self, scope_no: int) -> int:
        """Return how many documents a scope has."""
        ...

    def rows(self, scope_no: int, buckets: Sequence[int], first: int, end: int) -> Rows:
        """Read rows of the runs from `first` up to `end`: by bucket, each with where it begins."""
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


def texts(source: Source, kept: Kept, scope_no: int, asked: NDArray[np.int64]) -> Texts:
    """Read what a scope has of the asked terms, which are numbers in ascending order."""
    count = source.count(scope_no)
    first = count // SPLIT * SPLIT
    pieces = [_documents(source, kept, scope_no, first)] if first else []
    wholes = _wholes(source, kept, (scope_no, first), count)
    pieces += [whole.documents for whole in wholes]
    if first:
        found = _together(source, kept, (scope_no, count), asked, (pieces[0], wholes))
    else:
        found = [each for whole in wholes for each in whole.found(asked)]
    length = sum([piece.total_length for piece in pieces])
    live = sum([piece.live for piece in pieces])
    return Texts([piece.numbers for piece in pieces], count, live, length, found)


def _wholes(source: Source, kept: Kept, begin: tuple[int, int], count: int) -> list[_Whole]:
    """Return the stretches behind the runs that are split."""
    scope_no, first = begin
    found = []
    for size in _ENDS:
        end = count // size * size
        if end > first:
            found.append(_whole(source, kept, (scope_no, size), (first, end)))
        first = end
    return found


def _whole(source: Source, kept: Kept, key: tuple[int, int], span: tuple[int, int]) -> _Whole:
    (scope_no, size), (first, end) = key, span
    held: _Whole | None = kept.get((scope_no, "whole", size))
    if held is None or not held.is_of(first, end):
        rows = source.rows(scope_no, (WHOLE,), first, end)
        held = _decoded(first, [data for _, data in rows.get(WHOLE, ())])
        if not held.is_of(first, end):
            raise segment_codec.Unreadable("rows of the index are missing")
        kept.put((scope_no, "whole", size), held, held.size_bytes)
    return held


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


def _together(
    source: Source,
    kept: Kept,
    whole: tuple[int, int],
    asked: NDArray[np.int64],
    parts: tuple[_Documents, Sequence[_Whole]],
) -> list[Found]:
    """Find the postings of asked terms in the runs that are split and in those that are not."""
    scope_no, count = whole
    terms = asked.tolist()
    known: list[_Postings | None] = kept.get_all([(scope_no, term) for term in terms])
    stale = [n for n, held in enumerate(known) if held is None or held.documents < count]
    if stale:
        split, wholes = parts
        before = _split(source, scope_no, [(terms[n], known[n]) for n in stale], split)
        behind = _by_term(each for whole in wholes for each in whole.found(asked[stale]))
        for n, spot in enumerate(stale):
            columns = [before[n], *behind.get(n, ())]
            known[spot] = held = _Postings(count, _joined(columns))
            kept.put((scope_no, terms[spot]), held, sum([column.nbytes for column in held.columns]))
    found = [(n, held.until(count)) for n, held in enumerate(known) if held]
    return [Found(n, 0, columns) for n, columns in found if len(columns.places)]


def _by_term(found: Iterable[Found]) -> dict[int, list[Columns]]:
    terms: dict[int, list[Columns]] = {}
    for term, first, postings in found:
        terms.setdefault(term, []).append(postings.shifted(first))
    return terms


def _joined(parts: Sequence[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return Columns(*[np.concatenate(column) for column in zip(*parts, strict=True)])


def _split(
    source: Source,
    scope_no: int,
    terms: Sequence[tuple[int, _Postings | None]],
    documents: _Documents,
) -> list[Columns]:
    """Return what the runs that are split have of terms, which may be known up to a document."""
    count = len(documents.numbers)
    wanted: dict[int, set[int]] = {}
    for term, held in terms:
        first = _known_until(held, count)
        if first < count:
            wanted.setdefault(first, set()).add(segment_codec.bucket(term))
    rows = {
        first: source.rows(scope_no, sorted(buckets), first, count)
        for first, buckets in wanted.items()
    }
    found = []
    for term, held in terms:
        first = _known_until(held, count)
        columns = [held.until(first)] if held else []
        if first < count:
            own = rows[first].get(segment_codec.bucket(term), ())
            columns.append(_postings(term, own, documents.lengths))
        found.append(_joined(columns))
    return found


def _known_until(held: _Postings | None, count: int) -> int:
    """Return where the runs begin that are still to be read."""
    return min(held.documents // SPLIT * SPLIT, count) if held else 0


def _documents(source: Source, kept: Kept, scope_no: int, count: int) -> _Documents:
    held: _Documents | None = kept.get((scope_no, "documents"))
    before = len(held.numbers) if held else 0
    if held is None or before < count:
        rows = source.rows(scope_no, (WHOLE,), before, count).get(WHOLE, ())
        if sum([segment_codec.head(data)[0] for _, data in rows]) != count - before:
            raise segment_codec.Unreadable("rows of the index are missing")
        numbers = b"".join([data[-6 * SPLIT : -2 * SPLIT] for _, data in rows])
        lengths = b"".join([data[-2 * SPLIT :] for _, data in rows])
        if held:
            numbers, lengths = held.numbers.tobytes() + numbers, held.lengths.tobytes() + lengths
        held = _documents_of(np.frombuffer(numbers, "<u4"), np.frombuffer(lengths, "<u2"))
        kept.put((scope_no, "documents"), held, held.size_bytes)
    elif before > count:
        return _documents_of(held.numbers[:count], held.lengths[:count])
    return held


def _documents_of(numbers: Numbers, lengths: NDArray[np.uint16]) -> _Documents:
    live = int(np.count_nonzero(numbers))  # the number of a tombstone is 0
    return _Documents(numbers, lengths, live, int(lengths.sum(dtype=np.int64)))


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
    found = segment_codec.placed(np.frombuffer(b"".join(places), "<u2"), SPLIT).astype(np.int32)
    found += np.repeat(np.array(firsts, dtype=np.int32), sizes)
    return Columns(found, np.frombuffer(b"".join(frequencies), "u1"), lengths[found])
