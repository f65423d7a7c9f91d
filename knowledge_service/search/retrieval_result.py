"""The result of a retrieval: the best facts, and the outcome of every other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from knowledge_service.search.match_selection import Selection
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.near_duplicates import Deduplicator
from knowledge_service.search.ranking.ranking import Ranked
from knowledge_service.search.snapshot import Matches


@dataclass(frozen=True)
class Outcome:
    """The outcome of one fact in a retrieval: the deciding stage, and the reason."""

    stage: str
    reason: str


@dataclass(frozen=True)
class Retrieval:
    """The best facts, at most `limit`, and the data that explains the outcome of all others.

    `first_matches` scored the best results if there was a second hop, and `matches` the others.
    """

    results: Sequence[Ranked]
    ranked: Sequence[Ranked]
    left_out: Mapping[int, Outcome]
    deduplicator: Deduplicator
    candidates: Mapping[int, Candidate]
    matches: Matches
    selection: Selection
    first_matches: Matches
    first_results: Collection[int] = frozenset()

    def term_parts(self, number: int) -> dict[str, float]:
        """Return the share of each query term in the text score of a fact, named `=term`."""
        matches = self.first_matches if number in self.first_results else self.matches
        parts = matches.scores.parts(number)
        return {"=" + term.lstrip("="): round(value, 6) for term, value in parts.items()}

    def explain(self, number: int) -> Outcome:
        """Return the outcome of a fact."""
        if number in self.left_out:
            return self.left_out[number]
        for rank, result in enumerate(self.results, 1):
            if result.number == number:
                return Outcome("returned", f"it is at position {rank}")
        for rank, result in enumerate(self.ranked, 1):
            if result.number == number:
                return self._explain_cut(rank, self.candidates[number])
        return self._explain_unranked(number)

    def _explain_cut(self, rank: int, row: Candidate) -> Outcome:
        if self.deduplicator.overridden_by(row) is not None:
            return _OVERRIDDEN
        return Outcome("limit", f"it is at position {rank}, after the limit")

    def _explain_unranked(self, number: int) -> Outcome:
        if number in self.selection.rejected:
            return Outcome("filters", str(self.selection.rejected[number]))
        scores = self.matches.scores
        ordinal = None if number in self.selection.rows else scores.ordinal_of(number)
        if ordinal is not None and scores.values[ordinal] > 0:
            count = self.selection.match_count
            return Outcome("candidates", f"its words match less than those of {count} others")
        return Outcome("no-match", "it shares no word with the question")


_OVERRIDDEN = Outcome("overridden", "a nearer scope has a fact on the same key")
_NEAR_DUPLICATE = Outcome("folded", "a better one says nearly the same")


def deduplicate(
    ranked: Iterable[Ranked],
    candidates: Mapping[int, Candidate],
    deduplicator: Deduplicator,
    limit: int,
) -> tuple[list[Ranked], dict[int, Outcome]]:
    """Return at most `limit` results, and the facts that were left out before the limit."""
    results: list[Ranked] = []
    excluded: dict[int, Outcome] = {}
    for result in ranked:
        if len(results) == limit:
            break
        row = candidates[result.number]
        if deduplicator.overridden_by(row) is not None:
            excluded[result.number] = _OVERRIDDEN
        elif deduplicator.duplicate_of(row) is not None:
            excluded[result.number] = _NEAR_DUPLICATE
        else:
            results.append(result)
    return results, excluded
