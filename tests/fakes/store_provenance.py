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
    NO_CONTEXT,
    Actor,
    AuditReader,
    FactUsage,
    IdempotencyKey,
    UsageContext,
)
from tests.fakes.store_names import Names
from tests.fakes.store_runs import Runs
from tests.fakes.store_unit_of_work import MemoryUnitOfWork

_DERIVING = ("derived_from", "promoted_from", "supersedes")


class Provenance(Names, Runs):
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
                receipt.receipt
                for receipt in self._receipts.values()
                if run
                and self._run_of(receipt) == run
                and receipt.receipt.known_at <= fact.recorded_at
                and reader.can_read_receipt(receipt.observer, receipt.receipt.principal)
            ),
            derivation=tuple(chain),
            origins=tuple(self._fact(receipt) for receipt in dict.fromkeys(x.to for x in chain)),
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
                receipt=item.receipt.id, principal=item.receipt.principal, scope=item.observer,
                run=item.receipt.run, at=item.receipt.known_at,
            )
            for item in reversed(self._receipts.values())
            if fact_id in item.receipt.facts
            and reader.can_read_receipt(item.observer, item.receipt.principal)
        ]  # fmt: skip
        return Impact(
            fact=fact_id,
            recalls=tuple(recalls[:limit]),
            runs=tuple(dict.fromkeys(item.run for item in recalls if item.run)),
            derived=tuple(self._derived(fact_id, reader.view)),
            copies=tuple(
                item.copy_
                for item in self._promoted(fact_id, reader.view)
                if item.origin == fact_id
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
        context: UsageContext = NO_CONTEXT,
        idempotency_key: IdempotencyKey | None = None,
    ) -> int:
        place = {name: value for name, value in vars(context).items() if value is not None}

        def work() -> int:
            self._scope(observer)
            for use in uses:
                self._used(use.fact_id, observer, use.kind, use.count)
            for kind in dict.fromkeys(use.kind for use in uses):
                messages = [
                    {"used": u.fact_id, "count": u.count, **place} for u in uses if u.kind == kind
                ]
                MemoryUnitOfWork(self).record(
                    f"usage.{kind}", scope=observer, actor=Actor(actor, "agent"), parts=messages
                )
            return sum(use.count for use in uses)

        return self._once(idempotency_key, work)

    def _used(self, fact_id: str, observer: str, kind: str, count: int) -> None:
        self._usage[(self._scope_of(fact_id), observer, kind)] += count
        self._fact_usage[(fact_id, kind)] += count
        self._by_observer[(fact_id, observer, kind)] += count

    def _usage_of(self, fact_id: str, view: View) -> dict[Any, UsageCount]:
        usage_counts: dict[Any, UsageCount] = {}
        for (usage, observer, kind), count in sorted(self._by_observer.items()):
            if usage == fact_id and view.can_read(observer) and count:
                initial_state = usage_counts[kind].count if kind in usage_counts else 0
                usage_counts[kind] = UsageCount(
                    count=count + initial_state, last_at=times.from_us(0)
                )
        return usage_counts

    def _derivation(self, fact_id: str, view: View) -> Iterator[Link]:
        observed, level = {fact_id}, [fact_id]
        while level:
            links = [
                link
                for link in self._links_now()
                if link.from_ in level and link.type in _DERIVING and self.visible(link.to, view)
            ]
            yield from sorted(links, key=lambda link: link.id)
            level = [link.to for link in links if link.to not in observed]
            observed |= set(level)

    def _derived(self, fact_id: str, view: View) -> Iterator[str]:
        seen, level = {fact_id}, [fact_id]
        while level:
            level = sorted(
                {
                    link.from_
                    for link in self._links_now()
                    if link.to in level and link.type in _DERIVING[:2]
                    if self.visible(link.from_, view)
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
