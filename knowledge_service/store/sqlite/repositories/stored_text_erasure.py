"""Erases the text of facts from tables, index and responses, and from the log by `event_log`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from knowledge_service.event_log import legacy_rows
from knowledge_service.event_log.payload_erasure import ErasableFact, ErasedAlias, FactErasure
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.projections import trigram_index

_FIND = "SELECT fact_no, scope_no, content_hash FROM fact WHERE id = ?"
_NUMBERS = "SELECT fact_no FROM fact WHERE id = ?"
_LINKS = "SELECT count(*) FROM link WHERE from_no = ?1 OR to_no = ?1"
# All events of the fact's operations, because a review's edits are in an event about another fact.
_EVENTS_OF_OPERATIONS = """SELECT seq, op FROM fact_event WHERE op IN (
    SELECT op FROM fact_event WHERE fact_no = ?1) GROUP BY seq ORDER BY seq"""
_EVENTS_OF_FACT = "SELECT seq FROM fact_event f JOIN fact USING(fact_no) WHERE id = ? ORDER BY seq"
_ALIASES = "SELECT namespace, value FROM alias WHERE fact_no = ?"
_HOLDER = """SELECT f.id FROM alias a JOIN fact f USING(fact_no)
  WHERE a.scope_no = ? AND a.namespace = ? AND a.value = ?"""
_LEGACY = """SELECT seq FROM event WHERE type = ?1
  AND seq >= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'replay_from') ORDER BY seq"""
_HAS_LEGACY = "SELECT 1 FROM meta WHERE key = 'replay_from'"
_REVIEW_EXISTS = (
    "SELECT 1 FROM review WHERE seq = ? AND fact_no = (SELECT fact_no FROM fact WHERE id = ?)"
)
_FORGET_RUNS = "DELETE FROM fact_run WHERE fact_no = ?"
# A stored answer may contain the fact itself; one that only refers to it may stay.
_FORGET_ANSWERS = """DELETE FROM idempotency WHERE (principal, key) IN (
  SELECT principal, key FROM idempotency INDEXED BY idempotency_content
  WHERE instr(response, '"content":') > 0 AND instr(response, ?) > 0)"""
_NAMED_ANSWERS = """SELECT principal, key, response FROM idempotency
  INDEXED BY idempotency_named
  WHERE instr(response, '"namespace":') > 0
  AND (instr(response, ?1) > 0 OR instr(response, ?2) > 0)"""
_REWRITE_ANSWER = "UPDATE idempotency SET response = ? WHERE principal = ? AND key = ?"
_FACT_EXISTS = "SELECT 1 FROM fact WHERE id = ?"


def forget_answers_of_scope(tx: Transaction, path: str) -> None:
    """Delete the stored answers that contain a fact of a scope, because it is retired."""
    tx.execute(_FORGET_ANSWERS, (f'"scope":"{path}"',))


def forget_answers_of_realm(tx: Transaction, path: str) -> None:
    """Delete the stored answers that contain a fact of a realm, because all of it is retired."""
    forget_answers_of_scope(tx, path)
    tx.execute(_FORGET_ANSWERS, (f'"scope":"{path}/',))


def erase(tx: Transaction, fact_ids: Sequence[str], *, actor: str, reason: str) -> tuple[int, int]:
    """Erase facts; return the numbers of links and events that were erased with them."""
    links, touched = 0, set()
    for fact_id in fact_ids:
        row = tx.fetch_first(_FIND, (fact_id,))
        if row is None:
            continue
        fact_no, scope_no, content_hash = row
        links += int((tx.fetch_first(_LINKS, (fact_no,)) or (0,))[0])
        fact = ErasableFact(fact_id, fact_no, scope_no)
        erasure = FactErasure(SqliteEventTable(tx.connection), SqliteFactReferences(tx), fact)
        erasure.erase()
        touched |= erasure.touched
        for erased in erasure.aliases:
            _erase_alias_in_responses(tx, erased)
        tx.unindex(scope_no, fact_no, erasure.text)
        for entry in trigram_index.entries(tx.connection, [fact_no]):
            tx.trigrams.remove(entry)
        tx.hash_index.erase(scope_no, fact_no, content_hash)
        tx.execute(_FORGET_RUNS, (fact_no,))
        tx.execute(_FORGET_ANSWERS, (fact_id,))
        for kind, event in erasure.events(actor=actor, reason=reason):
            tx.record(kind, scope_no=event.scope_no, actor=event.actor, parts=event.parts)
    return links, len(touched)


class SqliteFactReferences:
    """The `FactReferences` port."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def aliases(self, fact_no: int) -> Iterable[tuple[str, str]]:
        """Return namespace and value of each alias of a fact."""
        return [(name, value) for name, value in self._tx.fetch_all(_ALIASES, (fact_no,))]

    def alias_holder(self, scope_no: int, namespace: str, value: str) -> str | None:
        """Return the fact that has an alias."""
        row = self._tx.fetch_first(_HOLDER, (scope_no, namespace, value))
        return str(row[0]) if row else None

    def operations(self, fact_no: int) -> Sequence[tuple[int, int]]:
        """Return (event, operation) numbers of all operations that changed a fact."""
        return [(seq, op) for seq, op in self._tx.fetch_all(_EVENTS_OF_OPERATIONS, (fact_no,))]

    def events_about(self, fact_id: str) -> Iterable[int]:
        """Return the numbers of the events about a fact, in order."""
        return [seq for (seq,) in self._tx.fetch_all(_EVENTS_OF_FACT, (fact_id,))]

    def legacy_events(self) -> Iterable[int]:
        """Return the numbers of the events with rows from before the log."""
        if self._tx.fetch_first(_HAS_LEGACY) is None:
            return []
        return [seq for (seq,) in self._tx.fetch_all(_LEGACY, (legacy_rows.TYPE,))]

    def is_review_in_force(self, seq: int, fact_id: str) -> bool:
        """Return whether the review that an event recorded is still the fact's review."""
        return self._tx.fetch_first(_REVIEW_EXISTS, (seq, fact_id)) is not None

    def fact_numbers(self, fact_id: str) -> Sequence[int]:
        """Return the number of a fact; empty when there is no such fact."""
        return [number for (number,) in self._tx.fetch_all(_NUMBERS, (fact_id,))]


def _erase_alias_in_responses(tx: Transaction, erased: ErasedAlias) -> None:
    """Erase an alias from the stored responses about its holders.

    A fact that no longer exists may have been a holder. A fact with the same alias in another scope
    keeps it.
    """
    value = erased.alias["value"]
    # Earlier releases rewrote responses in ASCII.
    patterns = (_to_json(value), json.dumps(value))
    for principal, key, response in tx.fetch_all(_NAMED_ANSWERS, patterns):
        items = json.loads(response)
        if not isinstance(items, list):
            continue  # no response of `remember`: the value only occurs in a text
        for item in items:
            fact_id = item["fact_id"]
            if fact_id in erased.holders or tx.fetch_first(_FACT_EXISTS, (fact_id,)) is None:
                item["aliases"] = [alias for alias in item["aliases"] if alias != erased.alias]
        tx.execute(_REWRITE_ANSWER, (_to_json(items), principal, key))


def _to_json(value: Any) -> str:
    """Return JSON as stored responses have it, because erasures search their text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
