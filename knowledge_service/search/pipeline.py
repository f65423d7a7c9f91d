"""The retrieval pipeline: parse, match, expand, rank.

    parse   the query's text                  -> terms, names, dates, expected answer type
    match   posting lists of visible scopes   -> a BM25 score for each document; the best rows
    expand  neighbours and links of the best  -> candidates
    rank    ranking features and usefulness   -> results without overridden facts and duplicates

For turns of a conversation, match, expand and rank run a second time with rare words of the best
results (`second_hop`). Each step is a function from data to data; `match_selection`, `neighbours`,
`ranking` and `retrieval_result` contain them. A store only supplies a `Snapshot`, which answers
two kinds of reads and covers visible scopes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from knowledge_service.domain import recall_filters
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.search import second_hop
from knowledge_service.search.match_selection import (
    SearchQuery,
    Selection,
    first_batch_size,
    select,
)
from knowledge_service.search.neighbours import (
    Neighbours,
    find_neighbours,
    linking_matches,
    request_linked,
)
from knowledge_service.search.query import parser
from knowledge_service.search.query.parser import ParsedQuery
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.bm25 import Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import grouping
from knowledge_service.search.ranking.near_duplicates import Deduplicator
from knowledge_service.search.ranking.ranking import Evidence, Ranked
from knowledge_service.search.ranking.weights import SHIPPED, Weights
from knowledge_service.search.retrieval_result import Retrieval, deduplicate
from knowledge_service.search.snapshot import Matches, RowBatch, RowRequest, Snapshot

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RankerConfig:
    """The optional ranking features that are enabled.

    Without `use_conversations`, speakers, turns and sessions neither add candidates nor change
    a score, and do not keep near-duplicates apart: nothing of `ranking.conversations` runs, and
    there is no second hop.
    """

    use_conversations: bool = True
    use_second_hop: bool = True
    weights: Weights = SHIPPED


DEFAULT_CONFIG = RankerConfig()


@dataclass(frozen=True)
class Gathered:
    """The candidates of a query with the evidence for each, before they are ranked."""

    query: ParsedQuery
    now: datetime
    matches: Matches
    selection: Selection
    evidence: Evidence


def retrieve(
    snapshot: Snapshot, query: SearchQuery, config: RankerConfig = DEFAULT_CONFIG
) -> Retrieval:
    """Run the pipeline over a snapshot."""
    first = gather(snapshot, query, config)
    ranked = rank(first, query, config)
    gathered = gather_second_hop(snapshot, query, config, first, ranked)
    evidence, first_results = gathered.evidence, frozenset[int]()
    if gathered is not first:
        first_results = frozenset(
            result.number for result in ranked[: second_hop.UNCHANGED_RESULTS]
        )
        wider = replace(config, weights=second_hop.weights_of(config.weights))
        ranked = second_hop.merge(ranked, rank(gathered, query, wider))
        evidence = replace(evidence, rows={**first.evidence.rows, **evidence.rows})
    rows = evidence.rows
    ranked = _rank_by_usefulness(snapshot, ranked, evidence)
    deduplicator = Deduplicator(snapshot.paths, use_conversations=config.use_conversations)
    best = [rows[result.number] for result in ranked[: 2 * query.limit]]
    deduplicator.register_keys(_read_same_key(snapshot, best, query.filters))
    results, excluded = deduplicate(ranked, rows, deduplicator, query.limit)
    return Retrieval(
        results,
        ranked,
        excluded,
        deduplicator,
        rows,
        gathered.matches,
        gathered.selection,
        first.matches,
        first_results,
    )


def gather(snapshot: Snapshot, query: SearchQuery, config: RankerConfig) -> Gathered:
    """Parse the query, match it, and collect the candidates and the evidence for each."""
    filters = query.filters
    now = filters.valid_at or filters.known_at or query.now or _EPOCH
    parsed_query = parser.parse(query.text, now, query.synonyms)
    matches = snapshot.match(parsed_query.terms, parsed_query.related)
    return _gather_matches(snapshot, query, config, parsed_query, now, matches)


def gather_second_hop(
    snapshot: Snapshot,
    query: SearchQuery,
    config: RankerConfig,
    first: Gathered,
    ranked: Sequence[Ranked],
) -> Gathered:
    """Match and gather again with rare words of the best results; `first` if there are none."""
    best = [first.evidence.rows[result.number] for result in ranked[: second_hop.HOPS_FROM]]
    if not (config.use_conversations and config.use_second_hop and second_hop.applies(best)):
        return first
    parsed_query = first.query
    counts = second_hop.new_terms(best, parsed_query.terms.keys())
    terms = second_hop.rare_terms(counts, snapshot.scores(dict.fromkeys(counts, 1.0)))
    if not terms:
        return first
    wider_query = replace(parsed_query, terms={**parsed_query.terms, **terms})
    scores = snapshot.scores(wider_query.terms, parsed_query.related)
    matches = Matches(scores, first.matches.similarities)
    return _gather_matches(snapshot, query, config, wider_query, first.now, matches)


def _gather_matches(
    snapshot: Snapshot,
    query: SearchQuery,
    config: RankerConfig,
    parsed_query: ParsedQuery,
    now: datetime,
    matches: Matches,
) -> Gathered:
    selection = select(snapshot, matches, query)
    neighbours = (
        find_neighbours(matches.scores, selection)
        if config.use_conversations
        else Neighbours({}, (), {})
    )
    candidates = {**selection.similar, **selection.rows}
    rows = snapshot.rows(request_linked(selection, neighbours, candidates))
    evidence = gather_evidence(matches, selection, neighbours, rows, query.filters)
    return Gathered(
        parsed_query, now, matches, selection, _with_text_scores(evidence, matches.scores)
    )


def rank(gathered: Gathered, query: SearchQuery, config: RankerConfig) -> list[Ranked]:
    """Rank the candidates by everything but usefulness, best first."""
    return ranking.rank(
        gathered.query,
        gathered.evidence,
        gathered.now,
        size=first_batch_size(query.limit),
        weights=config.weights,
        use_conversations=config.use_conversations,
    )


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
    fresh = {
        number: row
        for number, row in fresh.items()
        if recall_filters.is_match(row, filters, row.title_of)
    }
    for number, ordinal in neighbours.ordinals.items():
        row = selection.similar.get(number) or fresh.get(number)
        if row is not None and grouping.possible_conversation(row) in neighbours.members_of:
            candidates[number], ordinals[number] = row, ordinal
            text[number] = float(matches.scores.values[ordinal])
    candidates |= {
        number: row for number, row in selection.similar.items() if number not in candidates
    }
    best = set(linking_matches(text))
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


def _with_text_scores(evidence: Evidence, scores: Scores) -> Evidence:
    """Count each term of the query once in the text scores of the candidates."""
    if not scores.concepts:
        return evidence
    numbers = sorted(evidence.ordinals, key=evidence.ordinals.__getitem__)
    ordinals = np.array([evidence.ordinals[number] for number in numbers], dtype=np.int64)
    text_scores = scores.text_scores(ordinals).tolist()
    return replace(evidence, text=dict(zip(numbers, text_scores, strict=True)))


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
    return [row for row in batch.same_key if recall_filters.is_match(row, filters, row.title_of)]
