"""Reads the posting lists of the query's terms from packed rows, and caches them decoded.

The first documents of a scope are in segments of 4,096, which are sharded: only the rows of the
query's terms are read. The documents after them are in segments of at most 512, which are decoded
whole and cached with the layout of the scope. The postings of a term from both parts are joined and
cached as one entry, except in small scopes.

Documents are only added at the end, so the number of documents in a snapshot alone says which
segments exist, and how much of a cached entry is valid for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import segment_codec
from knowledge_service.search.postings.cache import LruCache
from knowledge_service.search.postings.index_rows import RowRange, Rows, Source
from knowledge_service.search.postings.posting_lists import (
    NO_POSTINGS,
    Columns,
    ScopePostings,
    TermPostings,
    find_postings,
    join_columns,
)
from knowledge_service.search.postings.scope_layout import ScopeLayout, read_layouts
from knowledge_service.search.postings.segment_codec import SHARD_SIZE


@dataclass(frozen=True, slots=True)
class _Postings:
    """A term's postings in the first `documents` documents of a scope."""

    documents: int
    columns: Columns

    def until(self, documents: int) -> Columns:
        """Return the postings in the first `documents` documents, which this entry must cover."""
        if documents == self.documents:
            return self.columns
        return self.columns.slice_(0, int(self.columns.ordinals.searchsorted(documents)))

    def without(self, ordinal: int) -> _Postings:
        """Return the postings without the erased document at this position."""
        index = int(self.columns.ordinals.searchsorted(ordinal))
        if index == len(self.columns.ordinals) or self.columns.ordinals[index] != ordinal:
            return self
        ordinals, frequencies, lengths = self.columns
        columns = Columns(
            np.delete(ordinals, index), np.delete(frequencies, index), np.delete(lengths, index)
        )
        return _Postings(self.documents, columns)


def read(
    source: Source, cache: LruCache, scope_nos: Sequence[int], query_terms: NDArray[np.int64]
) -> list[ScopePostings]:
    """Read the documents of scopes, with the postings of the query's terms.

    `query_terms` are the numbers of the terms, ascending.
    """
    layouts = read_layouts(source, cache, scope_nos)
    postings = _read_terms(source, cache, layouts, query_terms)
    return [
        ScopePostings(
            layout.numbers, layout.count, layout.live, layout.total_length, postings[scope_no]
        )
        for scope_no, layout in layouts.items()
    ]


CachedPostings = Mapping[int, list[_Postings | None]]
"""By scope, an entry for each query term, in their order; None if the cache has none."""


def _read_terms(
    source: Source,
    cache: LruCache,
    layouts: Mapping[int, ScopeLayout],
    query_terms: NDArray[np.int64],
) -> dict[int, Sequence[TermPostings]]:
    """Return the postings of the query's terms, by scope."""
    terms = query_terms.tolist()
    by_term = [scope_no for scope_no, layout in layouts.items() if layout.is_cached_by_term]
    cached: list[_Postings | None] = cache.get_all(
        [(scope_no, term) for scope_no in by_term for term in terms]
    )
    size = len(terms)
    postings = {
        scope_no: cached[index * size : (index + 1) * size]
        for index, scope_no in enumerate(by_term)
    }
    _read_missing(source, cache, layouts, query_terms, postings)
    results: dict[int, Sequence[TermPostings]] = {}
    for scope_no, layout in layouts.items():
        if layout.is_cached_by_term:
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
    layouts: Mapping[int, ScopeLayout],
    query_terms: NDArray[np.int64],
    postings: CachedPostings,
) -> None:
    """Read what the cache lacks for all scopes at once, and store it in `postings` and the cache.

    A missing entry is read completely. An entry with fewer documents than the scope is extended.
    """
    terms = query_terms.tolist()
    incomplete: dict[int, list[int]] = {}
    for scope_no, cached in postings.items():
        count = layouts[scope_no].count
        missing = [n for n, entry in enumerate(cached) if entry is None or entry.documents < count]
        if missing:
            incomplete[scope_no] = missing
    ranges = _missing_ranges(layouts, terms, postings, incomplete)
    rows = source.rows(ranges) if ranges else {}
    for scope_no, missing in incomplete.items():
        layout, cached = layouts[scope_no], postings[scope_no]
        parts = _read_sharded(layout, rows, scope_no, [(terms[n], cached[n]) for n in missing])
        missing_terms = query_terms[missing]
        for decoded in layout.segments:
            for n, first, columns in decoded.postings_of(missing_terms):
                parts[n].append(columns.shifted(first))
        for index, parts_of_term in zip(missing, parts, strict=True):
            columns = join_columns(parts_of_term)
            cached[index] = entry = _Postings(layout.count, columns)
            cache.put((scope_no, terms[index]), entry, columns.size_bytes)


def _missing_ranges(
    layouts: Mapping[int, ScopeLayout],
    terms: Sequence[int],
    postings: CachedPostings,
    incomplete: Mapping[int, Sequence[int]],
) -> list[RowRange]:
    """Return the rows of sharded segments to read: one range for each bucket of a scope.

    `incomplete` has the positions of the query terms to read, by scope. If two of them share a
    bucket, the range begins at the first row that either needs.
    """
    ranges: dict[tuple[int, int], RowRange] = {}
    for scope_no, missing in incomplete.items():
        end = layouts[scope_no].sharded_count
        for index in missing:
            first = _cached_until(postings[scope_no][index], end)
            key = scope_no, segment_codec.bucket(terms[index])
            if first < end and (key not in ranges or first < ranges[key].first):
                ranges[key] = RowRange(*key, first, end)
    return list(ranges.values())


def _read_sharded(
    layout: ScopeLayout,
    rows: Rows,
    scope_no: int,
    entries: Sequence[tuple[int, _Postings | None]],
) -> list[list[Columns]]:
    """Return the postings of each term in the sharded segments: from its entry, then from rows."""
    end = layout.sharded_count
    parts: list[list[Columns]] = []
    unread: list[tuple[int, Sequence[tuple[int, bytes]]]] = []
    for term, entry in entries:
        first = _cached_until(entry, end)
        parts.append([entry.until(first)] if entry else [])
        shard_rows = rows.get((scope_no, segment_codec.bucket(term)), ()) if first < end else ()
        unread.append((term, [row for row in shard_rows if row[0] >= first]))
    lengths = layout.sharded.lengths if layout.sharded else NO_POSTINGS.lengths
    for parts_of_term, columns in zip(parts, find_postings(unread, lengths), strict=True):
        parts_of_term.append(columns)
    return parts


def _cached_until(entry: _Postings | None, count: int) -> int:
    """Return the first document to read, at most `count`.

    It is the start of the segment in which the entry ends: that segment was not sharded when the
    entry was made, and is read again.
    """
    return min(entry.documents // SHARD_SIZE * SHARD_SIZE, count) if entry else 0
