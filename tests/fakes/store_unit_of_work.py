"""The unit of work of operations on facts, in memory: what events do to dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from knowledge_client.models import Fact, ScopeConfig
from knowledge_service.domain import capacity, fact_fields
from knowledge_service.domain.fact_fields import LISTS, STORED_FIELDS
from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.event_log import fact_events, times
from knowledge_service.event_log.events import Event
from knowledge_service.fact_operations.unit_of_work import (
    ActivePromotion,
    Closer,
    Confirmation,
    Decision,
    LiveLink,
    RunExposure,
    closes,
)
from knowledge_service.ports import Actor
from knowledge_service.search.text import analyser

if TYPE_CHECKING:
    from tests.fakes.store_base import Base

_TIMES = fact_fields.TIMES | {"closed_at"}
_PLAIN = frozenset(fact_events.CHANGEABLE) - _TIMES - {"closed_by"}
_ENDS = ("fact", "from", "to", "origin", "copy")


@dataclass
class Version:
    """A fact as it was known from `since` on, until the event `until_seq`."""

    since: int
    until: int
    until_seq: int
    fact: Fact


@dataclass
class Touch:
    seq: int
    op: int
    undone: bool


@dataclass
class Book:
    """What the events did, beside the facts' rows."""

    log: list[Event] = field(default_factory=list)
    scopes: dict[int, str] = field(default_factory=dict)
    touches: dict[str, list[Touch]] = field(default_factory=dict)
    past: dict[str, list[Version]] = field(default_factory=dict)
    changed_at: dict[str, int] = field(default_factory=dict)
    links: dict[str, LiveLink] = field(default_factory=dict)
    closed_links: dict[str, LiveLink] = field(default_factory=dict)
    linked_at: dict[str, int] = field(default_factory=dict)
    promotions: dict[str, ActivePromotion] = field(default_factory=dict)
    undone_promotions: dict[str, ActivePromotion] = field(default_factory=dict)
    confirmations: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def then(self, fact: Fact, known_at: datetime | None) -> Fact | None:
        """Return a fact as it was known at a moment; None when it was not yet."""
        if known_at is None:
            return fact
        if fact.recorded_at > known_at:
            return None
        at = times.to_us(known_at)
        for version in self.past.get(fact.id, []):
            if version.since <= at < version.until:
                return version.fact
        return fact


