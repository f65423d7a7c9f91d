"""Retrieval over the posting tables, receipts, and the usage that recalls and runs count."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import apsw
from pydantic import TypeAdapter

from knowledge_client.models import Fact, Recalled, Receipt
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
from knowledge_service.search.pipeline import RankerConfig, Retrieval, SearchQuery
from knowledge_service.search.ranking.ranking import Ranked
from knowledge_service.store.sqlite.db.transaction import BatchableJob, Transaction
from knowledge_service.store.sqlite.repositories import base, fact_rows
from knowledge_service.store.sqlite.repositories.recall_snapshot import (
    ReaderScopes,
    SqliteSnapshot,
    Vector,
)

_RECALLED: TypeAdapter[Recalled] = TypeAdapter(Recalled)

_RECENT = f"""{fact_rows.SELECT} WHERE f.scope_no = ? AND f.lifecycle = 'live'
  ORDER BY f.confidence DESC, f.id DESC"""
_RECENT_THEN = f"""SELECT * FROM ({fact_rows.select_as_of("?2")} WHERE f.scope_no = ?1
  AND f.recorded_at <= ?2) WHERE lifecycle = 'live' ORDER BY confidence DESC, id DESC"""
_RECEIPT = """INSERT INTO receipt(id, principal, observer_no, run_id, attempt, at, query_hash, body,
  realm_no) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_FIND = """SELECT r.body, s.path FROM receipt r JOIN scope s ON s.scope_no = r.observer_no
  WHERE r.id = ? AND s.retired_at IS NULL"""
_FACTS = "SELECT fact_no, scope_no FROM fact WHERE id = ?"
_THEM = """SELECT f.id, f.fact_no, f.scope_no FROM json_each(?) n CROSS JOIN fact f
  ON f.id = n.value"""
_USE = """INSERT INTO usage(fact_no, observer_no, kind, count, last_at) VALUES(?, ?, ?, 1, ?)
  ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at"""
_USE_SCOPE = """INSERT INTO scope_usage(scope_no, observer_no, kind, count, last_at)
  VALUES(?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET count = count + excluded.count, last_at = excluded.last_at"""
_SERVED = """INSERT OR IGNORE INTO served(fact_no, at, receipt, principal, observer_no, run_id)
  VALUES(?, ?, ?, ?, ?, ?)"""


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
        found = self.embedder.embed([search.query])
        return Vector(self.embedder.model, found[0]) if found else None

    def recent(self, search: Search) -> tuple[Fact, ...]:
        """Read facts scope by scope, nearest first."""
        found: list[Fact] = []
        with self._readers.snapshot() as connection:
            scopes = base.visible_scopes(connection, search.view, search.scopes)
            number_of = {path: number for number, path in scopes.items()}
            for path in nearest_first(number_of):
                asked: tuple[str, tuple[int, ...]] = (_RECENT, (number_of[path],))
                if search.filters.known_at:
                    then = times.to_us(search.filters.known_at)
                    asked = (_RECENT_THEN, (number_of[path], then))
                served = (
                    fact
                    for fact in fact_rows.facts(connection, *asked)
                    if recall_filters.is_match(fact, search.filters)
                )
                found += islice(served, search.limit - len(found))
                if len(found) >= search.limit:
                    break
        return tuple(found)

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the visible scopes, nearest first."""
        with self._readers.snapshot() as connection:
            seen = base.visible_scopes(connection, view, scopes)
        return _visible(seen.values(), view, scopes)

    def record_recall(
        self, new: NewReceipt, answer: Recalled, idempotency_key: IdempotencyKey | None
    ) -> Recalled:
        """Commit the receipt, its usage and the answer for a repeat."""

        def work(tx: Transaction) -> Recalled:
            _record(tx, [new])
            return answer

        return self._idempotent(idempotency_key, _RECALLED, work)

    def record_recall_later(self, new: NewReceipt) -> None:
        """Add the receipt to the writer's deferred jobs."""
        self._writer.submit_later(_Recording(new))

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        """Return a receipt and its observer."""
        with self._readers.snapshot() as connection:
            for body, observer in connection.execute(_FIND, (receipt_id,)):
                return NewReceipt(Receipt.model_validate_json(body), observer)
        return None


def _snapshot(connection: apsw.Connection, search: Search, vector: Vector | None) -> SqliteSnapshot:
    paths = base.visible_scopes(connection, search.view, search.scopes)
    view = search.view
    if view.can_read_subtree(PLATFORM):
        everything = base.scope_filter(view, paths)
        reading = ReaderScopes(base.VisibleScopes(connection, view), everything, everything)
    else:
        seen = paths if search.scopes is None else base.visible_scopes(connection, view, None)
        asked = base.scope_filter(view, seen)
        reading = ReaderScopes(seen, asked, base.scope_filter(view, paths))
    snapshot = SqliteSnapshot(connection, paths, reading, search.filters.known_at)
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


class _Recording(BatchableJob):
    """Writes a receipt and its uses; the receipts of one commit are written together."""

    def __init__(self, new: NewReceipt) -> None:
        self.new = new

    def __call__(self, tx: Transaction) -> None:
        """Write the receipt."""
        _record(tx, [self.new])

    def run_batch(self, tx: Transaction, jobs: Sequence[_Recording]) -> list[None]:
        """Write the receipts of all jobs."""
        _record(tx, [job.new for job in jobs])
        return [None] * len(jobs)


def _record(tx: Transaction, receipts: Sequence[NewReceipt]) -> None:
    named = dict.fromkeys(chain.from_iterable([new.receipt.facts for new in receipts]))
    found = {fact_id: rest for fact_id, *rest in tx.fetch_all(_THEM, (json.dumps(list(named)),))}
    told: list[tuple[Any, ...]] = []
    served: list[tuple[Any, ...]] = []
    used: list[tuple[Any, ...]] = []
    of_scopes: list[tuple[Any, ...]] = []
    for new in receipts:
        receipt = new.receipt
        observer_no = base.ensure_scope(tx, new.observer, receipt.principal)
        who = (receipt.id, receipt.principal, observer_no, receipt.run)
        realm_no = base.ensure_scope(tx, new.realm, receipt.principal) if receipt.run else None
        body = receipt.model_dump_json()
        told.append((*who, receipt.attempt, tx.at_us, receipt.query_hash, body, realm_no))
        own = [found[fact_id] for fact_id in receipt.facts if fact_id in found]
        kind = "injected" if receipt.run else "recalled"
        served += [(fact_no, tx.at_us, *who) for fact_no, _ in own]
        used += [(fact_no, observer_no, kind, tx.at_us) for fact_no, _ in own]
        # Besides the uses of its facts, a scope counts the recall itself.
        scopes = sorted(Counter([scope_no for _, scope_no in own]).items())
        of_scopes += [(scope_no, observer_no, kind, count, tx.at_us) for scope_no, count in scopes]
        of_scopes += [(scope_no, observer_no, "recall", 1, tx.at_us) for scope_no, _ in scopes]
    tx.executemany(_RECEIPT, told)
    tx.executemany(_SERVED, sorted(served, key=operator.itemgetter(0)))
    tx.executemany(_USE, sorted(used, key=operator.itemgetter(0)))
    tx.executemany(_USE_SCOPE, of_scopes)
