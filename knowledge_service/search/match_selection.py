"""Select the best matches of a query that pass its filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from knowledge_service.domain import recall_filters
from knowledge_service.domain.recall_filters import Filters, Reason
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.snapshot import Matches, RowRequest, Snapshot

# The first batch has the rows of this many of the best matches, or of twice the limit if that is
# more. Larger batches follow while too few rows pass the filters.
_BATCH, _MAX_MATCHES = 48, 20_000


@dataclass(frozen=True)
class SearchQuery:
    """The query of a retrieval. Without `now`, relative dates count from 1970.

    `synonyms` are groups of words that match each other, in addition to the thesaurus.
    """

    text: str
    limit: int
    filters: Filters = field(default_factory=Filters)
    now: datetime | None = None
    synonyms: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Selection:
    """Matches that pass the filters, with their text scores and their positions in the index.

    Attributes:
        similar: rows that only the embeddings matched.
        rejected: the filter's reason for each rejected row.
        match_count: the number of matches whose rows were read.
    """

    rows: Mapping[int, Candidate]
    text: Mapping[int, float]
    ordinals: Mapping[int, int]
    similar: Mapping[int, Candidate]
    rejected: Mapping[int, Reason]
    match_count: int


def first_batch_size(limit: int) -> int:
    """Return how many of the best matches are read and ranked at first."""
    return max(_BATCH, 2 * limit)


def select(snapshot: Snapshot, matches: Matches, query: SearchQuery) -> Selection:
    """Read the best matches until enough pass the filters, and the nearest by embedding."""
    rows: dict[int, Candidate] = {}
    text: dict[int, float] = {}
    ordinals: dict[int, int] = {}
    similar: dict[int, Candidate] = {}
    rejected: dict[int, Reason] = {}
    count, size = 0, first_batch_size(query.limit)
    while True:
        best_numbers, best_ordinals = matches.scores.best(size)
        numbers = best_numbers[count:size].tolist()
        similar_numbers = () if count else _without(matches.similarities, numbers)
        batch = snapshot.rows(RowRequest([*numbers, *similar_numbers])).candidates
        passing = _apply_filters(batch, query.filters, rejected)
        for number, ordinal in zip(numbers, best_ordinals[count:size].tolist(), strict=True):
            if number in passing:
                rows[number], ordinals[number] = passing[number], ordinal
                text[number] = float(matches.scores.values[ordinal])
        similar |= {number: passing[number] for number in similar_numbers if number in passing}
        count += len(numbers)
        if count < size or len(rows) >= query.limit or size >= _MAX_MATCHES:
            return Selection(rows, text, ordinals, similar, rejected, count)
        size = min(size * 4, _MAX_MATCHES)


def _without(numbers: Iterable[int], excluded_numbers: Iterable[int]) -> list[int]:
    excluded = set(excluded_numbers)
    return [number for number in numbers if number not in excluded]


def _apply_filters(
    rows: Iterable[Candidate], filters: Filters, rejected: dict[int, Reason]
) -> dict[int, Candidate]:
    """Return the rows that pass the filters; add the reasons of the others to `rejected`."""
    passing = {}
    for row in rows:
        reason = recall_filters.exclusion_reason(row, filters, row.title_of)
        if reason is None:
            passing[row.number] = row
        else:
            rejected[row.number] = reason
    return passing
