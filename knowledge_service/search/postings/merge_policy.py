"""The merge policy: the sizes of a scope's segments, independent of how writes were batched.

Documents of one scope are numbered 0, 1, 2, … in the order in which they were added.
`segment_sizes` splits them like the digits of a number to the base 8: segments of 1, 8, 64 and 512
documents, and above that as many of 4,096 as fit. The packed form therefore depends on the
documents alone, not on how they were grouped into writes, and a rebuilt index is equal to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from knowledge_service.search.postings import segment, segment_codec
from knowledge_service.search.postings.segment import Segment
from knowledge_service.search.postings.segment_codec import Row

SIZES = (segment_codec.SHARD_SIZE, 512, 64, 8, 1)


def segment_sizes(documents: int, first: int = 0) -> list[tuple[int, int]]:
    """Split documents into segments; return (first, size) of those from `first` on, in order."""
    segments = []
    for size in SIZES:
        while documents - first >= size:
            segments.append((first, size))
            first += size
    return segments


def unchanged_prefix(old_count: int, new_count: int) -> int:
    """Return the number of documents whose segments do not change when documents are added."""
    for size in SIZES:
        if old_count // size != new_count // size:
            return old_count // size * size
    return old_count


def pack_tail(merged: Segment, first: int) -> Iterator[Row]:
    """Pack the last documents of a scope, from the segment that begins at `first`."""
    for start, size in segment_sizes(first + len(merged.numbers), first):
        if size == 1:
            yield segment_codec.pack_one(merged, start - first, start)
        else:
            yield from segment_codec.pack(
                segment.slice_documents(merged, start - first, size), start
            )


def extend(
    rows: Sequence[Row], documents: Sequence[tuple[int, bytes]], first: int
) -> Iterator[Row]:
    """Pack the last documents of a scope: those of `rows` from `first` on, then new documents.

    New documents are (number, packed terms), as `segment.build_packed` takes them. Each new segment
    is merged from its parts; a segment in `rows` always lies within one new segment.
    """
    old_count = rows[-1].first + rows[-1].size if rows else first
    index = 0
    for start, size in segment_sizes(old_count + len(documents), first):
        end = start + size
        last = index
        while last < len(rows) and rows[last].first < end:
            last += 1
        merged = _merge(
            rows[index:last], documents[max(start - old_count, 0) : max(end - old_count, 0)]
        )
        index = last
        if size == 1:
            yield segment_codec.pack_one(merged, 0, start)
        else:
            yield from segment_codec.pack(merged, start)


def _merge(rows: Sequence[Row], documents: Sequence[tuple[int, bytes]]) -> Segment:
    """Append new documents to those of rows.

    Single-document rows at the end are merged as cheaply as new documents.
    """
    unpacked = [segment_codec.unpack_single(row.data) for row in rows if row.size == 1]
    singles = [row for row in unpacked if row is not None]
    if len(singles) < len(unpacked):
        singles, larger = [], rows
    else:
        larger = [row for row in rows if row.size > 1]
    parts = [segment_codec.unpack(row.data) for row in larger]
    if singles or documents:
        parts.append(segment.build_packed(*zip(*singles, *documents, strict=True)))
    return segment.join(parts) if len(parts) > 1 else parts[0]


def unpack_rows(rows: Sequence[Row]) -> Segment:
    """Merge the rows of the last documents of a scope, including rows of postings."""
    segments = []
    for first in sorted({row.first for row in rows}):
        parts = [segment_codec.unpack(row.data) for row in rows if row.first == first]
        documents = next(part for part in parts if len(part.numbers))
        columns = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("terms", "ordinals", "frequencies")
        ]
        segments.append(Segment(documents.numbers, documents.lengths, *columns))
    return segment.join(segments)
