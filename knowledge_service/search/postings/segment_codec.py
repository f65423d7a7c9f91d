"""Rows of the index: a run packed as bytes, and read back.

A small run is one row. A run of `SPLIT` documents is one row of documents (`WHOLE`) and up to
`BUCKETS` rows of postings by the first bits of the term's number, so that a question reads what it
needs.

    n documents, u terms, m postings | u terms | u counts | m places | m frequencies | n numbers
    | n lengths

Counts and places take two bytes, in runs of up to 64 documents one, and are left out where a run
is one document: it has each of its terms once, at place 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import segment
from knowledge_service.search.postings.segment import (
    MAX_FREQUENCY,
    MAX_LENGTH,
    TOMBSTONE,
    Document,
    Run,
    distances,
)

SPLIT = 4096
BUCKETS = 1024
WHOLE = -1
"""The bucket of rows that hold documents."""
_SHIFT = 54  # leaves the first 10 bits of a term's number
_HEAD = struct.Struct("<III")
_ONE = struct.Struct("<IH")
_NUMBER, _LENGTH = struct.Struct("<I"), struct.Struct("<H")
_NARROW = 64


class Unreadable(Exception):
    """Bytes of the index are not what was packed: damage that the database does not notice."""


class Row(NamedTuple):
    """A packed part of the run of `size` documents that begins at document `first`."""

    bucket: int
    first: int
    size: int
    data: bytes


def alone(document: Document, first: int) -> Row:
    """Pack a run of one document: what `pack` gives for it, at a tenth of the cost."""
    m, counts = len(document.terms), document.frequencies
    if m and max(counts) > MAX_FREQUENCY:
        counts = tuple([min(count, MAX_FREQUENCY) for count in counts])
    data = b"".join(
        (
            _HEAD.pack(1, m, m),
            struct.pack(f"<{m}q", *document.terms),
            bytes(counts),
            _ONE.pack(document.number, min(document.length, MAX_LENGTH)),
        )
    )
    return Row(WHOLE, first, 1, data)


def packed_alone(data: bytes) -> tuple[int, bytes] | None:
    """Read a run of one document as `runs.gather_packed` takes it; None where it was cut short.

    Raises:
        Unreadable: it is none.
    """
    n, _, m = head(data)
    if n != 1:
        raise Unreadable("a document of the index is malformed")
    terms, at = data[_HEAD.size : _HEAD.size + 8 * m], _HEAD.size + 8 * m
    frequencies = data[at : at + m]
    number, length = _ONE.unpack_from(data, at + m)
    if length != m:
        each = [terms[8 * n : 8 * n + 8] * count for n, count in enumerate(frequencies)]
        terms = b"".join(each)
    return (number, terms) if 8 * length == len(terms) and length < MAX_LENGTH else None


def pack(run: Run, first: int) -> Iterator[Row]:
    """Pack a run that begins at document `first` of its scope."""
    size = len(run.numbers)
    starts, columns = _columns(run, size)
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


def blank(row: Row, place: int) -> Row | None:
    """Put a tombstone in the place of a document; None when a row of postings has none left."""
    if row.size == SPLIT and row.bucket == WHOLE:
        data = bytearray(row.data)
        _NUMBER.pack_into(data, len(data) - 6 * SPLIT + 4 * place, TOMBSTONE)
        _LENGTH.pack_into(data, len(data) - 2 * SPLIT + 2 * place, 0)
        return row._replace(data=bytes(data))
    run = segment.blank(unpack(row.data), place)
    if row.size == 1:
        return pack_one(run, 0, row.first)
    if row.bucket == WHOLE:
        return next(pack(run, row.first))
    if not len(run.terms):
        return None
    starts, columns = _columns(run, row.size)
    return row._replace(data=columns.some((0, len(starts)), (0, len(run.terms)), 0))


def numbers(data: bytes) -> NDArray[np.uint32]:
    """Read which documents a row holds, without its postings."""
    n, _, _ = head(data)
    return np.frombuffer(data, "<u4", n, len(data) - 6 * n)


def pack_one(run: Run, place: int, first: int) -> Row:
    """Pack one document of a run: what `pack` gives for it, with fewer arrays."""
    chosen = np.flatnonzero(run.places == place)
    m = len(chosen)
    terms, frequencies = run.terms[chosen].tobytes(), run.frequencies[chosen].tobytes()
    document = _ONE.pack(int(run.numbers[place]), int(run.lengths[place]))
    head = _HEAD.pack(1, m, m)
    return Row(WHOLE, first, 1, b"".join((head, terms, frequencies, document)))


def head(data: bytes) -> tuple[int, int, int]:
    """Read how many documents, terms and postings a row has.

    Raises:
        Unreadable: so many do not have so many bytes.
    """
    n, u, m = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0)
    width = 0 if n == 1 else 1 if 0 < n <= _NARROW else 2
    size = _HEAD.size + 8 * u + width * (u + m) + m + 6 * n
    if len(data) != size or (n == 1 and u != m):
        raise Unreadable("a row of the index has another size than it says")
    return n, u, m


def unpack(data: bytes) -> Run:
    """Read a row back; one of postings alone has no documents.

    Raises:
        Unreadable: it is none.
    """
    n, u, m = head(data)
    at = _HEAD.size
    terms = np.frombuffer(data, "<i8", u, at)
    at += 8 * u
    places = np.zeros(m, dtype=np.int64)
    if n != 1:
        kind, width = ("u1", 1) if 0 < n <= _NARROW else ("<u2", 2)
        counts = np.frombuffer(data, kind, u, at)
        if int(counts.sum(dtype=np.int64)) != m:
            raise Unreadable("a row of the index has not the postings that it says")
        terms = np.repeat(terms, counts)
        places[:] = placed(np.frombuffer(data, kind, m, at + width * u), n or SPLIT)
        at += width * (u + m)
    frequencies = np.frombuffer(data, "u1", m, at)
    numbers = np.frombuffer(data, "<u4", n, at := at + m)
    lengths = np.frombuffer(data, "<u2", n, at + 4 * n)
    return Run(numbers, lengths, terms, places, frequencies)


def placed(places: NDArray[Any], documents: int) -> NDArray[Any]:
    """Return places of so many documents.

    Raises:
        Unreadable: one of them is behind the last one.
    """
    if len(places) and int(places.max()) >= documents:
        raise Unreadable("a row of the index names a document behind its last one")
    return places


def bucket(term: int) -> int:
    """Return the bucket of a term in a run that is split; ascending with the term's number."""
    return (term >> _SHIFT) + BUCKETS // 2


def _documents(run: Run) -> bytes:
    return run.numbers.astype("<u4").tobytes() + run.lengths.astype("<u2").tobytes()


def _columns(run: Run, size: int) -> tuple[NDArray[np.intp], _Columns]:
    """Pack each column of a run of `size`; returned with where each term's postings begin."""
    is_first = np.ones(len(run.terms), dtype=bool)
    np.not_equal(run.terms[1:], run.terms[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    kind, width = ("u1", 1) if size <= _NARROW else ("<u2", 2)
    return starts, _Columns(
        run.terms[starts].astype("<i8").tobytes(),
        distances(starts, len(run.terms)).astype(kind).tobytes(),
        run.places.astype(kind).tobytes(),
        run.frequencies.tobytes(),
        width,
    )


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
