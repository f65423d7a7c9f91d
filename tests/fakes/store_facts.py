"""Facts and their retrieval in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kais import facts as kais_facts
from knowledge_client.models import (
    Corrected,
    Fact,
    Recalled,
    Receipt,
    Remembered,
)
from knowledge_service.domain import (
    facts as domain_facts,
)
from knowledge_service.domain import (
    filtering,
    supersession,
)
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.visibility import (
    View,
    nearest_first,
)
from knowledge_service.errors import (
    Conflict,
    NotFound,
    RetractedBefore,
)
from knowledge_service.index import analyser, scorer, segments, terms
from knowledge_service.ports import (
    Actor,
    Hit,
    Listing,
    NewReceipt,
    Once,
    Search,
)
from tests.fakes.store_base import Base, Row


class Facts(Base):
    """The `FactStore` and `RecallStore` ports."""

    def remember(
        self, facts: Sequence[NewFact], *, actor: Actor, once: Once | None = None
    ) -> tuple[Remembered, ...]:
        def work() -> tuple[Remembered, ...]:
            for fact in facts:  # all or none: nothing is stored before every refusal is known
                self._refuse_retracted(fact)
            return tuple(self._store(fact, actor) for fact in facts)

        return self._once(once, work)

    async def remembered(
        self, facts: Sequence[NewFact], *, actor: Actor, once: Once | None = None
    ) -> tuple[Remembered, ...]:
        return self.remember(facts, actor=actor, once=once)

    def _equal(self, fact: NewFact) -> Row | None:
        order = {"live": 0, "retracted": 1}
        rows = [r for r in self._scope(fact.scope).rows if r.content_hash == fact.content_hash]
        rows.sort(key=lambda row: row.fact.id, reverse=True)
        return min(rows, key=lambda row: order.get(row.fact.lifecycle, 2), default=None)

    def _refuse_retracted(self, fact: NewFact) -> None:
        equal = self._equal(fact)
        if equal and equal.fact.lifecycle == "retracted":
            raise RetractedBefore(
                f"an equal fact was retracted in {fact.scope}: {equal.closed_reason};"
                " say what is different"
            )

    def _store(self, new: NewFact, actor: Actor) -> Remembered:
        self._refuse_retracted(new)
        equal = self._equal(new)
        if equal and equal.fact.lifecycle == "live":
            return self._confirm(equal, new)
        scope, now = self._scope(new.scope), self._now()
        since = new.valid_from or now
        holders = {
            row.fact.id: row
            for row in scope.rows
            if new.key_hash and row.key_hash == new.key_hash and row.fact.lifecycle == "live"
        }
        verdict = supersession.decide(
            [
                supersession.Holder(
                    row.fact.id,
                    row.fact.valid_from or row.fact.recorded_at,
                    row.fact.review == "approved",
                )
                for row in holders.values()
            ],
            since,
            actor.type,
        )
        fact_id = self._ids.make(now)
        closed = verdict.superseded_by is not None
        self._numbers += 1
        row = Row(
            self._numbers,
            Fact(
                id=fact_id,
                scope=new.scope,
                kind=new.kind,
                title=new.title,
                content=new.content,
                data=new.data,
                schema_=new.schema,
                about=new.about,
                position=new.position,
                subject=new.subject,
                predicate=new.predicate,
                tags=new.tags,
                confidence=new.confidence,
                source=new.source,
                lifecycle="superseded" if closed else "live",
                expires_at=new.expires_at,
                valid_from=new.valid_from,
                valid_until=verdict.until or new.valid_until,
                recorded_at=now,
                closed_at=now if closed else None,
            ),
            new.content_hash,
            new.key_hash,
            analyser.terms(new.rendering),
        )
        scope.rows.append(row)
        scope.last_write_at = now
        if equal:
            self.links.add((fact_id, equal.fact.id, "derived_from"))
        for older in verdict.closes:
            self._close(holders[older], "superseded", f"superseded by {fact_id}", until=since)
            self.links.add((fact_id, older, "supersedes"))
        self.links |= {(fact_id, other, "contradicts") for other in verdict.contradicts}
        if verdict.superseded_by:
            self.links.add((verdict.superseded_by, fact_id, "supersedes"))
        return Remembered(
            fact_id=fact_id,
            status="created",
            superseded=verdict.closes,
            contradicts=verdict.contradicts,
        )

    def _confirm(self, row: Row, new: NewFact) -> Remembered:
        tags = tuple(kais_facts.merged_tags(row.fact.tags, new.tags))
        confidence = max(row.fact.confidence, new.confidence)
        row.fact = row.fact.model_copy(update={"tags": tags, "confidence": confidence})
        self._scope(row.fact.scope).last_write_at = self._now()
        return Remembered(fact_id=row.fact.id, status="confirmed")

    def _close(self, row: Row, lifecycle: str, reason: str, *, until: datetime) -> None:
        now = self._now()
        update = {"lifecycle": lifecycle, "closed_at": now, "valid_until": until}
        row.fact, row.closed_reason = row.fact.model_copy(update=update), reason
        self._scope(row.fact.scope).last_write_at = now

    def _row(self, fact_id: str) -> Row | None:
        rows = (row for scope in self._scopes.values() for row in scope.rows)
        return next((row for row in rows if row.fact.id == fact_id), None)

    def fact(self, fact_id: str, view: View) -> Fact | None:
        self._check()
        row = self._row(fact_id)
        return row.fact if row and view.sees(row.fact.scope) else None

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        self._check()
        tag = kais_facts.normal_tag(listing.tag) if listing.tag else None
        found = [
            row.fact
            for scope in self._seen(listing.view, listing.scopes)
            for row in scope.rows
            if listing.kind in (None, row.fact.kind)
            and listing.lifecycle in (None, row.fact.lifecycle)
            and listing.source in (None, row.fact.source.type)
            and (listing.before is None or row.fact.id < listing.before)
            and (tag is None or tag in {kais_facts.normal_tag(t) for t in row.fact.tags})
        ]
        found.sort(key=lambda fact: fact.id, reverse=True)
        return tuple(found[: listing.limit])

    def correct(
        self,
        fact_id: str,
        reason: str,
        replacement: str | None,
        *,
        actor: Actor,
        once: Once | None = None,
    ) -> Corrected:
        def work() -> Corrected:
            row = self._row(fact_id)
            if row is None:
                raise NotFound(f"fact {fact_id} does not exist or is not visible to you")
            if row.fact.lifecycle != "live":
                raise Conflict(
                    f"fact {fact_id} is {row.fact.lifecycle} already: {row.closed_reason}"
                )
            if replacement is None:
                self._close(row, "retracted", reason, until=self._now())
                return Corrected(fact_id=fact_id)
            new = domain_facts.replacement(row.fact, replacement, actor.name)
            if new.content_hash == row.content_hash:
                raise Conflict(f"the replacement of fact {fact_id} says the same; give other words")
            self._refuse_retracted(new)
            self._close(row, "superseded", reason, until=self._now())
            stored = self._store(new, actor)
            self.links.add((stored.fact_id, fact_id, "supersedes"))
            return Corrected(fact_id=fact_id, replacement_id=stored.fact_id)

        return self._once(once, work)

    def search(self, search: Search) -> tuple[Hit, ...]:
        self._check()
        rows = [r for s in self._seen(search.view, search.scopes) for r in s.rows]
        rows.sort(key=lambda row: row.number)
        by_number = {row.number: row.fact for row in rows}
        documents = [terms.document(row.number, row.terms) for row in rows]
        packed = list(segments.cut(segments.gather(documents), 0))
        scores = scorer.score([packed], analyser.terms(search.query))
        ranked = scores.best_first(4 * search.limit)
        hits = [Hit(by_number[number], score, {"bm25": score}) for number, score in ranked]
        served = [hit for hit in hits if filtering.passes(hit.fact, search.filters)]
        return tuple(served[: search.limit])

    def recent(self, search: Search) -> tuple[Fact, ...]:
        self._check()
        found: list[Fact] = []
        scopes = {scope.path: scope for scope in self._seen(search.view, search.scopes)}
        for path in nearest_first(scopes):
            live = [row.fact for row in scopes[path].rows if row.fact.lifecycle == "live"]
            live.sort(key=lambda fact: (fact.confidence, fact.id), reverse=True)
            found += [fact for fact in live if filtering.passes(fact, search.filters)]
        return tuple(found[: search.limit])

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        self._check()
        return nearest_first(self._paths(view, scopes))

    def record_recall(self, new: NewReceipt, answer: Recalled, once: Once | None) -> Recalled:
        def work() -> Recalled:
            self._record(new)
            return answer

        return self._once(once, work)

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
            row = self._row(fact_id)
            if row:
                self._usage[(row.fact.scope, observer, kind)] += 1
                paths.add(row.fact.scope)
        return paths

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        self._check()
        return self._receipts.get(receipt_id)
