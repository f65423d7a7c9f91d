"""The `RecallStore` port over the posting tables: retrieval, and the most recent facts."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol

import apsw
from pydantic import TypeAdapter

from knowledge_client.models import Fact, Recalled
from knowledge_service.domain import recall_filters
from knowledge_service.domain.access_control import View, nearest_first
from knowledge_service.errors import StoreDamaged
from knowledge_service.event_log import times
from knowledge_service.ports import IdempotencyKey, NewReceipt, Search, SearchResult
from knowledge_service.ports.embeddings import Embedder
from knowledge_service.search import pipeline, ranker_version
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base, fact_rows, recall_search, receipts
from knowledge_service.store.sqlite.repositories.recall_search import EncodedResult
from knowledge_service.store.sqlite.repositories.recall_snapshot import SqliteSnapshot, Vector

_RECALLED: TypeAdapter[Recalled] = TypeAdapter(Recalled)

_EXISTING = """SELECT count(*) FROM json_each(?) n CROSS JOIN fact f ON f.id = n.value
  JOIN scope s USING(scope_no) WHERE s.retired_at IS NULL"""
_RECENT = f"""{fact_rows.SELECT} WHERE f.scope_no = ? AND f.lifecycle = 'live'
  ORDER BY f.confidence DESC, f.id DESC"""
_RECENT_AS_OF = f"""SELECT * FROM ({fact_rows.select_as_of("?2")} WHERE f.scope_no = ?1
  AND f.recorded_at <= ?2 AND (?3 OR f.review NOT IN {fact_rows.UNREVIEWED}))
  WHERE lifecycle = 'live' ORDER BY confidence DESC, id DESC"""


class Searcher(Protocol):
    """Runs searches in another process."""

    def search(
        self, search: Search, vector: Vector | None, *, ends_at_s: float
    ) -> EncodedResult | None:
        """Run a search; None when this process must run it, because the other is not ready.

        Raises:
            StoreUnavailable, ReadTimeout: as for `ReadPool.snapshot`.
        """
        ...

    def wait_for_open_searches(self, erased_at_s: float) -> None:
        """Wait until all searches that began before an erasure have returned their results."""
        ...

    def set_erasure_version(self, version: int) -> None:
        """Use no cache while the version is odd; return when that is so."""
        ...

    def record_erasure(self, version: int, erased: ErasedDocuments) -> None:
        """Drop documents from the cache, before the version is set."""
        ...


class RecallRepository(base.SqliteRepository):
    """The `RecallStore` port. With an embedder, facts with near embeddings are candidates, too."""

    embedder: Embedder | None = None
    searcher: Searcher | None = None
    ranker_config: RankerConfig = pipeline.DEFAULT_CONFIG

    def ranker(self) -> str:
        """Return the name of the ranker."""
        return ranker_version.version_of(self.ranker_config)

    def search(self, search: Search) -> SearchResult:
        """Rank narrow rows; whole facts are read only for results."""
        vector = self._vector(search)
        ends_at_s = self._readers.new_deadline_s()
        try:
            result = (
                self.searcher.search(search, vector, ends_at_s=ends_at_s) if self.searcher else None
            )
        except StoreDamaged as damage:
            self._writer.mark_damaged(damage)
            raise
        if result is None:
            result = recall_search.run(
                self._readers, self._erasure_version, self.ranker_config, search, vector,
                ends_at_s=ends_at_s,
            )  # fmt: skip
        return result.to_result()

    def open_snapshot(
        self, search: Search
    ) -> AbstractContextManager[tuple[apsw.Connection, SqliteSnapshot]]:
        """Open the snapshot of a search in this process."""
        return recall_search.open_snapshot(self._readers, self._erasure_version, search)

    def _erasure_version(self) -> int:
        return self._writer.erasure_version

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
                query: tuple[str, tuple[Any, ...]] = (_RECENT, (number_of[path],))
                if search.filters.known_at:
                    as_of_us = times.to_us(search.filters.known_at)
                    bindings = (number_of[path], as_of_us, search.view.drafts)
                    query = (_RECENT_AS_OF, bindings)
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
        return recall_search.visible_paths(paths.values(), view, scopes)

    def record_recall(
        self, new: NewReceipt, answer: Recalled, idempotency_key: IdempotencyKey | None
    ) -> Recalled:
        """Commit the receipt, its usage and the answer for a repeat.

        A fact of the answer may have been erased after it was read, or its scope deleted. The
        answer is not stored then, because the stored answers with the fact are deleted already.
        """

        def work(tx: Transaction) -> Recalled:
            receipts.record(tx, [new])
            return answer

        return self._idempotent(idempotency_key, _RECALLED, work, may_store=_has_all_facts)

    def record_recall_later(self, new: NewReceipt) -> None:
        """Add the receipt to the writer's deferred jobs."""
        self._writer.submit_later(receipts.RecordReceipt(new))

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        """Return a receipt and its observer."""
        with self._readers.snapshot() as connection:
            return receipts.find(connection, receipt_id)


def _has_all_facts(tx: Transaction, answer: Recalled) -> bool:
    fact_ids = {fact.id for fact in answer.facts}
    (count,) = tx.fetch_first(_EXISTING, (json.dumps(list(fact_ids)),)) or (0,)
    return bool(count == len(fact_ids))
