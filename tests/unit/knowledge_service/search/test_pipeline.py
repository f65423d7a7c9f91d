"""What the retrieval pipeline reads for one recall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from knowledge_service.domain.recall_filters import Filters
from knowledge_service.search import pipeline
from knowledge_service.search.match_selection import SearchQuery
from knowledge_service.search.ranking.bm25 import Related, Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import OutcomeCounts
from knowledge_service.search.snapshot import RowBatch, RowRequest
from knowledge_service.search.text import term_ids
from tests.fakes.recall_snapshot import MemorySnapshot, scored
from tests.unit.knowledge_service.search.candidate_rows import candidate

PATHS = {1: "realm:a", 2: "realm:a/formation:b"}
REJECTED, PASSING = 3_250, 5_000
USES = OutcomeCounts(succeeded=3)


@dataclass
class RecordingSnapshot(MemorySnapshot):
    """Rows of scope 1, each with the term "zeta"; records all batches that it returns."""

    rows_by_number: Mapping[int, Candidate] = field(default_factory=dict)
    batches: list[RowBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.by_number = dict(self.rows_by_number)

    def scores(self, terms: Mapping[str, float], related: Related | None = None) -> Scores:
        documents = [term_ids.document(number, Counter(["zeta"])) for number in self.by_number]
        return scored({1: documents, 2: []}, terms, related)

    def rows(self, request: RowRequest) -> RowBatch:
        self.batches.append(super().rows(request))
        return self.batches[-1]


@pytest.fixture(scope="module")
def snapshot() -> RecordingSnapshot:
    """Return a snapshot in which many facts pass a filter that the first matches do not pass."""
    rows = {
        number: candidate(
            "zeta",
            number,
            kind="note" if number <= REJECTED else "rare",
            subject=f"subject {number}",
            predicate="is",
        )
        for number in range(1, REJECTED + PASSING + 1)
    }
    return RecordingSnapshot(PATHS, {}, used=dict.fromkeys(rows, USES), rows_by_number=rows)


@pytest.mark.parametrize(("limit", "rank_size"), [(10, 48), (100, 200)])
def test_outcomes_and_keys_are_read_for_the_best_ranked_facts_alone(
    snapshot: RecordingSnapshot, limit: int, rank_size: int
) -> None:
    snapshot.batches.clear()
    query = SearchQuery("zeta", limit, Filters(kinds=("rare",)))
    retrieval = pipeline.retrieve(snapshot, query)
    assert len(retrieval.selection.rows) >= PASSING
    assert sum(len(batch.outcomes) for batch in snapshot.batches) == rank_size
    assert sum(len(batch.same_key) for batch in snapshot.batches) == 2 * limit


def test_facts_in_one_visible_scope_have_no_keys_read() -> None:
    rows = {1: candidate("zeta", 1, subject="alpha", predicate="is")}
    alone = RecordingSnapshot({1: "realm:a"}, {}, rows_by_number=rows)
    assert pipeline.retrieve(alone, SearchQuery("zeta", 10)).results
    assert not any(batch.same_key for batch in alone.batches)
