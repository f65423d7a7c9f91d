"""The retrieval pipeline: parse, match, expand, rank.

    parse   the query's text                  -> terms, names, dates, expected answer type
    match   posting lists of visible scopes   -> a BM25 score for each document; the best rows
    expand  neighbours and links of the best  -> candidates
    rank    ranking features and usefulness   -> results without overridden facts and duplicates

Each step is a function from data to data. A store only supplies a `Snapshot`, which answers two
kinds of reads and covers visible scopes alone. `Retrieval.explain` reports the outcome of any fact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge_service.domain import recall_filters
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.search.query import parser
from knowledge_service.search.query.parser import ParsedQuery
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.bm25 import Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import grouping
from knowledge_service.search.ranking.conversations.grouping import Conversation
from knowledge_service.search.ranking.near_duplicates import Deduplicator
from knowledge_service.search.ranking.ranking import Evidence, OutcomeCounts, Ranked
from knowledge_service.search.ranking.weights import SHIPPED, Weights

# The rows of this many of the best matches are read at once, or of twice the limit if that is more.
# Further rows are read when the filters leave too few.
_BATCH, _MAX_MATCHES = 48, 20_000
# Neighbours are up to `_REACH` positions away from one of the best `_NEIGHBOURS_OF` matches. At
# most `_MAX_NEIGHBOURS` are read: those that, with their own neighbours, match best.
_NEIGHBOURS_OF, _REACH, _MAX_NEIGHBOURS = 32, 3, 48
_LINKS_OF = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SearchQuery:
    """The query of a retrieval. Without `now`, relative dates count from 1970.

    `synonyms` are groups of words that find each other, beside those of the thesaurus.
    """

    text: str
    limit: int
    filters: Filters = field(default_factory=Filters)
    now: datetime | None = None
    synonyms: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class RankerConfig:
    """Which optional features rank.

    Without `use_conversations`, speakers, turns and sessions neither add candidates nor change
    a score, and do not keep near-duplicates apart: nothing of `ranking.conversations` runs.
    """

    use_conversations: bool = True
    weights: Weights = SHIPPED


DEFAULT_CONFIG = RankerConfig()


@dataclass(frozen=True)
class Matches:
    """The BM25 scores of all visible documents, and the similarities of the nearest facts.

    Similarities are in [0, 1]. There are none without embeddings.
    """

    scores: Scores
    similarities: Mapping[int, float]


@dataclass(frozen=True)
class RowRequest:
    """Facts to read, and the related data to read for others.

    The cost of related data grows with the number of visible scopes, so it is requested for the
    best facts alone, never for all candidates.

    Attributes:
        links_of: facts whose live links are read, with the facts at the other ends.
        candidates: the rows that were read before, by fact number; they are not read again.
        outcomes_of: rows whose outcomes are counted.
        keys_of: rows with a key; the live facts of all visible scopes on these keys are read.
    """

    numbers: Sequence[int] = ()
    links_of: Sequence[int] = ()
    candidates: Mapping[int, Candidate] = field(default_factory=dict)
    outcomes_of: Sequence[Candidate] = ()
    keys_of: Sequence[Candidate] = ()


@dataclass(frozen=True)
class RowBatch:
    """The answer to a `RowRequest`.

    Attributes:
        links: pairs of a requested fact and a visible one.
        same_key: live facts of all visible scopes that share a key with one of `keys_of`.
        outcomes: the outcomes of runs that recalled one of `outcomes_of`, as far as the reader may
            see them.
        success_rates: the success rates of the scopes of facts with outcomes, by scope number,
            under the same condition.
    """

    candidates: Sequence[Candidate] = ()
    links: Sequence[tuple[int, int]] = ()
    same_key: Sequence[Candidate] = ()
    outcomes: Mapping[int, OutcomeCounts] = field(default_factory=dict)
    success_rates: Mapping[int, float] = field(default_factory=dict)


class Snapshot(Protocol):
    """One reader's view of a store at one moment."""

    @property
    def paths(self) -> Mapping[int, str]:
        """Return the searched scopes by number."""
        ...

    def match(self, terms: Mapping[str, float]) -> Matches:
        """Score every document of the searched scopes by weighted terms."""
        ...

    def rows(self, request: RowRequest) -> RowBatch:
        """Read rows of facts, in any order, with the related data that the request names."""
        ...


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
    rejected: Mapping[int, str]
    match_count: int


@dataclass(frozen=True)
class Outcome:
    """The outcome of one fact in a retrieval: the deciding stage, and the reason."""

    stage: str
    reason: str


@dataclass(frozen=True)
class Retrieval:
    """The best facts, at most `limit`, and the data that explains the outcome of all others."""

    results: Sequence[Ranked]
    ranked: Sequence[Ranked]
    left_out: Mapping[int, Outcome]
    deduplicator: Deduplicator
    candidates: Mapping[int, Candidate]
    matches: Matches
    selection: Selection

    def term_parts(self, number: int) -> dict[str, float]:
        """Return the share of each query term in the text score of a fact, named `=term`."""
        parts = self.matches.scores.parts(number)
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
            return Outcome("filters", self.selection.rejected[number])
        scores = self.matches.scores
        ordinal = None if number in self.selection.rows else scores.ordinal_of(number)
        if ordinal is not None and scores.values[ordinal] > 0:
            count = self.selection.match_count
            return Outcome("candidates", f"its words match less than those of {count} others")
        return Outcome("no-match", "it shares no word with the question")


