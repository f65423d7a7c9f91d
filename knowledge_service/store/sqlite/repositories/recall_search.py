"""One search of a recall: ranks narrow rows, and reads the rows of the results.

The process of the searches runs it (`knowledge_service.search_process`), and this one while that
process is not ready. What it returns can be sent between them: the facts are still JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import apsw

from knowledge_service.domain.access_control import PLATFORM, View, nearest_first
from knowledge_service.ports import Hit, RecallExplanation, Search, SearchResult
from knowledge_service.search import pipeline
from knowledge_service.search.match_selection import SearchQuery
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.ranking.ranking import Ranked
from knowledge_service.search.retrieval_result import Retrieval
from knowledge_service.store.sqlite.db.read_pool import ReadPool
from knowledge_service.store.sqlite.repositories import base, fact_rows
from knowledge_service.store.sqlite.repositories.recall_snapshot import (
    ReaderScopes,
    SqliteSnapshot,
    Vector,
)

_FACTS = "SELECT fact_no, scope_no FROM fact WHERE id = ?"


@dataclass(frozen=True)
class EncodedResult:
    """The result of a search, with its facts as JSON.

    Attributes:
        hits: the number of each fact, its score, and the parts of the score; the best first.
        fact_texts: the rows of these facts, as `fact_rows.from_texts` takes them.
        scopes: the searched scopes that are visible, nearest first.
        explanations: the outcome of each requested fact that is in a searched scope.
    """

    hits: Sequence[tuple[int, float, Mapping[str, int | float]]]
    fact_texts: Sequence[str]
    scopes: tuple[str, ...]
    explanations: Mapping[str, RecallExplanation]

    def to_result(self) -> SearchResult:
        """Build the facts."""
        facts = fact_rows.from_texts(self.fact_texts)
        hits = tuple([Hit(facts[number], score, parts) for number, score, parts in self.hits])
        return SearchResult(hits, self.scopes, self.explanations)


def run(
    readers: ReadPool,
    erasure_version: Callable[[], int],
    config: RankerConfig,
    search: Search,
    vector: Vector | None,
    *,
    ends_at_s: float,
) -> EncodedResult:
    """Run a search in a snapshot of its own, until a deadline of the pool.

    Raises:
        StoreUnavailable, ReadTimeout: as for `ReadPool.snapshot`.
    """
    opened = open_snapshot(readers, erasure_version, search, vector, ends_at_s=ends_at_s)
    with opened as (connection, snapshot):
        query = SearchQuery(search.query, search.limit, search.filters, search.now, search.synonyms)
        retrieval = pipeline.retrieve(snapshot, query, config)
        numbers = [each.number for each in retrieval.results]
        return EncodedResult(
            [
                (each.number, each.score, _parts(each, retrieval, search))
                for each in retrieval.results
            ],
            fact_rows.texts_by_numbers(connection, numbers, search.filters.known_at),
            visible_paths(snapshot.paths.values(), search.view, search.scopes),
            dict(_explanations(connection, snapshot, retrieval, search.why_not)),
        )


@contextmanager
def open_snapshot(
    readers: ReadPool,
    erasure_version: Callable[[], int],
    search: Search,
    vector: Vector | None = None,
    *,
    ends_at_s: float | None = None,
) -> Iterator[tuple[apsw.Connection, SqliteSnapshot]]:
    """Open a snapshot with the postings cache that it may use."""
    before = erasure_version()
    with readers.search_connection(ends_at_s) as connection:
        snapshot = _snapshot(connection, search, vector)  # its first read begins the snapshot
        snapshot.cache = readers.postings_cache.for_snapshot(before, erasure_version())
        yield connection, snapshot


def visible_paths(
    paths: Iterable[str], view: View, named: tuple[str, ...] | None
) -> tuple[str, ...]:
    """Return the visible scopes, nearest first, with those of the reader's own path."""
    return nearest_first(base.with_own_path(paths, view, named))


def _snapshot(connection: apsw.Connection, search: Search, vector: Vector | None) -> SqliteSnapshot:
    paths = base.visible_scopes(connection, search.view, search.scopes)
    view = search.view
    if view.can_read_subtree(PLATFORM):
        everything = base.scope_filter(view, paths)
        searched = everything if search.scopes is None else base.named_scopes(paths)
        reading = ReaderScopes(paths, everything, searched)
    else:
        visible = paths if search.scopes is None else base.visible_scopes(connection, view, None)
        of_reader = base.scope_filter(view, visible)
        reading = ReaderScopes(visible, of_reader, base.scope_filter(view, paths))
    snapshot = SqliteSnapshot(connection, paths, reading, search.filters.known_at)
    snapshot.has_facets = bool(search.filters.facets)
    snapshot.drafts = view.drafts
    snapshot.vector = vector
    return snapshot


def _parts(ranked: Ranked, retrieval: Retrieval, search: Search) -> Mapping[str, float]:
    return ranked.parts | retrieval.term_parts(ranked.number) if search.explain else ranked.parts


def _explanations(
    connection: apsw.Connection,
    snapshot: SqliteSnapshot,
    retrieval: Retrieval,
    fact_ids: Iterable[str],
) -> Iterator[tuple[str, RecallExplanation]]:
    """Explain the outcome of those facts that are in the searched scopes."""
    for fact_id in fact_ids:
        for number, scope_no in connection.execute(_FACTS, (fact_id,)):
            if scope_no in snapshot.paths:
                outcome = retrieval.explain(number)
                yield fact_id, RecallExplanation(outcome.stage, outcome.reason)