class MemoryUnitOfWork:
    """The `FactUnitOfWork` of `fact_operations` over a fake store; one for each write."""

    def __init__(self, store: Base) -> None:
        self._store = store
        self._book = store.book
        self._op: int | None = None
        self.at_us = times.to_us(store.moment())

    def begin(self) -> None:
        self._op = None

    def new_id(self) -> str:
        return self._store.make_id(times.from_us(self.at_us))

    def fact(self, fact_id: str) -> Fact | None:
        row = self._store.row(fact_id)
        return row.fact if row else None

    def equal(self, scope: str, content_hash: bytes) -> Fact | None:
        order = {"live": 0, "retracted": 1}
        rows = [r.fact for r in self._store.rows(scope) if r.content_hash == content_hash]
        rows.sort(key=lambda fact: fact.id, reverse=True)
        return min(rows, key=lambda fact: order.get(fact.lifecycle, 2), default=None)

    def decision(self, scope: str, content_hash: bytes) -> Decision | None:
        equal = [row.fact for row in self._store.rows(scope) if row.content_hash == content_hash]
        found = [each for each in map(self._decision, equal) if each]
        return max(found, key=lambda each: each.fact.id, default=None)

    def _decision(self, fact: Fact) -> Decision | None:
        if fact.review == "rejected":
            return Decision(fact, "rejected")
        standing = {each.seq for each in self._book.touches[fact.id] if not each.undone}
        is_edited = fact.lifecycle == "superseded" and any(
            part.get("fact") == fact.id and "edits" in part
            for event in self._book.log
            if event.seq in standing and event.type == "fact.reviewed"
            for part in event.remaining_parts()
        )
        if is_edited:
            return Decision(fact, "replaced")
        return Decision(fact, "approved") if fact.review == "approved" else None

    def closer(self, fact_id: str) -> Closer | None:
        for event in reversed(self._book.log):
            if event.type in {"fact.closed", "fact.archived", "fact.undone"}:
                for part in event.remaining_parts():
                    if part.get("fact") == fact_id and closes(part):
                        given = "system" if event.type == "fact.archived" else None
                        return Closer(event.actor, part.get("actor_type", given))
        return None

    def facts_by_key(self, scope: str, key_hash: bytes) -> Sequence[Fact]:
        return [
            row.fact
            for row in self._store.rows(scope)
            if row.key_hash == key_hash and row.fact.lifecycle in ("live", "superseded")
        ]

    def links(self, fact_id: str) -> Sequence[LiveLink]:
        return [each for each in self._book.links.values() if fact_id in (each.from_id, each.to_id)]

    def promotions(self, fact_id: str) -> Sequence[ActivePromotion]:
        every = self._book.promotions.values()
        return [each for each in every if fact_id in (each.origin, each.copy)]

    def copies(self, fact_id: str) -> Sequence[str]:
        book = self._book
        every = (*book.promotions.values(), *book.undone_promotions.values())
        copies = [self.fact(each.copy) for each in every if each.origin == fact_id]
        return sorted({each.id for each in copies if each and each.source.type == "promoted"})

    def confirmations(self, fact_id: str) -> Sequence[Confirmation]:
        seqs = {seq for seq, _ in self._book.confirmations.get(fact_id, [])}
        said = [
            Confirmation(event.actor, part.get("session"))
            for event in self._book.log
            if event.seq in seqs
            for part in event.remaining_parts()
            if part.get("fact") == fact_id
        ]
        return list(dict.fromkeys(said))

    def config(self, scope: str) -> ScopeConfig:
        return self._store.declared(scope) or ScopeConfig()

    def run_exposures(self, fact_id: str) -> Sequence[RunExposure]:
        return self._store.shown_in(fact_id)

    def record(
        self, kind: str, *, scope: str, actor: Actor, parts: Sequence[Mapping[str, Any]]
    ) -> None:
        event = self._append(kind, actor, parts)
        for part in event.remaining_parts():
            self._apply(event, part)
        if kind.startswith("fact."):
            self._store.wrote(scope, times.from_us(event.at))
        else:
            self._store.happened(scope)

    def create(
        self, new: NewFact, fact_id: str, *, actor: Actor, payload_additions: Mapping[str, Any]
    ) -> None:
        event = self._append("fact.recorded", actor, [{"fact": fact_id, **payload_additions}])
        now = times.from_us(event.at)
        closed = payload_additions.get("lifecycle", "live") != "live"
        values = {each.attribute: getattr(new, each.name) for each in STORED_FIELDS}
        if "valid_until" in payload_additions:
            values["valid_until"] = times.from_us(payload_additions["valid_until"])
        fact = Fact(
            **values,
            id=fact_id,
            scope=new.scope,
            lifecycle=payload_additions.get("lifecycle", "live"),
            recorded_at=now,
            closed_at=now if closed else None,
            closed_reason=payload_additions.get("closed_reason"),
        )
        self._store.add_row(fact, new.content_hash, new.key_hash, analyser.terms(new.rendering))
        self._book.changed_at[fact_id] = event.at
        self._touch(event, fact_id, undone=False)
        self._store.wrote(new.scope, now)

    def require_room(self, scope: str) -> None:
        live = sum(row.fact.lifecycle == "live" for row in self._store.rows(scope))
        if self._store.declared(scope) is None and live >= self._store.undeclared_facts:
            raise capacity.scope_full_error(scope, self._store.undeclared_facts)

    def transfer_aliases(self, old_id: str, new_id: str, *, actor: Actor) -> None:
        self._store.rename(old_id, new_id)

    def operation(self, fact_id: str) -> int | None:
        touches = self._book.touches.get(fact_id, [])
        return max((each.op for each in touches if not each.undone), default=None)

    def events(self, op: int) -> Sequence[Event]:
        return [event for event in self._book.log if event.op == op]

    def values_before(self, fact_id: str, seq: int) -> Mapping[str, Any] | None:
        for version in self._book.past.get(fact_id, []):
            if version.until_seq == seq:
                plain = {name: getattr(version.fact, name) for name in _PLAIN}
                return plain | {n: times.to_us(getattr(version.fact, n)) for n in _TIMES}
        return None

    def ended_live(self, fact_id: str) -> tuple[int | None] | None:
        live = [v for v in self._book.past.get(fact_id, []) if v.fact.lifecycle == "live"]
        return (times.to_us(live[-1].fact.valid_until),) if live else None

    def erase(self, fact_ids: Sequence[str], *, actor: Actor, reason: str) -> tuple[int, int]:
        links = events = 0
        for fact_id in fact_ids:
            gone = [each.id for each in self.links(fact_id)]
            links += len(gone)
            for link_id in gone:
                del self._book.links[link_id]
            events += len({each.seq for each in self._book.touches.pop(fact_id, [])})
            for promotion in self.promotions(fact_id):
                del self._book.promotions[promotion.id]
            for table in (self._book.past, self._book.changed_at, self._book.confirmations):
                table.pop(fact_id, None)  # type: ignore[attr-defined]
            self._store.drop_row(fact_id)
            self._store.drop_answers(fact_id)
            self._append("fact.erased", actor, [{"fact": fact_id, "reason": reason}])
        return links, events

    def _append(self, kind: str, actor: Actor, parts: Sequence[Mapping[str, Any]]) -> Event:
        own = {} if self._op is None else {"op": self._op}
        plain = tuple(json.loads(canonical({**part, **own})) for part in parts)
        event = Event(len(self._book.log) + 1, None, kind, actor.name, self.at_us, plain)
        self._book.log.append(event)
        self._op = self._op or event.seq
        return event

    def _touch(self, event: Event, fact_id: str, *, undone: bool) -> None:
        self._book.touches.setdefault(fact_id, []).append(Touch(event.seq, event.op, undone))

    def _apply(self, event: Event, part: Mapping[str, Any]) -> None:
        is_undo = "undoes" in part
        for name in _ENDS:
            if name in part and self.fact(part[name]):
                is_named = name == "to" and event.is_link_alone
                self._touch(event, part[name], undone=is_undo or is_named)
        if is_undo:
            self._mark_undone(part)
        if event.type.startswith("fact."):
            self._change(event, part)
        elif event.type.startswith("link."):
            self._link(event, part)
        elif event.type.startswith("promotion."):
            self._promote(event, part)

    def _mark_undone(self, part: Mapping[str, Any]) -> None:
        for fact_id, touches in self._book.touches.items():
            for each in touches:
                alone = part.get("alone") and fact_id != part["fact"]
                if each.op == part["undoes"] and not alone:
                    each.undone = True

    def _change(self, event: Event, part: Mapping[str, Any]) -> None:
        row = self._store.row(part["fact"])
        assert row is not None
        if event.type == "fact.confirmed":
            said = self._book.confirmations.setdefault(row.fact.id, [])
            said.append((event.seq, event.at))
        if "unsaid" in part:
            said = self._book.confirmations.get(row.fact.id, [])
            said[:] = [each for each in said if each[0] != part["unsaid"]]
        given = dict(part.get("set", {}))
        given.pop("closed_by", None)
        for name in _TIMES:
            if name in given:
                given[name] = times.from_us(given[name])
        for name in LISTS:
            if name in given:
                given[name] = tuple(given[name])
        new = row.fact.model_copy(update=given)
        if new == row.fact:
            return
        since = self._book.changed_at[row.fact.id]
        past = self._book.past.setdefault(row.fact.id, [])
        past.append(Version(since, event.at, event.seq, row.fact))
        self._book.changed_at[row.fact.id] = event.at
        row.fact = new.model_copy(update={"version": row.fact.version + 1})

    def _link(self, event: Event, part: Mapping[str, Any]) -> None:
        book = self._book
        match event.type:
            case "link.made":
                made = LiveLink(part["id"], part["from"], part["to"], part["type"])
                book.links[made.id] = made
                book.linked_at[made.id] = event.at
            case "link.closed":
                book.closed_links[part["id"]] = book.links.pop(part["id"])
            case _:
                book.links[part["id"]] = book.closed_links.pop(part["id"])

    def _promote(self, event: Event, part: Mapping[str, Any]) -> None:
        book = self._book
        match event.type:
            case "promotion.made":
                made = ActivePromotion(part["id"], part["origin"], part["copy"])
                book.promotions[made.id] = made
            case "promotion.undone":
                book.undone_promotions[part["id"]] = book.promotions.pop(part["id"])
            case _:
                book.promotions[part["id"]] = book.undone_promotions.pop(part["id"])
