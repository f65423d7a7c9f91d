"""The codec of index rows: a segment packed as bytes.

A small segment is one row. A segment of `SHARD_SIZE` documents is one row of documents (bucket
`DOCUMENTS`) and up to `BUCKETS` rows of postings by the first bits of the term's number, so that a
query reads only the rows that it needs.

    n documents, u terms, m postings | u terms | u counts | m ordinals | m frequencies | n numbers
    | n lengths

Counts and ordinals take two bytes, or one byte in segments of up to 64 documents. They are left out
in a segment of one document, which has each of its terms once, at position 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import segment
from knowledge_service.search.postings.documents import Document
from knowledge_service.search.postings.segment import (
    MAX_FREQUENCY,
    MAX_LENGTH,
    TOMBSTONE,
    Segment,
    gaps,
)

SHARD_SIZE = 4096
BUCKETS = 1024
DOCUMENTS = -1
"""The bucket of rows that hold documents."""
_SHIFT = 54  # leaves the first 10 bits of a term's number
_HEAD = struct.Struct("<III")
_SINGLE = struct.Struct("<IH")
_NUMBER, _LENGTH = struct.Struct("<I"), struct.Struct("<H")
_MAX_BYTE_DOCUMENTS = 64


class CorruptSegment(Exception):
    """Bytes of the index are not what was packed; the database does not notice this damage."""


class Row(NamedTuple):
    """A packed part of the segment of `size` documents that begins at document `first`."""

    bucket: int
    first: int
    size: int
    data: bytes


def pack_single(document: Document, first: int) -> Row:
    """Pack a segment of one document; equal to the result of `pack`, at a tenth of its cost."""
    m, counts = len(document.terms), document.frequencies
    if m and max(counts) > MAX_FREQUENCY:
        counts = tuple([min(count, MAX_FREQUENCY) for count in counts])
    data = b"".join(
        (
            _HEAD.pack(1, m, m),
            struct.pack(f"<{m}q", *document.terms),
            bytes(counts),
            _SINGLE.pack(document.number, min(document.length, MAX_LENGTH)),
        )
    )
    return Row(DOCUMENTS, first, 1, data)


def unpack_single(data: bytes) -> tuple[int, bytes] | None:
    """Unpack a segment of one document as `segment.build_packed` takes it.

    Returns None when the stored length or a frequency was cut to its maximum.

    Raises:
        CorruptSegment: the row is not a segment of one document.
    """
    n, _, m = head(data)
    if n != 1:
        raise CorruptSegment("a document of the index is malformed")
    terms, offset = data[_HEAD.size : _HEAD.size + 8 * m], _HEAD.size + 8 * m
    frequencies = data[offset : offset + m]
    number, length = _SINGLE.unpack_from(data, offset + m)
    if length != m:
        repeated = [terms[8 * n : 8 * n + 8] * count for n, count in enumerate(frequencies)]
        terms = b"".join(repeated)
    return (number, terms) if 8 * length == len(terms) and length < MAX_LENGTH else None


def pack(source: Segment, first: int) -> Iterator[Row]:
    """Pack a segment that begins at document `first` of its scope."""
    size = len(source.numbers)
    starts, columns = _columns(source, size)
    if size < SHARD_SIZE:
        bounds = (0, len(starts)), (0, len(source.terms))
        yield Row(DOCUMENTS, first, size, columns.slice_(*bounds, size) + _documents(source))
        return
    yield Row(DOCUMENTS, first, size, columns.slice_((0, 0), (0, 0), size) + _documents(source))
    edges = np.searchsorted(source.terms[starts] >> _SHIFT, np.arange(BUCKETS + 1) - BUCKETS // 2)
    ends = np.append(starts, len(source.terms))[edges].tolist()
    lows = edges.tolist()
    for number in range(BUCKETS):
        low, high = lows[number], lows[number + 1]
        if low < high:
            data = columns.slice_((low, high), (ends[number], ends[number + 1]), 0)
            yield Row(number, first, size, data)


def erase_document(row: Row, ordinal: int) -> Row | None:
    """Replace a document with a tombstone; return None for a row of postings that becomes empty."""
    if row.size == SHARD_SIZE and row.bucket == DOCUMENTS:
        data = bytearray(row.data)
        _NUMBER.pack_into(data, len(data) - 6 * SHARD_SIZE + 4 * ordinal, TOMBSTONE)
        _LENGTH.pack_into(data, len(data) - 2 * SHARD_SIZE + 2 * ordinal, 0)
        return row._replace(data=bytes(data))
    decoded = segment.erase_document(unpack(row.data), ordinal)
    if row.size == 1:
        return pack_one(decoded, 0, row.first)
    if row.bucket == DOCUMENTS:
        return next(pack(decoded, row.first))
    if not len(decoded.terms):
        return None
    starts, columns = _columns(decoded, row.size)
    return row._replace(data=columns.slice_((0, len(starts)), (0, len(decoded.terms)), 0))


def numbers(data: bytes) -> NDArray[np.uint32]:
    """Return the numbers of a row's documents without reading its postings.

    Raises:
        CorruptSegment: the row's size does not match its header.
    """
    n, _, _ = head(data)
    return np.frombuffer(data, "<u4", n, len(data) - 6 * n)


def pack_one(source: Segment, ordinal: int, first: int) -> Row:
    """Pack one document of a segment; equal to the result of `pack`, with fewer arrays."""
    chosen = np.flatnonzero(source.ordinals == ordinal)
    m = len(chosen)
    terms, frequencies = source.terms[chosen].tobytes(), source.frequencies[chosen].tobytes()
    document = _SINGLE.pack(int(source.numbers[ordinal]), int(source.lengths[ordinal]))
    head = _HEAD.pack(1, m, m)
    return Row(DOCUMENTS, first, 1, b"".join((head, terms, frequencies, document)))


def head(data: bytes) -> tuple[int, int, int]:
    """Return the numbers of documents, terms and postings in a row.

    Raises:
        CorruptSegment: the row's size does not match these numbers.
    """
    n, u, m = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0)
    width = 0 if n == 1 else 1 if 0 < n <= _MAX_BYTE_DOCUMENTS else 2
    size = _HEAD.size + 8 * u + width * (u + m) + m + 6 * n
    if len(data) != size or (n == 1 and u != m):
        raise CorruptSegment("a row of the index has another size than it says")
    return n, u, m


def unpack(data: bytes) -> Segment:
    """Unpack a row; a row of postings has no documents.

    Raises:
        CorruptSegment: the bytes are not a packed row.
    """
    n, u, m = head(data)
    offset = _HEAD.size
    terms = np.frombuffer(data, "<i8", u, offset)
    offset += 8 * u
    ordinals = np.zeros(m, dtype=np.int64)
    if n != 1:
        kind, width = ("u1", 1) if 0 < n <= _MAX_BYTE_DOCUMENTS else ("<u2", 2)
        counts = np.frombuffer(data, kind, u, offset)
        if int(counts.sum(dtype=np.int64)) != m:
            raise CorruptSegment("a row of the index lacks postings that its header states")
        terms = np.repeat(terms, counts)
        ordinals[:] = check_ordinals(
            np.frombuffer(data, kind, m, offset + width * u), n or SHARD_SIZE
        )
        offset += width * (u + m)
    frequencies = np.frombuffer(data, "u1", m, offset)
    numbers = np.frombuffer(data, "<u4", n, offset := offset + m)
    lengths = np.frombuffer(data, "<u2", n, offset + 4 * n)
    return Segment(numbers, lengths, terms, ordinals, frequencies)


def check_ordinals(ordinals: NDArray[Any], documents: int) -> NDArray[Any]:
    """Return `ordinals` if they fit a segment of `documents` documents.

    Raises:
        CorruptSegment: an ordinal is beyond the last document.
    """
    if len(ordinals) and int(ordinals.max()) >= documents:
        raise CorruptSegment("a row of the index names a document behind its last one")
    return ordinals


def bucket(term: int) -> int:
    """Return the bucket of a term in a sharded segment; ascending with the term's number."""
    return (term >> _SHIFT) + BUCKETS // 2


