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
from knowledge_service.search.postings.segment import Run
from knowledge_service.search.postings.segment_codec import Row

SIZES = (segment_codec.SPLIT, 512, 64, 8, 1)


def layout(documents: int, first: int = 0) -> list[tuple[int, int]]:
    """Cut so many documents into runs: (first, size), in order; from the run at `first` on."""
    found = []
    for size in SIZES:
        while documents - first >= size:
            found.append((first, size))
            first += size
    return found


def kept(before: int, after: int) -> int:
    """Return how many documents stay in the runs that they are in when some are added."""
    for size in SIZES:
        if before // size != after // size:
            return before // size * size
    return before


def cut(run: Run, first: int) -> Iterator[Row]:
    """Pack the last documents of a scope, which begin with the run at `first`."""
    for start, size in layout(first + len(run.numbers), first):
        if size == 1:
            yield segment_codec.pack_one(run, start - first, start)
        else:
            yield from segment_codec.pack(segment.part(run, start - first, size), start)


def extend(rows: Sequence[Row], new: Sequence[tuple[int, bytes]], first: int) -> Iterator[Row]:
    """Pack the last documents of a scope: those of rows, if any, from `first` on, then new ones.

    New ones are given by number as `runs.gather_packed` takes them. Each run is put together from
    what is in it: runs of rows lie in it whole.
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
            yield segment_codec.pack_one(run, 0, start)
        else:
            yield from segment_codec.pack(run, start)


def _put_together(rows: Sequence[Row], new: Sequence[tuple[int, bytes]]) -> Run:
    """Put new documents behind those of rows; what stands alone, at the end, is as cheap as new."""
    alone = [segment_codec.packed_alone(row.data) for row in rows if row.size == 1]
    known = [each for each in alone if each is not None]
    if len(known) < len(alone):
        known, larger = [], rows
    else:
        larger = [row for row in rows if row.size > 1]
    found = [segment_codec.unpack(row.data) for row in larger]
    if known or new:
        found.append(segment.gather_packed(*zip(*known, *new, strict=True)))
    return segment.join(found) if len(found) > 1 else found[0]


def restore(rows: Sequence[Row]) -> Run:
    """Put the rows of the last documents of a scope together, those of postings included."""
    found = []
    for first in sorted({row.first for row in rows}):
        parts = [segment_codec.unpack(row.data) for row in rows if row.first == first]
        documents = next(part for part in parts if len(part.numbers))
        columns = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("terms", "places", "frequencies")
        ]
        found.append(Run(documents.numbers, documents.lengths, *columns))
    return segment.join(found)
