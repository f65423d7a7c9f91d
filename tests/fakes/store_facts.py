"""Facts and their retrieval in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from kais import facts as kais_facts
from knowledge_client.models import (
    CorrectionResult,
    Fact,
    Recalled,
    Receipt,
    Remembered,
)
from knowledge_service.domain import recall_filters
from knowledge_service.domain.access_control import (
    View,
    nearest_first,
)
from knowledge_service.domain.facets import has_facet
from knowledge_service.domain.facts import NewFact, contains_text
from knowledge_service.fact_transactions import corrections, dry_run, names, store_fact
from knowledge_service.ports import (
    ActionContext,
    Actor,
    Hit,
    IdempotencyKey,
    Listing,
    NewReceipt,
    RecallExplanation,
    Search,
    SearchResult,
)
from knowledge_service.search import pipeline, ranker_version
from knowledge_service.search.match_selection import SearchQuery
from tests.fakes import recall_snapshot
from tests.fakes.recall_snapshot import MemorySnapshot
from tests.fakes.store_base import Row, StoredScope
from tests.fakes.store_links import Links
from tests.fakes.store_unit_of_work import MemoryUnitOfWork


class Facts(Links):
    """The `FactStore` and `RecallStore` ports."""

    def remember(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[Remembered, ...]:
        def work() -> tuple[Remembered, ...]:
            return self._store_all(facts, actor)

        return self._once(idempotency_key, work)

    def rehearse(self, facts: Sequence[NewFact], *, actor: Actor) -> tuple[Remembered, ...]:
        def work(_: None) -> tuple[Remembered, ...]:
            return self._store_all(facts, actor)

        try:
            return self._once(None, lambda: dry_run.roll_back_after(work)(None))
        except dry_run.DryRunRollback as result:
            answer: tuple[Remembered, ...] = result.answer
            return answer

    def _store_all(self, facts: Sequence[NewFact], actor: Actor) -> tuple[Remembered, ...]:
        stored = [
            store_fact.store_or_confirm_fact(MemoryUnitOfWork(self), fact, actor) for fact in facts
        ]
        return names.assign_aliases_separately(MemoryUnitOfWork(self), facts, stored, actor)

    async def remembered(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[Remembered, ...]:
        return self.remember(facts, actor=actor, idempotency_key=idempotency_key)

    def fact(self, fact_id: str, view: View, known_at: datetime | None = None) -> Fact | None:
        self._check()
        row = self.row(fact_id)
        then = self.book.then(row.fact, known_at) if row else None
        if row is None or then is None:
            return None
        is_seen = all(view.can_read_fact(item.scope, item.review) for item in (row.fact, then))
        return then if is_seen else None

    def readable_facts(self, fact_ids: Sequence[str], view: View) -> frozenset[str]:
        self._check()
        return frozenset(fact_id for fact_id in fact_ids if self.fact(fact_id, view))

    def current_versions(self, fact_ids: Sequence[str], view: View) -> Mapping[str, Fact]:
        self._check()
        return {
            fact_id: fact
            for fact_id in fact_ids
            for each in self.versions_of(fact_id)
            if (fact := self.fact(each, view)) and fact.lifecycle == "live"
        }

    def facts_about(
        self, fact_ids: Sequence[str], view: View, *, kind: str, limit: int
    ) -> Mapping[str, tuple[Fact, ...]]:
        listing = Listing(view=view, limit=limit, kind=kind, lifecycle="live")
        return {
            fact_id: facts
            for fact_id in fact_ids
            if (facts := self.list_facts(dataclasses.replace(listing, about=fact_id)))
        }

    def facts_named(
        self, namespace: str, values: Sequence[str], view: View
    ) -> tuple[tuple[str, Fact], ...]:
        self._check()
        return tuple(
            (value, fact)
            for (_, held, value), fact_id in sorted(self._names.items())
            if held == namespace and value in values and (fact := self.fact(fact_id, view))
        )

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        self._check()
        known_value = (
            self.book.then(row.fact, listing.known_at)
            for scope in self._seen(listing.view, listing.scopes)
            for row in scope.rows
            if self.visible(row.fact.id, listing.view)
        )
        facts = [
            fact
            for fact in known_value
            if fact
            and listing.view.can_read_fact(fact.scope, fact.review)
            and _wanted(fact, listing)
            and (listing.about is None or fact.about in self.versions_of(listing.about))
            and self._is_named_and_linked(fact, listing)
        ]
        if listing.about is None:
            facts.sort(key=lambda fact: fact.id, reverse=True)
        else:
            facts.sort(key=_place)
        return tuple(facts[: listing.limit])

    def _is_named_and_linked(self, fact: Fact, listing: Listing) -> bool:
        namespaces = {n for (_, n, _), held in self._names.items() if held == fact.id}
        links = self.links_of(fact.id, listing.view) if listing.is_unlinked else []
        return listing.alias_namespace in (None, *namespaces) and not any(
            link.closed_at is None for link in links
        )

    def correct(
        self,
        fact_id: str,
        reason: str,
        replacement: str | None,
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> CorrectionResult:
        context = ActionContext(actor, reason, idempotency_key)
        return self._once(
            idempotency_key,
            lambda: corrections.correct_fact(MemoryUnitOfWork(self), fact_id, replacement, context),
        )

    def ranker(self) -> str:
        return ranker_version.version_of(self.ranker_config)

    def search(self, search: Search) -> SearchResult:
        self._check()
        snapshot = self._snapshot(search)
        by_number = {row.number: row.fact for rows in snapshot.scopes.values() for row in rows}
        query = SearchQuery(search.query, search.limit, search.filters, search.now, search.synonyms)
        retrieval = pipeline.retrieve(snapshot, query, self.ranker_config)
        hits = []
        for each in retrieval.results:
            terms = retrieval.term_parts(each.number) if search.explain else {}
            hits.append(Hit(by_number[each.number], each.score, each.parts | terms))
        explanations = {}
        for number, fact in by_number.items():
            if fact.id in search.why_not:
                outcome = retrieval.explain(number)
                explanations[fact.id] = RecallExplanation(outcome.stage, outcome.reason)
        scopes = nearest_first(self._paths(search.view, search.scopes))
        return SearchResult(tuple(hits), scopes, explanations)

    def _snapshot(self, search: Search) -> MemorySnapshot:
        observed = sorted(self._seen(search.view, search.scopes), key=lambda scope: scope.path)
        number_of = {row.fact.id: row.number for scope in observed for row in scope.rows}
        links = [
            (number_of[a], number_of[b])
            for a, b, kind in self.links_live_at(search.filters.known_at)
            if kind not in ("supersedes", "contradicts", "promoted_from")
            if a in number_of and b in number_of
        ]
        return MemorySnapshot(
            {number: scope.path for number, scope in enumerate(observed)},
            {number: self._then(scope, search) for number, scope in enumerate(observed)},
            links,
        )

    def _then(self, scope: StoredScope, search: Search) -> list[Row]:
        known_at = search.filters.known_at
        rows = [
            row
            for row in scope.rows
            if known_at is None or search.view.can_read_fact(scope.path, row.fact.review)
        ]
        known = ((row, self.book.then(row.fact, known_at)) for row in rows)
        return [dataclasses.replace(row, fact=fact) for row, fact in known if fact]

    def recent(self, search: Search) -> tuple[Fact, ...]:
        self._check()
        matching_facts: list[Fact] = []
        scopes = {scope.path: scope for scope in self._seen(search.view, search.scopes)}
        for path in nearest_first(scopes):
            rows = self._then(scopes[path], search)
            live = [row.fact for row in rows if row.fact.lifecycle == "live"]
            live.sort(key=lambda fact: (fact.confidence, fact.id), reverse=True)
            matching_facts += [
                fact
                for fact in live
                if recall_filters.is_match(
                    fact, search.filters, recall_snapshot.title_of(fact, rows)
                )
            ]
        return tuple(matching_facts[: search.limit])

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        self._check()
        return nearest_first(self._paths(view, scopes))

    def record_recall(
        self, new: NewReceipt, answer: Recalled, idempotency_key: IdempotencyKey | None
    ) -> Recalled:
        def work() -> Recalled:
            self._record(new)
            return answer

        return self._once(
            idempotency_key, work, lambda answer: all(self.row(fact.id) for fact in answer.facts)
        )

    def record_recall_later(self, new: NewReceipt) -> None:
        self._check()
        self._record(new)

    def _record(self, new: NewReceipt) -> None:
        self._scope(new.observer)
        self._receipts[new.receipt.id] = new
        kind = "injected" if new.receipt.run else "recalled"
        for path in self._count(new.receipt, new.observer, kind):
            self._usage[(path, new.observer, "recall")] += 1

    def _count(self, receipt: Receipt, observer: str, kind: str) -> set[str]:
        paths = set()
        for fact_id in receipt.facts:
            row = self.row(fact_id)
            if row:
                self._usage[(row.fact.scope, observer, kind)] += 1
                self._fact_usage[(fact_id, kind)] += 1
                self._by_observer[(fact_id, observer, kind)] += 1
                paths.add(row.fact.scope)
        return paths

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        self._check()
        return self._receipts.get(receipt_id)


def _wanted(fact: Fact, listing: Listing) -> bool:
    tag = kais_facts.normalize_tag(listing.tag) if listing.tag else None
    return (
        listing.kind in (None, fact.kind)
        and listing.lifecycle in (None, fact.lifecycle)
        and listing.review in (None, fact.review)
        and listing.source in (None, fact.source.type)
        and (listing.before_id is None or fact.id < listing.before_id)
        and (tag is None or tag in {kais_facts.normalize_tag(t) for t in fact.tags})
        and (listing.valid_at is None or _held(fact, listing.valid_at))
        and listing.schema in (None, fact.schema_)
        and all(has_facet(fact.data, facet) for facet in listing.facets)
        and listing.subject in (None, fact.subject)
        and (listing.contains is None or contains_text(fact, listing.contains))
        and (listing.after_position is None or _place(fact) > _place_of(*listing.after_position))
    )


def _place(fact: Fact) -> tuple[float, str]:
    return _place_of(fact.position, fact.id)


def _place_of(position: int | None, fact_id: str) -> tuple[float, str]:
    return (math.inf if position is None else position, fact_id)


def _held(fact: Fact, at: datetime) -> bool:
    started = (fact.valid_from or fact.recorded_at) <= at
    return started and (fact.valid_until is None or at < fact.valid_until)
