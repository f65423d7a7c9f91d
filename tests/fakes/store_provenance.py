"""Where a fact came from, what it touched, and of what use it was, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from knowledge_client.models import (
    ConfirmationRecord,
    Correction,
    Fact,
    FactProvenance,
    Impact,
    Link,
    PromotionRecord,
    RecallExposure,
    UsageCount,
)
from knowledge_service.domain.access_control import PLATFORM, View, realm_of
from knowledge_service.event_log import times
from knowledge_service.ports import (
    Actor,
    AuditReader,
    FactUsage,
    IdempotencyKey,
)
from tests.fakes.store_links import Links
from tests.fakes.store_names import Names
from tests.fakes.store_unit_of_work import MemoryUnitOfWork

_DERIVING = ("derived_from", "promoted_from", "supersedes")


class Provenance(Links, Names):
    """The `ProvenanceStore` and `UsageStore` ports."""

    def why(self, fact_id: str, reader: AuditReader) -> FactProvenance | None:
        self._check()
        if not self.visible(fact_id, reader.view):
            return None
        fact, view = self._fact(fact_id), reader.view
        chain = list(self._derivation(fact_id, view))
        run = next(
            (
                run
                for ref in fact.source.refs
                if ref.type == "run"
                for run in self.runs_named(ref.id, view)
                if realm_of(fact.scope) in (PLATFORM, realm_of(run.scope))
            ),
            None,
        )
        confirmed = self.book.confirmations.get(fact_id, [])
        return FactProvenance(
            fact=fact,
            aliases=tuple(self._names_of(fact_id)),
            run=run,
            receipts=tuple(
                each.receipt
                for each in self._receipts.values()
                if run
                and self._run_of(each) == run
                and each.receipt.known_at <= fact.recorded_at
                and reader.can_read_receipt(each.observer, each.receipt.principal)
            ),
            derivation=tuple(chain),
            origins=tuple(self._fact(each) for each in dict.fromkeys(x.to for x in chain)),
            promotions=tuple(self._promoted(fact_id, view)),
            corrections=tuple(self._corrections(fact, view)),
            confirmations=tuple(
                ConfirmationRecord(actor=self.book.log[seq - 1].actor, at=times.from_us(at))
                for seq, at in confirmed
            ),
        )

    def impact(self, fact_id: str, reader: AuditReader, *, limit: int) -> Impact | None:
        self._check()
        if not self.visible(fact_id, reader.view):
            return None
        recalls = [
            RecallExposure(
                receipt=each.receipt.id, principal=each.receipt.principal, scope=each.observer,
                run=each.receipt.run, at=each.receipt.known_at,
            )
            for each in reversed(self._receipts.values())
            if fact_id in each.receipt.facts
            and reader.can_read_receipt(each.observer, each.receipt.principal)
        ]  # fmt: skip
        return Impact(
            fact=fact_id,
            recalls=tuple(recalls[:limit]),
            runs=tuple(dict.fromkeys(each.run for each in recalls if each.run)),
            derived=tuple(self._derived(fact_id, reader.view)),
            copies=tuple(
                each.copy_
                for each in self._promoted(fact_id, reader.view)
                if each.origin == fact_id
            ),
            usage=self._usage_of(fact_id, reader.view),
            truncated=len(recalls) > limit,
        )

    def count_usage(
        self,
        uses: Sequence[FactUsage],
        *,
        observer: str,
        actor: str,
        idempotency_key: IdempotencyKey | None = None,
    ) -> int:
        def work() -> int:
            self._scope(observer)
            for use in uses:
                self._used(use.fact_id, observer, use.kind, use.count)
            for kind in dict.fromkeys(use.kind for use in uses):
                said = [{"used": u.fact_id, "count": u.count} for u in uses if u.kind == kind]
                MemoryUnitOfWork(self).record(
                    f"usage.{kind}", scope=observer, actor=Actor(actor, "agent"), parts=said
                )
            return sum(use.count for use in uses)

        return self._once(idempotency_key, work)

    def _used(self, fact_id: str, observer: str, kind: str, count: int) -> None:
        self._usage[(self._scope_of(fact_id), observer, kind)] += count
        self._fact_usage[(fact_id, kind)] += count
        self._by_observer[(fact_id, observer, kind)] += count

    def _usage_of(self, fact_id: str, view: View) -> dict[Any, UsageCount]:
        found: dict[Any, UsageCount] = {}
        for (used, observer, kind), count in sorted(self._by_observer.items()):
            if used == fact_id and view.can_read(observer) and count:
                before = found[kind].count if kind in found else 0
                found[kind] = UsageCount(count=count + before, last_at=times.from_us(0))
        return found

    def _derivation(self, fact_id: str, view: View) -> Iterator[Link]:
        seen, level = {fact_id}, [fact_id]
        while level:
            found = [
                each
                for each in self._links_now()
                if each.from_ in level and each.type in _DERIVING and self.visible(each.to, view)
            ]
            yield from sorted(found, key=lambda each: each.id)
            level = [each.to for each in found if each.to not in seen]
            seen |= set(level)

    def _derived(self, fact_id: str, view: View) -> Iterator[str]:
        seen, level = {fact_id}, [fact_id]
        while level:
            level = sorted(
                {
                    each.from_
                    for each in self._links_now()
                    if each.to in level and each.type in _DERIVING[:2]
                    if self.visible(each.from_, view)
                }
                - seen
            )
            seen |= set(level)
            yield from level

    def _promoted(self, fact_id: str, view: View) -> Iterator[PromotionRecord]:
        for event in self.book.log:
            for part in event.remaining_parts() if event.type == "promotion.made" else ():
                ends = (part["origin"], part["copy"])
                if fact_id in ends and all(self.visible(end, view) for end in ends):
                    yield PromotionRecord(
                        origin=ends[0], copy_=ends[1], rule=part["rule"], actor=event.actor,
                        at=times.from_us(event.at),
                    )  # fmt: skip

    def _corrections(self, fact: Fact, view: View) -> Iterator[Correction]:
        versions = [*(v.fact for v in self.book.past.get(fact.id, [])), fact]
        replacing = sorted(
            each.from_
            for each in self._links_now()
            if each.to == fact.id and each.type == "supersedes" and self.visible(each.from_, view)
        )
        for version in versions:
            if version.closed_at:
                closing = [
                    event.actor
                    for event in self.book.log
                    if event.type == "fact.closed"
                    and any(part["fact"] == fact.id for part in event.remaining_parts())
                ]
                yield Correction(
                    lifecycle=version.lifecycle, reason=version.closed_reason,
                    actor=closing[-1] if closing else None, at=version.closed_at,
                    replaced_by=tuple(replacing) if version.lifecycle == "superseded" else (),
                )  # fmt: skip
