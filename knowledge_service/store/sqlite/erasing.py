"""Takes facts out of payloads, index and tables. The chain of hashes stays whole.

The words of a fact stand in the events about it, and in two more places: the edits of the review
that it came from, in an event about the fact before it, and its names, in events about facts that
had them before. The review is recorded again without its edits; a name goes with its last holder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_service.event_log import event_payloads
from knowledge_service.store.sqlite.projections import facts, kept
from knowledge_service.store.sqlite.transaction import Transaction

_FIND = "SELECT fact_no, scope_no, content_hash FROM fact WHERE id = ?"
_NUMBERS_OF = """SELECT n.value, f.fact_no FROM json_each(?) n JOIN fact f ON f.id = n.value"""
_LINKS = "SELECT count(*) FROM link WHERE from_no = ?1 OR to_no = ?1"
# All events of the operations that it was a part of: a review's edits are in one about another.
_ABOUT = """SELECT seq, op FROM fact_event WHERE op IN (
    SELECT op FROM fact_event WHERE fact_no = ?1) GROUP BY seq ORDER BY seq"""
_OF = "SELECT seq FROM fact_event f JOIN fact USING(fact_no) WHERE id = ? ORDER BY seq"
_NAMED = "SELECT scope_no, namespace, value FROM alias WHERE fact_no = ?"
_KEPT = """SELECT seq FROM event WHERE type = ?1
  AND seq >= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'replay_from') ORDER BY seq"""
_HAS_KEPT = "SELECT 1 FROM meta WHERE key = 'replay_from'"
_EVENT = """SELECT e.type, e.scope_no, e.actor, e.at, p.salt, p.bytes FROM event e
  JOIN payload p USING(seq) WHERE e.seq = ?"""
_STANDS = "SELECT 1 FROM review WHERE seq = ? AND fact_no = (SELECT fact_no FROM fact WHERE id = ?)"
_REWRITE = "UPDATE payload SET salt = ?, bytes = ? WHERE seq = ?"
_DROP = "DELETE FROM payload WHERE seq = ?"
_FORGET_RUNS = "DELETE FROM fact_run WHERE fact_no = ?"
# An answer that is kept for a repeat may hold the fact itself; one that names it only may stay.
_FORGET_ANSWERS = """DELETE FROM idempotency WHERE (principal, key) IN (
  SELECT principal, key FROM idempotency INDEXED BY idempotency_content
  WHERE instr(response, '"content":') > 0 AND instr(response, ?) > 0)"""
_NAMED_ANSWERS = """SELECT principal, key, response FROM idempotency
  INDEXED BY idempotency_named
  WHERE instr(response, '"namespace":') > 0 AND instr(response, ?) > 0"""
_REWRITE_ANSWER = "UPDATE idempotency SET response = ? WHERE principal = ? AND key = ?"
_IS_THERE = "SELECT 1 FROM fact WHERE id = ?"
_NUMBERS = ("fact_no", "from_no", "to_no", "origin_no", "copy_no")
_NAMES = ("fact", "from", "to", "origin", "copy")
_FACT_EVENTS = ("fact.recorded", "fact.confirmed")
_REVIEWED = "fact.reviewed"
Part = Mapping[str, Any]


def erase(tx: Transaction, fact_ids: Sequence[str], *, actor: str, reason: str) -> tuple[int, int]:
    """Erase facts; return how many links and events went with them."""
    links, touched = 0, set()
    for fact_id in fact_ids:
        row = tx.one(_FIND, (fact_id,))
        if row is None:
            continue
        fact_no, scope_no, content_hash = row
        links += int((tx.one(_LINKS, (fact_no,)) or (0,))[0])
        log = _Log(tx, fact_id, fact_no)
        log.erase()
        touched |= log.touched
        tx.unindex(scope_no, fact_no, log.text)
        tx.equals.erase(scope_no, fact_no, content_hash)
        tx.execute(_FORGET_RUNS, (fact_no,))
        tx.execute(_FORGET_ANSWERS, (fact_id,))
        payload = {
            "fact": fact_id, "scope": scope_no, "events": sorted(log.emptied), "reason": reason,
            "number": fact_no, "detached": log.detached,
        }  # fmt: skip
        if log.recorded:
            payload["recorded"] = log.recorded
        tx.record("fact.erased", scope_no=scope_no, actor=actor, parts=[payload])
        for scope, part in log.restated:
            tx.record(facts.RESTATED, scope_no=scope, actor=actor, parts=[part])
    return links, len(touched)


@dataclass(frozen=True)
class _Row:
    seq: int
    type: str
    scope_no: int | None
    actor: str
    at: int
    sealed: event_payloads.StoredPayload


@dataclass
class _Log:
    """The log's events about one fact, and the changes made to them."""

    tx: Transaction
    fact_id: str
    fact_no: int
    text: str = ""
    """What the fact was indexed by."""
    recorded: tuple[int, int] | None = None
    """The event that recorded it, and the place of its part."""
    emptied: set[int] = field(default_factory=set)
    """Events of which nothing is left."""
    touched: set[int] = field(default_factory=set)
    detached: list[tuple[int, int]] = field(default_factory=list)
    """Events of which nothing is left about another fact, and the number of that."""
    restated: list[tuple[int | None, Part]] = field(default_factory=list)

    def erase(self) -> None:
        """Erase the text of the fact from every payload that contains it."""
        # First, because its own names lead to the facts that had them earlier.
        for scope_no, namespace, value in self.tx.all(_NAMED, (self.fact_no,)):
            self._erase_name(scope_no, {"namespace": namespace, "value": value})
        about = self.tx.all(_ABOUT, (self.fact_no,))
        edits = self._edits(about)
        for seq, _ in about:
            self._erase_in(seq, edits=seq in edits)
        if self.recorded is None and self.tx.one(_HAS_KEPT):
            for (seq,) in self.tx.all(_KEPT, (kept.TYPE,)):
                self._erase_in(seq, edits=False)

    def _edits(self, about: Sequence[tuple[Any, ...]]) -> set[int]:
        """Return the reviews whose edits became the fact's text in the same operation."""
        operations, reviews = set(), []
        for seq, op in about:
            row = self._row(seq)
            if row and row.type == _REVIEWED:
                reviews.append((seq, op))
            elif row and row.type in _FACT_EVENTS and any(self._parts(row)):
                operations.add(op)
        return {seq for seq, op in reviews if op in operations}

    def _row(self, seq: int) -> _Row | None:
        row = self.tx.one(_EVENT, (seq,))
        if row is None:
            return None
        kind, scope_no, actor, at, salt, data = row
        return _Row(seq, kind, scope_no, actor, at, event_payloads.StoredPayload(salt, data))

    def _parts(self, row: _Row) -> Iterator[tuple[int, Part]]:
        """Go through the parts about the fact."""
        marks = (self.fact_id.encode(), b'_no":%d' % self.fact_no)
        for place, part in event_payloads.parts_containing(row.sealed, marks):
            if self._concerns(part):
                yield place, part

    def _concerns(self, part: Part) -> bool:
        if "table" in part:
            return self.fact_no in [part["row"].get(name) for name in _NUMBERS]
        return self.fact_id in [part.get(name) for name in _NAMES]

    def _erase_in(self, seq: int, *, edits: bool) -> None:
        row = self._row(seq)
        if row is None:
            return
        parts = dict(self._parts(row))
        for place, part in parts.items():
            self._take(row, place, part)
        if edits:
            for place, part in event_payloads.parts_containing(row.sealed, (b'"edits":',)):
                if place not in parts:
                    parts[place] = part
                    self._restate(row, part)
        self._write(row, parts)

    def _take(self, row: _Row, place: int, part: Part) -> None:
        """Note what the fact was indexed by."""
        if row.type == facts.RECORDED:
            self.recorded, self.text = (row.seq, place), facts.text(part)[1]
        elif row.type == kept.TYPE:
            document = kept.text(part)
            if document:
                self.recorded, self.text = (row.seq, place), document[2]

    def _restate(self, row: _Row, part: Part) -> None:
        stands = self.tx.one(_STANDS, (row.seq, part["fact"])) is not None
        payload = {name: part[name] for name in ("fact", "decision", "actor_type", "reason")}
        payload |= {"seq": row.seq, "at": row.at, "by": row.actor, "stands": stands}
        # What the edits replaced stays replaced.
        payload["edited"] = True
        self.restated.append((row.scope_no, payload))

    def _erase_name(self, scope_no: int, name: Part) -> None:
        """Erase a name from the events of the facts that had it earlier."""
        pending, visited = [self.fact_id], set()
        while pending:
            holder = pending.pop()
            visited.add(holder)
            for (seq,) in self.tx.all(_OF, (holder,)):
                row = self._row(seq)
                if row is None or row.type != "alias.set" or row.scope_no != scope_no:
                    continue
                parts = {
                    place: part
                    for place, part in event_payloads.parts_containing(
                        row.sealed, (b'"namespace":',)
                    )
                    if all(part[key] == name[key] for key in name)
                }
                previous = {part["was"] for part in parts.values() if part.get("was")}
                pending += previous - visited
                self._write(row, parts)
        self._erase_name_in_responses(name, visited)

    def _erase_name_in_responses(self, name: Part, holders: set[str]) -> None:
        """Erase a name from the stored responses about its holders.

        A fact that no longer exists may have been a holder; a fact of the same name in another
        scope keeps the name.
        """
        value = json.dumps(name["value"], ensure_ascii=False)
        for principal, key, response in self.tx.all(_NAMED_ANSWERS, (value,)):
            items = json.loads(response)
            if not isinstance(items, list):
                continue  # no response of `remember`: the value only occurs in a text
            for item in items:
                fact_id = item["fact_id"]
                if fact_id in holders or self.tx.one(_IS_THERE, (fact_id,)) is None:
                    item["aliases"] = [alias for alias in item["aliases"] if alias != name]
            self.tx.execute(_REWRITE_ANSWER, (json.dumps(items), principal, key))

    def _write(self, row: _Row, parts: Mapping[int, Part]) -> None:
        if not parts:
            return
        self.touched.add(row.seq)
        remainder = event_payloads.without_parts(row.sealed, parts.keys())
        if remainder is None:
            self.tx.execute(_DROP, (row.seq,))
            self.emptied.add(row.seq)
            return
        self.tx.execute(_REWRITE, (remainder.salt, remainder.data, row.seq))
        fact_ids = {fact_id for part in parts.values() for fact_id in _fact_ids(part)}
        for other in sorted(fact_ids - {self.fact_id}):
            if not any(event_payloads.parts_containing(remainder, (other.encode(),))):
                self.detached += [
                    (row.seq, number)
                    for _, number in self.tx.all(_NUMBERS_OF, (json.dumps([other]),))
                ]


def _fact_ids(part: Part) -> Iterator[str]:
    return (part[name] for name in _NAMES if isinstance(part.get(name), str))
