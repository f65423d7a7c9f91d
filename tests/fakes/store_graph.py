"""Links, names, provenance, usage, the stream and the audit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from knowledge_client.models import (
    Alias,
    AliasIn,
    AuditEntry,
    Confirmed,
    Correction,
    Fact,
    Impact,
    Link,
    Linked,
    LinkPage,
    Neighbor,
    Neighborhood,
    Promoted,
    Remembered,
    Served,
    UsageCount,
    Why,
)
from knowledge_service.domain import aliases
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.visibility import Reach, View
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.ports import (
    Actor,
    Acts,
    Around,
    AuditPlace,
    Change,
    Changes,
    NewLink,
    Once,
    Reader,
    Use,
)
from knowledge_service.store import times
from knowledge_service.store.event import Event
from tests.fakes.store_base import Base
from tests.fakes.store_desk import MemoryDesk

_DERIVING = ("derived_from", "promoted_from", "supersedes")


class Graph(Base):
    """The `LinkStore`, `ProvenanceStore`, `UsageStore` and `ChangeStore` ports."""

    def link(self, new: NewLink, view: View, *, actor: Actor, once: Once | None = None) -> Linked:
        def work() -> Linked:
            for end in (new.from_id, new.to_id):
                if not self.visible(end, view):
                    raise NotFound(f"fact {end} does not exist or is not visible to you")
            key = (new.from_id, new.to_id, new.type)
            live = [each for each in self._links_now() if (each.from_, each.to, each.type) == key]
            if live:
                return Linked(status="exists", link=live[0])
            desk = MemoryDesk(self)
            said = {
                "id": desk.new_id(), "from": new.from_id, "to": new.to_id, "type": new.type,
                "weight": new.weight, "data": new.data, "valid_from": times.to_us(new.valid_from),
                "valid_until": times.to_us(new.valid_until),
            }  # fmt: skip
            desk.record("link.made", scope=self._scope_of(new.from_id), actor=actor, parts=[said])
            made = next(each for each in self._links_now() if each.id == said["id"])
            return Linked(status="created", link=made)

        return self._once(once, work)

    def unlink(self, from_id: str, to_id: str, kind: str, *, actor: Actor) -> bool:
        with self._lock:
            self._check()
            for each in self._links_now():
                if (each.from_, each.to, each.type) == (from_id, to_id, kind):
                    said = {"id": each.id, "from": from_id, "to": to_id}
                    scope = self._scope_of(from_id)
                    MemoryDesk(self).record("link.closed", scope=scope, actor=actor, parts=[said])
                    return True
            return False

    def links_of(self, fact_id: str, view: View) -> list[Link]:
        """Return live and closed links whose ends are both seen, the newest first."""
        found = [
            each
            for each in self._every_link()
            if fact_id in (each.from_, each.to)
            and self.visible(each.from_, view)
            and self.visible(each.to, view)
        ]
        return sorted(found, key=lambda each: each.id, reverse=True)

    def links(
        self, fact_id: str, view: View, *, types: Sequence[str], before: str | None, limit: int
    ) -> LinkPage:
        self._check()
        found = [
            each
            for each in self.links_of(fact_id, view)
            if (not types or each.type in types) and (before is None or each.id < before)
        ]
        page = tuple(found[:limit])
        return LinkPage(links=page, cursor=page[-1].id if len(found) > limit else None)

    def neighbors(self, around: Around, view: View) -> Neighborhood:
        self._check()
        live = [
            each
            for each in self._links_now()
            if (not around.types or each.type in around.types)
            and self._walkable(each.from_, view)
            and self._walkable(each.to, view)
        ]
        seen, level = {around.fact_id}, [around.fact_id]
        order: list[tuple[int, str]] = []
        for depth in range(1, around.depth + 1):
            ends = {each.to for each in live if each.from_ in level}
            ends |= {each.from_ for each in live if each.to in level}
            level = sorted(ends - seen)
            seen |= set(level)
            order += [(depth, each) for each in level]
        chosen = order[: around.limit]
        among = {around.fact_id, *(fact for _, fact in chosen)}
        return Neighborhood(
            facts=tuple(Neighbor(depth=d, fact=self._fact(each)) for d, each in chosen),
            links=tuple(
                sorted(
                    (each for each in live if {each.from_, each.to} <= among),
                    key=lambda each: each.id,
                )
            ),
            truncated=len(order) > around.limit,
        )

    def named(self, name: Name, view: View) -> tuple[tuple[str, str], ...]:
        self._check()
        return tuple(
            (scope, fact_id)
            for (scope, namespace, value), fact_id in sorted(self._names.items())
            if (namespace, value) == (name.namespace, name.value) and view.sees(scope)
        )

    def name_all(
        self, facts: Sequence[NewFact], stored: Sequence[Remembered]
    ) -> tuple[Remembered, ...]:
        """Give facts that were just stored their names, all or none."""
        names, last = dict(self._names), dict(self._sequences)
        try:
            return tuple(
                one.model_copy(
                    update={"aliases": tuple(self._give(new, a, one.fact_id) for a in new.aliases)}
                )
                if new.aliases
                else one
                for new, one in zip(facts, stored, strict=True)
            )
        except Conflict:
            self._names, self._sequences = names, last
            raise

    def _give(self, new: NewFact, wanted: AliasIn, fact_id: str) -> Alias:
        prefix, value = wanted.prefix or "", wanted.value
        if value is None:
            for alias in self._names_of(fact_id):
                rest = alias.value.removeprefix(prefix)
                if alias.namespace == wanted.namespace and rest.isdecimal():
                    return alias
            key = (new.scope, wanted.namespace, prefix)
            while value is None or (new.scope, wanted.namespace, value) in self._names:
                self._sequences[key] = self._sequences.get(key, 0) + 1
                value = aliases.numbered(prefix, wanted.digits, self._sequences[key])
        alias = Alias(namespace=wanted.namespace, value=value)
        holder = self._names.setdefault((new.scope, alias.namespace, alias.value), fact_id)
        if holder != fact_id:
            raise Conflict(f"{aliases.reference(alias)} is a name of fact {holder}; take another")
        return alias

    def rename(self, old_id: str, new_id: str) -> None:
        """Let a fact's names go on to its successor."""
        for key, fact_id in self._names.items():
            if fact_id == old_id:
                self._names[key] = new_id

    def why(self, fact_id: str, reader: Reader) -> Why | None:
        self._check()
        if not self.visible(fact_id, reader.view):
            return None
        fact, view = self._fact(fact_id), reader.view
        chain = list(self._derivation(fact_id, view))
        run = next(
            (
                self._runs[ref.id]
                for ref in fact.source.refs
                if ref.type == "run"
                and ref.id in self._runs
                and view.sees(self._runs[ref.id].scope)
            ),
            None,
        )
        confirmed = self.book.confirmations.get(fact_id, [])
        return Why(
            fact=fact,
            aliases=tuple(self._names_of(fact_id)),
            run=run,
            receipts=tuple(
                each.receipt
                for each in self._receipts.values()
                if run
                and each.receipt.run == run.run_id
                and each.receipt.known_at <= fact.recorded_at
                and reader.sees_receipt(each.observer, each.receipt.principal)
            ),
            derivation=tuple(chain),
            origins=tuple(self._fact(each) for each in dict.fromkeys(x.to for x in chain)),
            promotions=tuple(self._promoted(fact_id, view)),
            corrections=tuple(self._corrections(fact, view)),
            confirmations=tuple(
                Confirmed(actor=self._event(seq)[1], at=times.from_us(at)) for seq, at in confirmed
            ),
        )

    def impact(self, fact_id: str, reader: Reader, *, limit: int) -> Impact | None:
        self._check()
        if not self.visible(fact_id, reader.view):
            return None
        recalls = [
            Served(
                receipt=each.receipt.id, principal=each.receipt.principal, scope=each.observer,
                run=each.receipt.run, at=each.receipt.known_at,
            )
            for each in reversed(self._receipts.values())
            if fact_id in each.receipt.facts
            and reader.sees_receipt(each.observer, each.receipt.principal)
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
        self, uses: Sequence[Use], *, observer: str, actor: str, once: Once | None = None
    ) -> int:
        def work() -> int:
            self._scope(observer)
            for use in uses:
                self._used(use.fact_id, observer, use.kind, use.count)
            return sum(use.count for use in uses)

        return self._once(once, work)

    def _used(self, fact_id: str, observer: str, kind: str, count: int) -> None:
        self._usage[(self._scope_of(fact_id), observer, kind)] += count
        self._fact_usage[(fact_id, kind)] += count
        self._by_observer[(fact_id, observer, kind)] += count

    def _usage_of(self, fact_id: str, view: View) -> dict[Any, UsageCount]:
        found: dict[Any, UsageCount] = {}
        for (used, observer, kind), count in sorted(self._by_observer.items()):
            if used == fact_id and view.sees(observer) and count:
                before = found[kind].count if kind in found else 0
                found[kind] = UsageCount(count=count + before, last_at=times.from_us(0))
        return found

    def seal_key(self) -> bytes:
        return b"the key of the store in memory.."

    def bounds(self) -> tuple[int, int]:
        self._check()
        return 0, len(self.book.log)

    def changes(self, after: int, view: View, *, limit: int) -> Changes:
        self._check()
        found: list[Change] = []
        for event in self.book.log[after:]:
            change = self._change(event, view)
            if change:
                found.append(change)
            if len(found) == limit:
                return Changes(tuple(found), event.seq)
        return Changes(tuple(found), len(self.book.log))

    def _change(self, event: Event, view: View) -> Change | None:
        scope = self.book.scopes.get(event.seq)
        if scope is None or not view.sees(scope):
            return None
        facts: list[str] = []
        made: list[str] = []
        for part in event.known():
            ends = [part[end] for end in ("from", "to", "origin", "copy") if end in part]
            if all(self.visible(end, view) for end in ends):
                facts += [*([part["fact"]] if "fact" in part else []), *ends]
                made += [part["id"]] if event.type.startswith("link.") else []
        if not facts:
            return None
        return Change(
            event.seq, event.type, scope, event.actor, times.from_us(event.at),
            tuple(dict.fromkeys(facts)), tuple(made),
        )  # fmt: skip

    def audit(self, reaches: Sequence[Reach], before: AuditPlace | None, *, limit: int) -> Acts:
        self._check()
        acts: list[tuple[datetime, int, AuditEntry]] = []
        for event in self.book.log:
            scope = self.book.scopes.get(event.seq)
            at = times.from_us(event.at)
            if scope and any(reach.covers(scope) for reach in reaches):
                facts = [part["fact"] for part in event.known() if "fact" in part]
                entry = AuditEntry(
                    at=at, actor=event.actor, action=event.type, scope=scope,
                    facts=tuple(dict.fromkeys(facts)),
                )  # fmt: skip
                acts.append((at, 0, entry))
        for new in self._receipts.values():
            receipt = new.receipt
            if any(reach.covers(new.observer) for reach in reaches):
                entry = AuditEntry(
                    at=receipt.known_at, actor=receipt.acted_by or receipt.principal,
                    action="recall", scope=new.observer, facts=receipt.facts, run=receipt.run,
                    receipt=receipt.id,
                    on_behalf_of=receipt.principal if receipt.acted_by else None,
                )  # fmt: skip
                acts.append((receipt.known_at, 1, entry))
        acts.sort(key=lambda each: each[:2], reverse=True)
        start = before.event if before else 0
        entries = tuple(entry for _, _, entry in acts[start : start + limit])
        more = len(acts) > start + limit
        return Acts(entries, AuditPlace(start + limit, 0, "") if more else None)

    def _fact(self, fact_id: str) -> Fact:
        row = self.row(fact_id)
        assert row is not None
        return row.fact

    def _scope_of(self, fact_id: str) -> str:
        row = self.row(fact_id)
        return row.fact.scope if row else ""

    def _walkable(self, fact_id: str, view: View) -> bool:
        return self.visible(fact_id, view) and self._fact(fact_id).lifecycle == "live"

    def _names_of(self, fact_id: str) -> list[Alias]:
        return [
            Alias(namespace=namespace, value=value)
            for (_, namespace, value), named in sorted(self._names.items())
            if named == fact_id
        ]

    def _event(self, seq: int) -> tuple[Event, str]:
        event = self.book.log[seq - 1]
        return event, event.actor

    def _links_now(self) -> list[Link]:
        return [each for each in self._every_link() if each.closed_at is None]

    def _every_link(self) -> Iterator[Link]:
        closed = {
            part["id"]: times.from_us(event.at)
            for event in self.book.log
            if event.type == "link.closed"
            for part in event.known()
        }
        for event in self.book.log:
            for part in event.known() if event.type == "link.made" else ():
                is_live = part["id"] in self.book.links
                if is_live or part["id"] in self.book.closed_links:
                    yield Link(
                        id=part["id"], from_=part["from"], to=part["to"], type=part["type"],
                        weight=part.get("weight"), data=part.get("data"),
                        valid_from=times.from_us(part.get("valid_from")),
                        valid_until=times.from_us(part.get("valid_until")),
                        recorded_at=times.from_us(event.at), actor=event.actor,
                        closed_at=None if is_live else closed[part["id"]],
                    )  # fmt: skip

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

    def _promoted(self, fact_id: str, view: View) -> Iterator[Promoted]:
        for event in self.book.log:
            for part in event.known() if event.type == "promotion.made" else ():
                ends = (part["origin"], part["copy"])
                if fact_id in ends and all(self.visible(end, view) for end in ends):
                    yield Promoted(
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
                    and any(part["fact"] == fact.id for part in event.known())
                ]
                yield Correction(
                    lifecycle=version.lifecycle, reason=version.closed_reason,
                    actor=closing[-1] if closing else None, at=version.closed_at,
                    replaced_by=tuple(replacing) if version.lifecycle == "superseded" else (),
                )  # fmt: skip
