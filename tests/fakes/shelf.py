"""What ranking reads, over rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from knowledge_client.models import Fact
from knowledge_service.domain.facts import canonical
from knowledge_service.search.postings import cache, merge_policy, segment, segment_codec
from knowledge_service.search.ranking import bm25, candidates, ranking
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import Uses
from knowledge_service.search.text import term_ids
from tests.fakes.store_base import Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def candidate(number: int, scope_no: int, fact: Fact) -> Candidate:
    source = fact.source.model_dump(mode="json", exclude_none=True)
    return Candidate(
        number, scope_no, fact.kind, fact.title, fact.content, canonical(fact.tags), fact.subject,
        fact.predicate, fact.about, fact.position, canonical(source), fact.confidence,
        fact.lifecycle, fact.review, us(fact.expires_at), us(fact.valid_from),
        us(fact.valid_until), us(fact.recorded_at) or 0, us(fact.closed_at), canonical(fact.flags),
        candidates.short(None if fact.data is None else canonical(fact.data)),
    )  # fmt: skip


class MemoryRows:
    """The `Source` over packed rows in memory; counts what is read."""

    def __init__(self, packed: Mapping[int, Sequence[segment_codec.Row]]) -> None:
        self.packed = packed
        self.reads = 0

    def count(self, scope_no: int) -> int:
        return max((row.first + row.size for row in self.packed[scope_no]), default=0)

    def rows(
        self, scope_no: int, buckets: Sequence[int], first: int, end: int
    ) -> dict[int, list[tuple[int, bytes]]]:
        self.reads += 1
        found: dict[int, list[tuple[int, bytes]]] = {}
        for row in self.packed[scope_no]:
            if row.bucket in buckets and first <= row.first < end:
                found.setdefault(row.bucket, []).append((row.first, row.data))
        return found


def scored(
    documents: Mapping[int, Sequence[segment.Document]], question: Mapping[str, float]
) -> bm25.Scores:
    """Pack the documents of scopes and score them."""
    packed = {
        number: list(merge_policy.cut(segment.gather(found), 0)) if found else []
        for number, found in documents.items()
    }
    return scored_rows(MemoryRows(packed), question, cache.Kept(0))


def scored_rows(source: MemoryRows, question: Mapping[str, float], kept: cache.Kept) -> bm25.Scores:
    """Score all scopes of a source."""
    return bm25.search(source, kept, source.packed, question)


@dataclass
class MemoryShelf:
    """The `Shelf` over the rows of visible scopes; links and uses are what the reader may see."""

    paths: Mapping[int, str]
    scopes: Mapping[int, Sequence[Row]]
    links: Sequence[tuple[int, int]] = ()
    used: Mapping[int, Uses] = field(default_factory=dict)
    rated: Mapping[int, Uses] = field(default_factory=dict)
    near: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_number = {
            row.number: candidate(row.number, scope_no, row.fact)
            for scope_no, rows in self.scopes.items()
            for row in rows
        }

    def scores(self, question: Mapping[str, float]) -> bm25.Scores:
        self.scored = scored(
            {
                scope_no: [term_ids.document(r.number, r.terms) for r in rows]
                for scope_no, rows in self.scopes.items()
            },
            question,
        )
        return self.scored

    def rows(self, numbers: Sequence[int]) -> Iterable[Candidate]:
        return [self.by_number[number] for number in numbers]

    def on_keys(self, rows: Sequence[Candidate]) -> Iterable[Candidate]:
        keys = {row.key for row in rows}
        return [r for r in self.by_number.values() if r.key in keys and r.lifecycle == "live"]

    def linked(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        both = {pair for a, b in self.links for pair in ((a, b), (b, a))}
        yield from sorted(p for p in both if p[0] in numbers and p[1] in self.by_number)

    def meaning(self) -> Mapping[int, float]:
        return self.near

    def uses(self, numbers: Sequence[int]) -> Mapping[int, Uses]:
        return {number: self.used[number] for number in numbers if number in self.used}

    def rates(self, scope_nos: Sequence[int]) -> Mapping[int, float]:
        return {n: ranking.success_rate(self.rated[n]) for n in scope_nos if n in self.rated}
