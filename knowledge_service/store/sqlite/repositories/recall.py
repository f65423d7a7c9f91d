"""The `RecallStore` port over the posting tables: retrieval, and the most recent facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

import apsw
from pydantic import TypeAdapter

from knowledge_client.models import Fact, Recalled
from knowledge_service.domain import recall_filters
from knowledge_service.domain.access_control import PLATFORM, View, nearest_first
from knowledge_service.event_log import times
from knowledge_service.ports import (
    Hit,
    IdempotencyKey,
    NewReceipt,
    RecallExplanation,
    Search,
    SearchResult,
)
from knowledge_service.ports.embeddings import Embedder
from knowledge_service.search import pipeline, ranker_version
from knowledge_service.search.match_selection import SearchQuery
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.ranking.ranking import Ranked
from knowledge_service.search.retrieval_result import Retrieval
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base, fact_rows, receipts
from knowledge_service.store.sqlite.repositories.recall_snapshot import (
    ReaderScopes,
    SqliteSnapshot,
    Vector,
)

_RECALLED: TypeAdapter[Recalled] = TypeAdapter(Recalled)

_RECENT = f"""{fact_rows.SELECT} WHERE f.scope_no = ? AND f.lifecycle = 'live'
  ORDER BY f.confidence DESC, f.id DESC"""
_RECENT_AS_OF = f"""SELECT * FROM ({fact_rows.select_as_of("?2")} WHERE f.scope_no = ?1
  AND f.recorded_at <= ?2) WHERE lifecycle = 'live' ORDER BY confidence DESC, id DESC"""
_FACTS = "SELECT fact_no, scope_no FROM fact WHERE id = ?"


class RecallRepository(base.SqliteRepository):
    """The `RecallStore` port. With an embedder, facts with near embeddings are candidates, too."""

    embedder: Embedder | None = None
    ranker_config: RankerConfig = pipeline.DEFAULT_CONFIG

    def ranker(self) -> str:
        """Return the name of the ranker."""
        return ranker_version.version_of(self.ranker_config)

    def search(self, search: Search) -> SearchResult:
        """Rank narrow rows; whole facts are read only for results."""
        vector = self._vector(search)
        with self.open_snapshot(search, vector) as (connection, snapshot):
            query = SearchQuery(
                search.query, search.limit, search.filters, search.now, search.synonyms
            )
            retrieval = pipeline.retrieve(snapshot, query, self.ranker_config)
            facts = fact_rows.by_numbers(
                connection, [each.number for each in retrieval.results], search.filters.known_at
            )
            return SearchResult(
                tuple(
                    Hit(facts[each.number], each.score, _parts(each, retrieval, search))
                    for each in retrieval.results
                ),
                _visible(snapshot.paths.values(), search.view, search.scopes),
                dict(_explanations(connection, snapshot, retrieval, search.why_not)),
            )

    @contextmanager
    def open_snapshot(
        self, search: Search, vector: Vector | None = None
    ) -> Iterator[tuple[apsw.Connection, SqliteSnapshot]]:
        """Open a snapshot with the postings cache that it may use."""
        before = self._writer.erasure_version
        with self._readers.search_connection() as connection:
            snapshot = _snapshot(connection, search, vector)  # its first read begins the snapshot
            snapshot.cache = self._readers.postings_cache.for_snapshot(
                before, self._writer.erasure_version
            )
            yield connection, snapshot

    def _vector(self, search: Search) -> Vector | None:
        if self.embedder is None or not search.query.strip():
            return None
        vectors = self.embedder.embed([search.query])
        return Vector(self.embedder.model, vectors[0]) if vectors else None

    def recent(self, search: Search) -> tuple[Fact, ...]:
        """Read facts scope by scope, nearest first."""
        facts: list[Fact] = []
        with self._readers.snapshot() as connection:
            scopes = base.visible_scopes(connection, search.view, search.scopes)
            number_of = {path: number for number, path in scopes.items()}
            for path in nearest_first(number_of):
                query: tuple[str, tuple[int, ...]] = (_RECENT, (number_of[path],))
                if search.filters.known_at:
                    as_of_us = times.to_us(search.filters.known_at)
                    query = (_RECENT_AS_OF, (number_of[path], as_of_us))
                matching = (
                    fact
                    for fact in fact_rows.facts(connection, *query)
                    if recall_filters.is_match(
                        fact, search.filters, fact_rows.title_of(connection, fact)
                    )
                )
                facts += islice(matching, search.limit - len(facts))
                if len(facts) >= search.limit:
                    break
        return tuple(facts)

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the visible scopes, nearest first."""
        with self._readers.snapshot() as connection:
            paths = base.visible_scopes(connection, view, scopes)
        return _visible(paths.values(), view, scopes)

    def record_recall(
        self, new: NewReceipt, answer: Recalled, idempotency_key: IdempotencyKey | None
    ) -> Recalled:
        """Commit the receipt, its usage and the answer for a repeat."""

        def work(tx: Transaction) -> Recalled:
            receipts.record(tx, [new])
            return answer

        return self._idempotent(idempotency_key, _RECALLED, work)

    def record_recall_later(self, new: NewReceipt) -> None:
        """Add the receipt to the writer's deferred jobs."""
        self._writer.submit_later(receipts.RecordReceipt(new))

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        """Return a receipt and its observer."""
        with self._readers.snapshot() as connection:
            return receipts.find(connection, receipt_id)


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


def _visible(paths: Iterable[str], view: View, named: tuple[str, ...] | None) -> tuple[str, ...]:
    return nearest_first(base.with_own_path(paths, view, named))
