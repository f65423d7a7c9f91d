"""Erases facts from the log without breaking the hash chain.

The events about a fact contain its text. So do two other places: the edits of the review that
created it, in an event about its predecessor; and its aliases, in events about facts that had them
before. The review is recorded again without its edits. An alias is erased with its last holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_service.event_log import event_payloads, fact_events, legacy_rows
from knowledge_service.event_log.events import LogEntry, PendingEvent
from knowledge_service.event_log.store_ports import FactReferences, LogTable

_NUMBERS = ("fact_no", "from_no", "to_no", "origin_no", "copy_no")
_IDS = ("fact", "from", "to", "origin", "copy")
NAME_RESTATED = "alias.restated"
"""Links the holder of a name with the fact that had it before."""
_NAME_EVENTS = ("alias.set", "alias.removed", NAME_RESTATED)
_WITH_FACT = (fact_events.RECORDED, fact_events.CONFIRMED)
Part = Mapping[str, Any]


@dataclass(frozen=True)
class ErasableFact:
    """The fact to erase: its id, its number and the number of its scope."""

    id: str
    number: int
    scope_no: int


@dataclass(frozen=True)
class ErasedAlias:
    """An erased alias, and the facts that had it."""

    alias: Part
    holders: frozenset[str]


@dataclass
class FactErasure:
    """Erases one fact from the payloads of the log; the caller updates projections and index."""

    log: LogTable
    references: FactReferences
    fact: ErasableFact
    text: str = ""
    """The text that the fact was indexed by."""
    touched: set[int] = field(default_factory=set)
    """Events of which a part was erased."""
    aliases: list[ErasedAlias] = field(default_factory=list)
    _names: list[tuple[int, Part]] = field(default_factory=list)
    """Names that others hold now, with the fact that had each before the erased one."""
    _recorded: tuple[int, int] | None = None
    """The event that recorded the fact, and the index of its part."""
    _emptied: set[int] = field(default_factory=set)
    """Events with no part left."""
    _detached: list[tuple[int, int]] = field(default_factory=list)
    """Events with no part left about another fact, and the number of that fact."""
    _restated: list[tuple[int | None, Part]] = field(default_factory=list)

    def erase(self) -> None:
        """Erase the text of the fact from every payload that contains it."""
        # First, because the fact's aliases identify the facts that had them earlier.
        for namespace, value in self.references.aliases(self.fact.number):
            self._erase_alias({"namespace": namespace, "value": value})
        self._pass_on_former_names()
        operations = self.references.operations(self.fact.number)
        reviews = self._reviews_with_edits(operations)
        for seq, _ in operations:
            self._erase_in(seq, with_edits=seq in reviews)
        if self._recorded is None:
            for seq in self.references.legacy_events():
                self._erase_in(seq, with_edits=False)

    def events(self, *, actor: str, reason: str) -> Iterator[tuple[str, PendingEvent]]:
        """Yield the events to append, by type: the erasure, and the reviews without their edits."""
        part: dict[str, Any] = {
            "fact": self.fact.id, "scope": self.fact.scope_no, "events": sorted(self._emptied),
            "reason": reason, "number": self.fact.number, "detached": self._detached,
        }  # fmt: skip
        if self._recorded:
            part["recorded"] = self._recorded
        yield fact_events.ERASED, PendingEvent(self.fact.scope_no, actor, [part])
        for scope_no, review in self._restated:
            yield fact_events.RESTATED, PendingEvent(scope_no, actor, [review])
        for scope_no, name in self._names:
            yield NAME_RESTATED, PendingEvent(scope_no, actor, [name])

    def _pass_on_former_names(self) -> None:
        """Link the holder before the fact with the current one, for each name that the fact lost.

        The erasure of the current holder follows these links. A name without a holder is erased
        now. The fact may have lost the name in another scope, from which it was moved since.
        """
        for seq in self.references.events_about(self.fact.id):
            entry = self._entry(seq)
            if entry is None or entry.row.type not in _NAME_EVENTS:
                continue
            for _, part in _parts_containing(entry, (b'"namespace":',)):
                alias = {name: part[name] for name in ("namespace", "value")}
                holder = self.references.alias_holder(self.fact.scope_no, *alias.values())
                if part.get("fact") != self.fact.id or holder == self.fact.id:
                    continue
                if holder is None:
                    self._erase_alias(alias)
                elif part.get("was"):
                    former = {**alias, "fact": holder, "was": part["was"]}
                    self._names.append((self.fact.scope_no, former))

    def _reviews_with_edits(self, operations: Sequence[tuple[int, int]]) -> set[int]:
        """Return the reviews whose edits became the fact's text in the same operation."""
        recording, reviews = set(), []
        for seq, op in operations:
            entry = self._entry(seq)
            if entry and entry.row.type == fact_events.REVIEWED:
                reviews.append((seq, op))
            elif entry and entry.row.type in _WITH_FACT and any(self._parts(entry)):
                recording.add(op)
        return {seq for seq, op in reviews if op in recording}

    def _entry(self, seq: int) -> LogEntry | None:
        """Return the entry of an event, or None if it has no payload."""
        return next((entry for entry in self.log.entries(seq, seq) if entry.payload), None)

    def _parts(self, entry: LogEntry) -> Iterator[tuple[int, Part]]:
        """Yield the parts about the fact, with their indexes."""
        patterns = (self.fact.id.encode(), b'_no":%d' % self.fact.number)
        for part_index, part in _parts_containing(entry, patterns):
            if self._is_about_fact(part):
                yield part_index, part

    def _is_about_fact(self, part: Part) -> bool:
        if "table" in part:
            return self.fact.number in [part["row"].get(name) for name in _NUMBERS]
        return self.fact.id in [part.get(name) for name in _IDS]

    def _erase_in(self, seq: int, *, with_edits: bool) -> None:
        entry = self._entry(seq)
        if entry is None:
            return
        parts = dict(self._parts(entry))
        for part_index, part in parts.items():
            self._remember_text(entry, part_index, part)
        if with_edits:
            for part_index, part in _parts_containing(entry, (b'"edits":',)):
                if part_index not in parts:
                    parts[part_index] = part
                    self._restate(entry, part)
        self._erase_parts(entry, parts)

    def _remember_text(self, entry: LogEntry, part_index: int, part: Part) -> None:
        if entry.row.type == fact_events.RECORDED:
            self._recorded = (entry.row.seq, part_index)
            self.text = fact_events.index_text(part)[1]
        elif entry.row.type == legacy_rows.TYPE:
            document = legacy_rows.index_text(part)
            if document:
                self._recorded, self.text = (entry.row.seq, part_index), document[2]

    def _restate(self, entry: LogEntry, part: Part) -> None:
        row = entry.row
        review = {name: part[name] for name in ("fact", "decision", "actor_type", "reason")}
        in_force = self.references.is_review_in_force(row.seq, part["fact"])
        review |= {"seq": row.seq, "at": row.at, "by": row.actor, "stands": in_force}
        # The edits still replaced the original text.
        review["edited"] = True
        self._restated.append((row.scope_no, review))

    def _erase_alias(self, alias: Part) -> None:
        """Erase an alias from the events of the facts that had it earlier.

        These are of one scope now, but an event has the scope in which its fact was then.
        """
        pending, holders = [self.fact.id], set()
        while pending:
            holder = pending.pop()
            holders.add(holder)
            for seq in self.references.events_about(holder):
                entry = self._entry(seq)
                if entry is None or entry.row.type not in _NAME_EVENTS:
                    continue
                parts = {
                    part_index: part
                    for part_index, part in _parts_containing(entry, (b'"namespace":',))
                    if all(part[key] == alias[key] for key in alias)
                }
                previous = {part["was"] for part in parts.values() if part.get("was")}
                pending += previous - holders
                self._erase_parts(entry, parts)
        self.aliases.append(ErasedAlias(alias, frozenset(holders)))

    def _erase_parts(self, entry: LogEntry, parts: Mapping[int, Part]) -> None:
        if not parts or entry.payload is None:
            return
        seq = entry.row.seq
        self.touched.add(seq)
        remainder = event_payloads.without_parts(entry.payload, parts.keys())
        if remainder is None:
            self.log.delete_payload(seq)
            self._emptied.add(seq)
            return
        self.log.replace_payload(seq, remainder)
        ids = {fact_id for part in parts.values() for fact_id in _fact_ids(part)}
        for other_id in sorted(ids - {self.fact.id}):
            if not any(event_payloads.parts_containing(remainder, (other_id.encode(),))):
                numbers = self.references.fact_numbers(other_id)
                self._detached += [(seq, number) for number in numbers]


def _parts_containing(entry: LogEntry, patterns: Sequence[bytes]) -> Iterable[tuple[int, Part]]:
    return event_payloads.parts_containing(entry.payload, patterns) if entry.payload else ()


def _fact_ids(part: Part) -> Iterator[str]:
    return (part[name] for name in _IDS if isinstance(part.get(name), str))