_OVERRIDDEN = Outcome("overridden", "a nearer scope has a fact on the same key")
_NEAR_DUPLICATE = Outcome("folded", "a better one says nearly the same")


@dataclass(frozen=True)
class Gathered:
    """What is known of the candidates of a query before they are ranked."""

    query: ParsedQuery
    now: datetime
    matches: Matches
    selection: Selection
    evidence: Evidence


def retrieve(
    snapshot: Snapshot, query: SearchQuery, config: RankerConfig = DEFAULT_CONFIG
) -> Retrieval:
    """Run the pipeline over a snapshot."""
    use_conversations, filters = config.use_conversations, query.filters
    gathered = gather(snapshot, query, config)
    evidence = gathered.evidence
    ranked = ranking.rank(
        gathered.query,
        evidence,
        gathered.now,
        size=max(_BATCH, 2 * query.limit),
        weights=config.weights,
        use_conversations=use_conversations,
    )
    ranked = _rank_by_usefulness(snapshot, ranked, evidence)
    deduplicator = Deduplicator(snapshot.paths, use_conversations=use_conversations)
    best = [evidence.rows[result.number] for result in ranked[: 2 * query.limit]]
    deduplicator.register_keys(_read_same_key(snapshot, best, filters))
    results, excluded = deduplicate(ranked, evidence.rows, deduplicator, query.limit)
    matches, selection = gathered.matches, gathered.selection
    return Retrieval(results, ranked, excluded, deduplicator, evidence.rows, matches, selection)


def gather(snapshot: Snapshot, query: SearchQuery, config: RankerConfig) -> Gathered:
    """Parse the query, and collect the candidates and the evidence for each."""
    filters = query.filters
    now = filters.valid_at or filters.known_at or query.now or _EPOCH
    parsed_query = parser.parse(query.text, now, query.synonyms)
    matches = snapshot.match(parsed_query.terms)
    selection = select(snapshot, matches, query)
    neighbours = (
        find_neighbours(matches.scores, selection)
        if config.use_conversations
        else Neighbours({}, (), {})
    )
    candidates = {**selection.similar, **selection.rows}
    rows = snapshot.rows(request_linked(selection, neighbours, candidates))
    evidence = gather_evidence(matches, selection, neighbours, rows, filters)
    evidence = _with_expansion(evidence, matches.scores, parsed_query.own_terms)
    return Gathered(parsed_query, now, matches, selection, evidence)


def select(snapshot: Snapshot, matches: Matches, query: SearchQuery) -> Selection:
    """Read the best matches until enough pass the filters, and the nearest by embedding."""
    rows: dict[int, Candidate] = {}
    text: dict[int, float] = {}
    ordinals: dict[int, int] = {}
    similar: dict[int, Candidate] = {}
    rejected: dict[int, str] = {}
    count, size = 0, max(_BATCH, 2 * query.limit)
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


def _without(numbers: Iterable[int], others: Iterable[int]) -> list[int]:
    excluded = set(others)
    return [number for number in numbers if number not in excluded]


def _apply_filters(
    rows: Iterable[Candidate], filters: Filters, rejected: dict[int, str]
) -> dict[int, Candidate]:
    """Return the rows that pass the filters; add the reasons of the others to `rejected`."""
    passing = {}
    for row in rows:
        reason = recall_filters.exclusion_reason(row, filters)
        if reason is None:
            passing[row.number] = row
        else:
            rejected[row.number] = reason
    return passing


@dataclass(frozen=True)
class Neighbours:
    """The index neighbours of the best matches: positions by fact number, without selected rows.

    `conversations` are those of the selected rows. A neighbour counts only if its conversation is
    in `members_of`, the conversations of the best matches.
    """

    ordinals: Mapping[int, int]
    members_of: Collection[Conversation]
    conversations: Mapping[int, Conversation]


def find_neighbours(scores: Scores, selection: Selection) -> Neighbours:
    """Choose neighbours of the best matches that are part of a conversation."""
    best = _best_by_text(selection.text, _NEIGHBOURS_OF)
    conversations = grouping.group_by_conversation(selection.rows.values())
    nearby: set[int] = set()
    conversation_keys = set()
    for number in best:
        conversation = conversations.get(number)
        if conversation is not None:
            conversation_keys.add(conversation)
            ordinal = selection.ordinals[number]
            nearby.update(range(ordinal - _REACH, ordinal + _REACH + 1))
    end = len(scores.values)
    nearby.difference_update(
        selection.ordinals.values(), range(-_REACH, 0), range(end, end + _REACH)
    )
    if not nearby:
        return Neighbours({}, conversation_keys, conversations)
    ordinals = _best_neighbours(scores, sorted(nearby))
    numbers = scores.numbers(ordinals).tolist()
    by_number = dict(zip(numbers, ordinals.tolist(), strict=True))
    fresh = {
        number: ordinal for number, ordinal in by_number.items() if number not in selection.rows
    }
    return Neighbours(fresh, conversation_keys, conversations)


