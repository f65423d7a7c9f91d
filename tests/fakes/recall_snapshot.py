"""What ranking reads, over rows in memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from knowledge_client.models import Fact
from knowledge_service.domain import chart_statements
from knowledge_service.domain.facts import canonical, key_hash
from knowledge_service.search.postings import cache, merge_policy, segment, segment_codec
from knowledge_service.search.postings.documents import Document
from knowledge_service.search.postings.index_rows import RowRange, Rows
from knowledge_service.search.ranking import bm25, candidates, ranking
from knowledge_service.search.ranking.bm25 import Related, Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import OutcomeCounts
from knowledge_service.search.snapshot import MOST_LINKED, Matches, RowRequest
from knowledge_service.search.snapshot import RowBatch as CandidateRows
from knowledge_service.search.text import term_ids
from tests.fakes.store_base import Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def title_of(fact: Fact, rows: Iterable[Row]) -> str | None:
    """Return the type of the entity among rows of a scope whose title a fact is."""
    if not chart_statements.is_title(fact.kind, fact.position):
        return None
    return next(
        (
            row.fact.subject
            for row in rows
            if row.fact.id == fact.about
            and (row.fact.kind, row.fact.schema_) == ("entity", "graph/1")
        ),
        None,
    )


def candidate(number: int, scope_no: int, fact: Fact, title_of: str | None = None) -> Candidate:
    data_json = None if fact.data is None else canonical(fact.data)
    source = fact.source.model_dump(mode="json", exclude_none=True)
    return Candidate(
        number, scope_no, fact.kind, fact.title, fact.content, canonical(fact.tags), fact.subject,
        fact.predicate, fact.about, fact.position, canonical(source), fact.confidence,
        fact.lifecycle, fact.review, us(fact.expires_at), us(fact.valid_from),
        us(fact.valid_until), us(fact.recorded_at) or 0, us(fact.closed_at), canonical(fact.flags),
        candidates.short(data_json), fact.schema_, data_json, title_of,
    )  # fmt: skip


class MemoryRows:
    """The `Source` over packed rows in memory; counts what is read."""

    def __init__(self, packed: Mapping[int, Sequence[segment_codec.Row]]) -> None:
        self.packed = packed
        self.reads = 0

    def counts(self, scope_nos: Sequence[int]) -> dict[int, int]:
        return {
            scope_no: max((row.first + row.size for row in self.packed[scope_no]), default=0)
            for scope_no in scope_nos
        }

    def rows(self, ranges: Sequence[RowRange]) -> Rows:
        self.reads += 1
        rows: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
        for scope_no, bucket, first, end in ranges:
            for row in self.packed[scope_no]:
                if row.bucket == bucket and first <= row.first < end:
                    rows.setdefault((scope_no, bucket), []).append((row.first, row.data))
        return rows


def scored(
    documents: Mapping[int, Sequence[Document]],
    question: Mapping[str, float],
    related: Related | None = None,
) -> bm25.Scores:
    """Pack the documents of scopes and score them."""
    packed = {
        number: list(merge_policy.pack_tail(segment.build(matching_documents), 0))
        if matching_documents
        else []
        for number, matching_documents in documents.items()
    }
    return scored_rows(MemoryRows(packed), question, cache.LruCache(0), related)


def scored_rows(
    source: MemoryRows,
    question: Mapping[str, float],
    kept: cache.LruCache,
    related: Related | None = None,
) -> bm25.Scores:
    """Score all scopes of a source."""
    return bm25.search(source, kept, source.packed, question, related)


@dataclass
class MemorySnapshot:
    """The `Snapshot` over rows of visible scopes; links and uses are those that the reader sees."""

    paths: Mapping[int, str]
    scopes: Mapping[int, Sequence[Row]]
    links: Sequence[tuple[int, int]] = ()
    used: Mapping[int, OutcomeCounts] = field(default_factory=dict)
    rated: Mapping[int, OutcomeCounts] = field(default_factory=dict)
    similarities: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_number = {
            row.number: candidate(row.number, scope_no, row.fact, title_of(row.fact, rows))
            for scope_no, rows in self.scopes.items()
            for row in rows
        }

    def match(self, terms: Mapping[str, float], related: Related) -> Matches:
        return Matches(self.scores(terms, related), self.similarities)

    def scores(self, terms: Mapping[str, float], related: Related | None = None) -> Scores:
        documents = {
            scope_no: [term_ids.document(row.number, row.terms) for row in rows]
            for scope_no, rows in self.scopes.items()
        }
        return scored(documents, terms, related)

    def rows(self, request: RowRequest) -> CandidateRows:
        links = sorted(
            {
                (number, linked_number)
                for number in request.links_of
                for pairs in (self.links, [(to, from_) for from_, to in self.links])
                for linked_number in self._linked(number, pairs, request.candidates)
            }
        )
        linked = {second for _, second in links} - request.candidates.keys()
        keys = {key_hash(row.subject, row.predicate) for row in request.keys_of} - {None}
        recalled = {row.number for row in request.outcomes_of}
        return CandidateRows(
            [self.by_number[number] for number in dict.fromkeys((*request.numbers, *linked))],
            links,
            [
                row
                for row in self.by_number.values()
                if key_hash(row.subject, row.predicate) in keys and row.lifecycle == "live"
            ],
            {number: uses for number, uses in self.used.items() if number in recalled},
            {number: ranking.success_rate(uses) for number, uses in self.rated.items()},
        )

    def _linked(
        self, number: int, pairs: Iterable[tuple[int, int]], read: Container[int]
    ) -> Sequence[int]:
        """Return the other ends that were read before, and the first others by scope and number."""
        ends = {end for own, end in pairs if own == number and end in self.by_number}
        first = sorted(ends, key=lambda end: (self.by_number[end].scope_no, end))[:MOST_LINKED]
        return [*first, *(end for end in ends if end in read)]
