"""Segments: how the documents of a scope are cut into runs, whatever the writes that brought them.

Documents of one scope are numbered 0, 1, 2, … in the order in which they came. `layout` says into
which runs so many documents are cut: as digits of a number to the base 8, runs of 1, 8, 64 and 512,
and above that as many of 4,096 as fit. So the packed form depends on the documents alone, never on
how they were grouped into writes, and an index that is built anew is equal to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from knowledge_service.search.postings import segment, segment_codec
from knowledge_service.search.postings.segment import Segment
from knowledge_service.search.postings.segment_codec import Row

SIZES = (segment_codec.SHARD_SIZE, 512, 64, 8, 1)


def segment_sizes(documents: int, first: int = 0) -> list[tuple[int, int]]:
    """Cut so many documents into runs: (first, size), in order; from the run at `first` on."""
    segments = []
    for size in SIZES:
        while documents - first >= size:
            segments.append((first, size))
            first += size
    return segments


def unchanged_prefix(old_count: int, new_count: int) -> int:
    """Return how many documents stay in the runs that they are in when some are added."""
    for size in SIZES:
        if old_count // size != new_count // size:
            return old_count // size * size
    return old_count


def pack_tail(merged: Segment, first: int) -> Iterator[Row]:
    """Pack the last documents of a scope, which begin with the run at `first`."""
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
    """Pack the last documents of a scope: those of rows, if any, from `first` on, then new ones.

    New ones are given by number as `runs.gather_packed` takes them. Each run is put together from
    what is in it: runs of rows lie in it whole.
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
    """Put new documents behind those of rows; what stands alone, at the end, is as cheap as new."""
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
    """Put the rows of the last documents of a scope together, those of postings included."""
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
