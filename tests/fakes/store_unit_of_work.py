"""The unit of work of operations on facts, in memory: what events do to dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from knowledge_client.models import Alias, Fact, ScopeConfig
from knowledge_service.domain import capacity, fact_fields
from knowledge_service.domain.fact_fields import LISTS, STORED_FIELDS
from knowledge_service.domain.facts import NewFact, canonical
from knowledge_service.event_log import fact_events, times
from knowledge_service.event_log.events import Event, is_reference
from knowledge_service.fact_transactions.unit_of_work import (
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
    roots: dict[str, str] = field(default_factory=dict)
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
    """The `FactUnitOfWork` of `fact_transactions` over a fake store; one for each write."""

    def __init__(self, store: Base) -> None:
        self._store = store
        self._book = store.book
        self._op: int | None = None
        self._acts: int | None = None
        self.at_us = times.to_us(store.moment())

    def begin(self, *, acts: int | None = None) -> None:
        self._op, self._acts = None, acts

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
        decisions = [item for item in map(self._decision, equal) if item]
        return max(decisions, key=lambda item: item.fact.id, default=None)

    def _decision(self, fact: Fact) -> Decision | None:
        if fact.review == "rejected":
            return Decision(fact, "rejected")
        seqs = {touch.seq for touch in self._book.touches[fact.id] if not touch.undone}
        is_edited = fact.lifecycle == "superseded" and any(
            part.get("fact") == fact.id and "edits" in part
            for event in self._book.log
            if event.seq in seqs and event.type == "fact.reviewed"
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
                        text = "system" if event.type == "fact.archived" else None
                        return Closer(event.actor, part.get("actor_type", text))
        return None

    def facts_by_key(self, scope: str, key_hash: bytes) -> Sequence[Fact]:
        return [
            row.fact
            for row in self._store.rows(scope)
            if row.key_hash == key_hash and row.fact.lifecycle in ("live", "superseded")
        ]

    def links(self, fact_id: str) -> Sequence[LiveLink]:
        return [link for link in self._book.links.values() if fact_id in (link.from_id, link.to_id)]

    def live_link(self, from_id: str, to_id: str, kind: str) -> LiveLink | None:
        key = (from_id, to_id, kind)
        links = self._book.links.values()
        return next((link for link in links if (link.from_id, link.to_id, link.type) == key), None)

    def is_link_live(self, link_id: str) -> bool:
        return link_id in self._book.links

    def root(self, fact_id: str) -> str:
        return self._book.roots.get(fact_id, fact_id)

    def promotions(self, fact_id: str) -> Sequence[ActivePromotion]:
        dict_values = self._book.promotions.values()
        return [
            promotion for promotion in dict_values if fact_id in (promotion.origin, promotion.copy)
        ]

    def copies(self, fact_id: str) -> Sequence[str]:
        book = self._book
        promotions = (*book.promotions.values(), *book.undone_promotions.values())
        copies = [self.fact(each.copy) for each in promotions if each.origin == fact_id]
        return sorted({each.id for each in copies if each and each.source.type == "promoted"})

    def confirmations(self, fact_id: str) -> Sequence[Confirmation]:
        seqs = {seq for seq, _ in self._book.confirmations.get(fact_id, [])}
        reported_confirmations = [
            Confirmation(event.actor, part.get("session"))
            for event in self._book.log
            if event.seq in seqs
            for part in event.remaining_parts()
            if part.get("fact") == fact_id
        ]
        return list(dict.fromkeys(reported_confirmations))

    def config(self, scope: str) -> ScopeConfig:
        return self._store.declared(scope) or ScopeConfig()

    def run_exposures(self, fact_id: str) -> Sequence[RunExposure]:
        return self._store.shown_in(fact_id)

    def record(
        self, kind: str, *, scope: str, actor: Actor, parts: Sequence[Mapping[str, Any]]
    ) -> None:
        event = self._append(kind, actor, parts)
        for part in event.remaining_parts():
            self._apply(event, part, scope)
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
        values = {
            stored_field.attribute: getattr(new, stored_field.name)
            for stored_field in STORED_FIELDS
        }
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
        if "root" in payload_additions:
            self._book.roots[fact_id] = payload_additions["root"]
        self._touch(event, fact_id, undone=False)
        self._store.wrote(new.scope, now)

    def require_room(self, scope: str) -> None:
        live = sum(row.fact.lifecycle == "live" for row in self._store.rows(scope))
        if self._store.declared(scope) is None and live >= self._store.undeclared_facts:
            raise capacity.scope_full_error(scope, self._store.undeclared_facts)

    def transfer_aliases(self, old_id: str, new_id: str, *, actor: Actor) -> None:
        for scope, namespace, value in self._store.names_of(old_id):
            part = {"namespace": namespace, "value": value, "fact": new_id, "was": old_id}
            self.record("alias.set", scope=scope, actor=actor, parts=[part])

    def aliases(self, fact_id: str) -> Sequence[Alias]:
        return [Alias(namespace=n, value=v) for _, n, v in self._store.names_of(fact_id)]

    def alias_holder(self, scope: str, alias: Alias) -> Fact | None:
        holder = self._store.named_fact((scope, alias.namespace, alias.value))
        return self.fact(holder) if holder else None

    def alias_holders_in_realm(self, realm: str, alias: Alias) -> Sequence[Fact]:
        holders = self._store.named_facts(realm, alias.namespace, alias.value)
        facts = (self.fact(holder) for holder in holders)
        return [fact for fact in facts if fact and fact.lifecycle != "retracted"]

    def last_number_in_realm(self, realm: str, namespace: str, prefix: str) -> int:
        return self._store.last_number_in_realm(realm, namespace, prefix)

    def last_number(self, scope: str, namespace: str, prefix: str) -> int:
        return self._store.last_number(scope, namespace, prefix)

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
            deleted_names = [each.id for each in self.links(fact_id)]
            links += len(deleted_names)
            for link_id in deleted_names:
                del self._book.links[link_id]
            events += len({each.seq for each in self._book.touches.pop(fact_id, [])})
            for promotion in self.promotions(fact_id):
                del self._book.promotions[promotion.id]
            for table in (self._book.past, self._book.changed_at, self._book.confirmations):
                table.pop(fact_id, None)
            self._store.drop_row(fact_id)
            self._store.drop_answers(fact_id)
            self._append("fact.erased", actor, [{"fact": fact_id, "reason": reason}])
        return links, events

    def _append(self, kind: str, actor: Actor, parts: Sequence[Mapping[str, Any]]) -> Event:
        own = {} if self._op is None else {"op": self._op}
        if self._op is None and self._acts is not None:
            own = {"acts": self._acts}
        plain = tuple(json.loads(canonical({**part, **own})) for part in parts)
        event = Event(len(self._book.log) + 1, None, kind, actor.name, self.at_us, plain)
        self._book.log.append(event)
        self._op = self._op or event.seq
        return event

    def _touch(self, event: Event, fact_id: str, *, undone: bool) -> None:
        self._book.touches.setdefault(fact_id, []).append(Touch(event.seq, event.op, undone))

    def _apply(self, event: Event, part: Mapping[str, Any], scope: str) -> None:
        is_undo = "undoes" in part
        is_name = event.type.startswith("alias.")
        for name in (*_ENDS, "was") if is_name and "of" in part else _ENDS:
            if name in part and self.fact(part[name]):
                is_plain_name = is_name and "of" not in part
                is_reference_only = is_plain_name or is_reference(event, part, name)
                self._touch(event, part[name], undone=is_undo or is_reference_only)
        if is_undo:
            self._mark_undone(part)
        if event.type.startswith("fact."):
            self._change(event, part)
        elif event.type.startswith("link."):
            self._link(event, part)
        elif event.type.startswith("promotion."):
            self._promote(event, part)
        elif is_name or event.type == "sequence.taken":
            self._name(event, part, scope)

    def _name(self, event: Event, part: Mapping[str, Any], scope: str) -> None:
        if event.type == "sequence.taken":
            self._store.take_number(scope, part["namespace"], part["prefix"], part["last"])
        else:
            holder = part["fact"] if event.type == "alias.set" else None
            self._store.set_name((scope, part["namespace"], part["value"]), holder)

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
            messages = self._book.confirmations.setdefault(row.fact.id, [])
            messages.append((event.seq, event.at))
        if "unsaid" in part:
            messages = self._book.confirmations.get(row.fact.id, [])
            messages[:] = [items for items in messages if items[0] != part["unsaid"]]
        fields = dict(part.get("set", {}))
        fields.pop("closed_by", None)
        for name in _TIMES:
            if name in fields:
                fields[name] = times.from_us(fields[name])
        for name in LISTS:
            if name in fields:
                fields[name] = tuple(fields[name])
        new = row.fact.model_copy(update=fields)
        if new == row.fact:
            return
        since = self._book.changed_at[row.fact.id]
        versions = self._book.past.setdefault(row.fact.id, [])
        versions.append(Version(since, event.at, event.seq, row.fact))
        self._book.changed_at[row.fact.id] = event.at
        row.fact = new.model_copy(update={"version": row.fact.version + 1})

    def _link(self, event: Event, part: Mapping[str, Any]) -> None:
        book = self._book
        match event.type:
            case "link.made":
                link = LiveLink(
                    part["id"], part["from"], part["to"], part["type"], part.get("weight"),
                    part.get("data"), times.from_us(part.get("valid_from")),
                    times.from_us(part.get("valid_until")),
                )  # fmt: skip
                book.links[link.id] = link
                book.linked_at[link.id] = event.at
            case "link.closed":
                book.closed_links[part["id"]] = book.links.pop(part["id"])
            case _:
                book.links[part["id"]] = book.closed_links.pop(part["id"])

    def _promote(self, event: Event, part: Mapping[str, Any]) -> None:
        book = self._book
        match event.type:
            case "promotion.made":
                promotion = ActivePromotion(part["id"], part["origin"], part["copy"])
                book.promotions[promotion.id] = promotion
            case "promotion.undone":
                book.undone_promotions[part["id"]] = book.promotions.pop(part["id"])
            case _:
                book.promotions[part["id"]] = book.undone_promotions.pop(part["id"])