def _documents(source: Segment) -> bytes:
    return source.numbers.astype("<u4").tobytes() + source.lengths.astype("<u2").tobytes()


def _columns(source: Segment, size: int) -> tuple[NDArray[np.intp], _Columns]:
    """Pack each column of a segment of `size`; also return where each term's postings begin."""
    is_first = np.ones(len(source.terms), dtype=bool)
    np.not_equal(source.terms[1:], source.terms[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    kind, width = ("u1", 1) if size <= _MAX_BYTE_DOCUMENTS else ("<u2", 2)
    return starts, _Columns(
        source.terms[starts].astype("<i8").tobytes(),
        gaps(starts, len(source.terms)).astype(kind).tobytes(),
        source.ordinals.astype(kind).tobytes(),
        source.frequencies.tobytes(),
        width,
    )


@dataclass(frozen=True)
class _Columns:
    """A segment's packed postings: each term once with its count, then the postings."""

    terms: bytes
    counts: bytes
    ordinals: bytes
    frequencies: bytes
    width: int
    """Size of a count or an ordinal in bytes."""

    def slice_(self, terms: tuple[int, int], postings: tuple[int, int], documents: int) -> bytes:
        """Pack a range of terms with its range of postings; `documents` documents follow."""
        (low, high), (first, last) = terms, postings
        head, width = _HEAD.pack(documents, high - low, last - first), self.width
        return b"".join(
            (
                head,
                self.terms[8 * low : 8 * high],
                self.counts[width * low : width * high],
                self.ordinals[width * first : width * last],
                self.frequencies[first:last],
            )
        )