def _best_by_text(text: Mapping[int, float], count: int) -> list[int]:
    return sorted(text, key=lambda number: (-text[number], number))[:count]


def _best_neighbours(scores: Scores, nearby: Sequence[int]) -> NDArray[np.intp]:
    """Choose the positions whose facts, together with their own neighbours, match best."""
    ordinals = np.array(nearby, dtype=np.intp)
    if len(ordinals) <= _MAX_NEIGHBOURS:
        return ordinals
    combined = scores.values[ordinals]
    for step, weight in ranking.NEIGHBOUR_WEIGHTS:
        neighbours = ordinals + step
        is_valid = (neighbours >= 0) & (neighbours < len(scores.values))
        combined[is_valid] += weight * scores.values[neighbours[is_valid]]
    ordinals = ordinals[np.lexsort((ordinals, -combined))[:_MAX_NEIGHBOURS]]
    ordinals.sort()
    return ordinals


def request_linked(
    selection: Selection, neighbours: Neighbours, candidates: Mapping[int, Candidate]
) -> RowRequest:
    """Request neighbours and links of the best matches.

    If fewer matches than `_LINKS_OF` pass the filters, a neighbour may be among the best too, so
    its links are requested as well.
    """
    best = _best_by_text(selection.text, _LINKS_OF)
    links_of = best if len(best) == _LINKS_OF else [*best, *neighbours.ordinals]
    fresh = [number for number in neighbours.ordinals if number not in candidates]
    return RowRequest(fresh, links_of, candidates)


def gather_evidence(
    matches: Matches,
    selection: Selection,
    neighbours: Neighbours,
    rows: RowBatch,
    filters: Filters,
) -> Evidence:
    """Collect the rows to rank and the evidence for each of them."""
    candidates, text, ordinals = (
        dict(selection.rows),
        dict(selection.text),
        dict(selection.ordinals),
    )
    fresh = {row.number: row for row in rows.candidates}
    fresh = {number: row for number, row in fresh.items() if recall_filters.is_match(row, filters)}
    for number, ordinal in neighbours.ordinals.items():
        row = selection.similar.get(number) or fresh.get(number)
        if row is not None and grouping.possible_conversation(row) in neighbours.members_of:
            candidates[number], ordinals[number] = row, ordinal
            text[number] = float(matches.scores.values[ordinal])
    candidates |= {
        number: row for number, row in selection.similar.items() if number not in candidates
    }
    best = set(_best_by_text(text, _LINKS_OF))
    linked: dict[int, list[int]] = {}
    for number, linked_number in rows.links:
        if number in best and (linked_number in candidates or linked_number in fresh):
            linked.setdefault(linked_number, []).append(number)
    candidates |= {number: fresh[number] for number in linked if number not in candidates}
    return Evidence(
        candidates,
        text,
        ordinals,
        linked,
        {number: value for number, value in matches.similarities.items() if number in candidates},
        conversations=(
            neighbours.conversations if len(candidates) == len(selection.rows) else None
        ),
    )


def _with_expansion(evidence: Evidence, scores: Scores, own_terms: Set[str]) -> Evidence:
    """Add the part of each candidate's text score that terms of the expansion contribute."""
    if len(own_terms) == len(scores.terms):
        return evidence
    numbers = sorted(evidence.ordinals, key=evidence.ordinals.__getitem__)
    ordinals = np.array([evidence.ordinals[number] for number in numbers], dtype=np.int64)
    shares = scores.shares_beyond(own_terms, ordinals).tolist()
    expanded = {number: share for number, share in zip(numbers, shares, strict=True) if share}
    return replace(evidence, expanded=expanded)


def _rank_by_usefulness(
    snapshot: Snapshot, ranked: list[Ranked], evidence: Evidence
) -> list[Ranked]:
    """Read the outcomes of the ranked facts, and sort these again if there are any."""
    if not ranked:
        return ranked
    rows = [evidence.rows[result.number] for result in ranked]
    batch = snapshot.rows(RowRequest(outcomes_of=rows))
    if not batch.outcomes:
        return ranked
    evidence = replace(evidence, uses=batch.outcomes, success_rates=batch.success_rates)
    return ranking.apply_usefulness(ranked, evidence)


def _read_same_key(
    snapshot: Snapshot, best: Iterable[Candidate], filters: Filters
) -> list[Candidate]:
    """Read the facts that pass the filters and share a key with one of the best."""
    with_key = [row for row in best if row.key]
    if not with_key or len(snapshot.paths) < 2:  # noqa: PLR2004 - only another scope overrides
        return []
    batch = snapshot.rows(RowRequest(keys_of=with_key))
    return [row for row in batch.same_key if recall_filters.is_match(row, filters)]


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
