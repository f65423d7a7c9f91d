"""Segments: the documents of a scope in runs, each with its postings packed as arrays.

Documents of one scope are numbered 0, 1, 2, … in the order in which they came. `layout` says into
which runs so many documents are cut: as digits of a number to the base 8, runs of 1, 8, 64 and 512,
and above that as many of 4,096 as fit. So the packed form depends on the documents alone, never on
how they were grouped into writes, and an index that is built anew is equal to the byte.

A small run is one row. A run of 4,096 is one row of documents (`WHOLE`) and up to 1,024 rows of
postings by the first bits of the term's number, so that a question reads what it needs.

    n documents, u terms, m postings | u terms | u counts | m places | m frequencies | n numbers
    | n lengths

Counts and places take two bytes, in runs of up to 64 documents one, and are left out where a run
is one document: it has each of its terms once, at place 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIZES = (4096, 512, 64, 8, 1)
SPLIT = SIZES[0]
BUCKETS = 1024
WHOLE = -1
"""The bucket of rows that hold documents."""
_SHIFT = 54  # leaves the first 10 bits of a term's number
_HEAD = struct.Struct("<III")
_ONE = struct.Struct("<IH")
_NARROW = 64
_MAX_LENGTH = 65_535
_MAX_FREQUENCY = 255


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
class Run:
    """Documents with their postings, one entry a (term, document), ordered by term, then place.

    `places` count from the run's first document.
    """

    numbers: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    terms: NDArray[np.int64]
    places: NDArray[np.int64]
    frequencies: NDArray[np.uint8]


class Row(NamedTuple):
    """A packed part of the run of `size` documents that begins at document `first`."""

    bucket: int
    first: int
    size: int
    data: bytes


def layout(documents: int, first: int = 0) -> list[tuple[int, int]]:
    """Cut so many documents into runs: (first, size), in order; from the run at `first` on."""
    runs = []
    for size in SIZES:
        while documents - first >= size:
            runs.append((first, size))
            first += size
    return runs


def kept(before: int, after: int) -> int:
    """Return how many documents stay in the runs that they are in when some are added."""
    for size in SIZES:
        if before // size != after // size:
            return before // size * size
    return before


def gather(documents: Sequence[Document]) -> Run:
    """Make a run of new documents."""
    counts = [len(document.terms) for document in documents]
    total = sum(counts)
    terms = np.fromiter(chain.from_iterable([d.terms for d in documents]), np.int64, total)
    each = chain.from_iterable([d.frequencies for d in documents])
    frequencies = np.fromiter(each, np.int64, total)
    return _ordered(
        Run(
            np.array([d.number for d in documents], dtype=np.uint32),
            np.array([min(d.length, _MAX_LENGTH) for d in documents], dtype=np.uint16),
            terms,
            np.repeat(np.arange(len(documents)), counts),
            np.minimum(frequencies, _MAX_FREQUENCY).astype(np.uint8),
        )
    )


def gather_packed(numbers: Sequence[int], packed: Sequence[bytes]) -> Run:
    """Make a run of new documents from their numbers and those of their terms.

    What is packed is one term after the other in any order, as often as it comes, 8 bytes each.
    """
    lengths = np.array([len(each) for each in packed], dtype=np.int64) >> 3
    every = np.frombuffer(b"".join(packed), "<i8")
    order = np.argsort(every, kind="stable")
    terms, places = every[order], np.repeat(np.arange(len(packed)), lengths)[order]
    is_first = np.ones(len(terms), dtype=bool)
    is_first[1:] = (terms[1:] != terms[:-1]) | (places[1:] != places[:-1])
    firsts = np.flatnonzero(is_first)
    frequencies = _lengths(firsts, len(terms))
    return Run(
        np.array(numbers, dtype=np.uint32),
        np.minimum(lengths, _MAX_LENGTH).astype(np.uint16),
        terms[firsts],
        places[firsts],
        np.minimum(frequencies, _MAX_FREQUENCY).astype(np.uint8),
    )


def join(runs: Sequence[Run]) -> Run:
    """Put runs one after the other."""
    firsts = np.cumsum([0, *(len(run.numbers) for run in runs[:-1])])
    return _ordered(
        Run(
            np.concatenate([run.numbers for run in runs]),
            np.concatenate([run.lengths for run in runs]),
            np.concatenate([run.terms for run in runs]),
            np.concatenate([r.places + first for r, first in zip(runs, firsts, strict=True)]),
            np.concatenate([run.frequencies for run in runs]),
        )
    )


def alone(document: Document, first: int) -> Row:
    """Pack a run of one document: what `cut` gives for it, at a tenth of the cost."""
    m = len(document.terms)
    data = b"".join(
        (
            _HEAD.pack(1, m, m),
            struct.pack(f"<{m}q", *document.terms),
            bytes([min(count, _MAX_FREQUENCY) for count in document.frequencies]),
            _ONE.pack(document.number, min(document.length, _MAX_LENGTH)),
        )
    )
    return Row(WHOLE, first, 1, data)


def packed_alone(data: bytes) -> tuple[int, bytes] | None:
    """Read a run of one document as `gather_packed` takes it; None where it was cut short."""
    _, _, m = _HEAD.unpack_from(data)
    terms, at = data[_HEAD.size : _HEAD.size + 8 * m], _HEAD.size + 8 * m
    frequencies = data[at : at + m]
    number, length = _ONE.unpack_from(data, at + m)
    if length != m:
        each = [terms[8 * n : 8 * n + 8] * count for n, count in enumerate(frequencies)]
        terms = b"".join(each)
    return (number, terms) if 8 * length == len(terms) and length < _MAX_LENGTH else None


def drop(run: Run, place: int) -> Run:
    """Take a document out of a run, as if it had never come."""
    chosen = run.places != place
    places = run.places[chosen]
    return Run(
        np.delete(run.numbers, place),
        np.delete(run.lengths, place),
        run.terms[chosen],
        places - (places > place),
        run.frequencies[chosen],
    )


def cut(run: Run, first: int) -> Iterator[Row]:
    """Pack the last documents of a scope, which begin with the run at `first`."""
    for start, size in layout(first + len(run.numbers), first):
        if size == 1:
            yield _pack_one(run, start - first, start)
        else:
            yield from _pack(_slice(run, start - first, size), start)


def extend(rows: Sequence[Row], new: Sequence[tuple[int, bytes]], first: int) -> Iterator[Row]:
    """Pack the last documents of a scope: those of rows, if any, from `first` on, then new ones.

    New ones are given by number as `gather_packed` takes them. Each run is put together from what
    is in it: runs of rows lie in it whole.
    """
    before = rows[-1].first + rows[-1].size if rows else first
    place = 0
    for start, size in layout(before + len(new), first):
        end = start + size
        last = place
        while last < len(rows) and rows[last].first < end:
            last += 1
        run = _put_together(rows[place:last], new[max(start - before, 0) : max(end - before, 0)])
        place = last
        if size == 1:
            yield _pack_one(run, 0, start)
        else:
            yield from _pack(run, start)


def _put_together(rows: Sequence[Row], new: Sequence[tuple[int, bytes]]) -> Run:
    """Put new documents behind those of rows; what stands alone, at the end, is as cheap as new."""
    alone = [packed_alone(row.data) for row in rows if row.size == 1]
    known = [each for each in alone if each is not None]
    if len(known) < len(alone):
        known, larger = [], rows
    else:
        larger = [row for row in rows if row.size > 1]
    runs = [unpack(row.data) for row in larger]
    if known or new:
        runs.append(gather_packed(*zip(*known, *new, strict=True)))
    return join(runs) if len(runs) > 1 else runs[0]


def unpack(data: bytes) -> Run:
    """Read a row back; one of postings alone has no documents."""
    n, u, m = _HEAD.unpack_from(data)
    at = _HEAD.size
    terms = np.frombuffer(data, "<i8", u, at)
    at += 8 * u
    places = np.zeros(m, dtype=np.int64)
    if n != 1:
        kind, width = ("u1", 1) if 0 < n <= _NARROW else ("<u2", 2)
        terms = np.repeat(terms, np.frombuffer(data, kind, u, at))
        places[:] = np.frombuffer(data, kind, m, at + width * u)
        at += width * (u + m)
    frequencies = np.frombuffer(data, "u1", m, at)
    numbers = np.frombuffer(data, "<u4", n, at := at + m)
    lengths = np.frombuffer(data, "<u2", n, at + 4 * n)
    return Run(numbers, lengths, terms, places, frequencies)


def restore(rows: Sequence[Row]) -> Run:
    """Put the rows of the last documents of a scope together, those of postings included."""
    runs = []
    for first in sorted({row.first for row in rows}):
        parts = [unpack(row.data) for row in rows if row.first == first]
        documents = next(part for part in parts if len(part.numbers))
        columns = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("terms", "places", "frequencies")
        ]
        runs.append(Run(documents.numbers, documents.lengths, *columns))
    return join(runs)


def bucket(term: int) -> int:
    """Return the bucket of a term in a run that is split; ascending with the term's number."""
    return (term >> _SHIFT) + BUCKETS // 2


def _ordered(run: Run) -> Run:
    order = np.argsort(run.terms, kind="stable")
    columns = (run.terms[order], run.places[order], run.frequencies[order])
    return Run(run.numbers, run.lengths, *columns)


def _slice(run: Run, start: int, size: int) -> Run:
    if size == len(run.numbers):
        return run
    chosen = (run.places >= start) & (run.places < start + size)
    end = start + size
    columns = (run.terms[chosen], run.places[chosen] - start, run.frequencies[chosen])
    return Run(run.numbers[start:end], run.lengths[start:end], *columns)


def _pack(run: Run, first: int) -> Iterator[Row]:
    size = len(run.numbers)
    starts, columns = _columns(run)
    if size < SPLIT:
        everything = (0, len(starts)), (0, len(run.terms))
        yield Row(WHOLE, first, size, columns.some(*everything, size) + _documents(run))
        return
    yield Row(WHOLE, first, size, columns.some((0, 0), (0, 0), size) + _documents(run))
    edges = np.searchsorted(run.terms[starts] >> _SHIFT, np.arange(BUCKETS + 1) - BUCKETS // 2)
    ends = np.append(starts, len(run.terms))[edges].tolist()
    lows = edges.tolist()
    for number in range(BUCKETS):
        low, high = lows[number], lows[number + 1]
        if low < high:
            data = columns.some((low, high), (ends[number], ends[number + 1]), 0)
            yield Row(number, first, size, data)


def _pack_one(run: Run, place: int, first: int) -> Row:
    """Pack one document of a run: what `_pack` gives for it, with fewer arrays."""
    chosen = np.flatnonzero(run.places == place)
    m = len(chosen)
    terms, frequencies = run.terms[chosen].tobytes(), run.frequencies[chosen].tobytes()
    document = _ONE.pack(int(run.numbers[place]), int(run.lengths[place]))
    head = _HEAD.pack(1, m, m)
    return Row(WHOLE, first, 1, b"".join((head, terms, frequencies, document)))


def _documents(run: Run) -> bytes:
    return run.numbers.astype("<u4").tobytes() + run.lengths.astype("<u2").tobytes()


def _columns(run: Run) -> tuple[NDArray[np.intp], _Columns]:
    """Pack each column; returned with where each term's postings begin."""
    is_first = np.ones(len(run.terms), dtype=bool)
    np.not_equal(run.terms[1:], run.terms[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    kind, width = ("u1", 1) if len(run.numbers) <= _NARROW else ("<u2", 2)
    return starts, _Columns(
        run.terms[starts].astype("<i8").tobytes(),
        _lengths(starts, len(run.terms)).astype(kind).tobytes(),
        run.places.astype(kind).tobytes(),
        run.frequencies.tobytes(),
        width,
    )


def _lengths(starts: NDArray[np.intp], end: int) -> NDArray[np.intp]:
    """Return how far it is from each start to the next; as `diff`, at a third of its cost."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts


@dataclass(frozen=True)
class _Columns:
    """A run's postings as they are packed: terms once each with a count, then their postings."""

    terms: bytes
    counts: bytes
    places: bytes
    frequencies: bytes
    width: int
    """How many bytes a count or a place takes."""

    def some(self, terms: tuple[int, int], postings: tuple[int, int], documents: int) -> bytes:
        """Pack a range of terms, which has a range of the postings; so many documents follow."""
        (low, high), (first, last) = terms, postings
        head, width = _HEAD.pack(documents, high - low, last - first), self.width
        return b"".join(
            (
                head,
                self.terms[8 * low : 8 * high],
                self.counts[width * low : width * high],
                self.places[width * first : width * last],
                self.frequencies[first:last],
            )
        )
