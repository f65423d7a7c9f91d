"""The unit of work of operations on facts, over tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_client.models import Alias, Fact, ScopeConfig
from knowledge_service.domain import fact_fields
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import fact_event_json, fact_events, times
from knowledge_service.event_log.events import Event
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
from knowledge_service.store.sqlite import event_table
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.projections import facts as projected
from knowledge_service.store.sqlite.projections import trigram_index
from knowledge_service.store.sqlite.repositories import (
    aliases,
    base,
    capacity,
    fact_rows,
    stored_text_erasure,
)

_BY_ID = f"{fact_rows.SELECT} WHERE f.id = ? AND s.retired_at IS NULL"
_EQUAL = f"""{fact_rows.SELECT} WHERE +f.scope_no = ?1 AND f.content_hash = ?2
  AND f.fact_no IN (SELECT value FROM json_each(?3))
  ORDER BY CASE f.lifecycle WHEN 'live' THEN 0 WHEN 'retracted' THEN 1 ELSE 2 END, f.id DESC
  LIMIT 1"""
_DECIDED = f"""{fact_rows.SELECT} WHERE +f.scope_no = ?1 AND f.content_hash = ?2
  AND f.fact_no IN (SELECT value FROM json_each(?3))
  AND (f.review IN ('approved', 'rejected') OR f.lifecycle = 'superseded' AND EXISTS(
    SELECT 1 FROM review r WHERE r.fact_no = f.fact_no AND r.edits IS NOT NULL))
  ORDER BY f.id DESC LIMIT 1"""
_REPLACED = """SELECT 1 FROM review r JOIN fact f USING(fact_no)
  WHERE f.id = ? AND r.edits IS NOT NULL"""
_KEYED = f"""{fact_rows.SELECT} WHERE f.scope_no = ? AND f.key_hash = ?
  AND f.lifecycle IN ('live', 'superseded') ORDER BY f.id"""
_LINKS = """SELECT l.id, a.id, b.id, l.type, l.weight, l.data, l.valid_from, l.valid_until
  FROM link l
  JOIN fact a ON a.fact_no = l.from_no JOIN fact b ON b.fact_no = l.to_no
  WHERE l.closed_at IS NULL AND l.id IN (
    SELECT x.id FROM link x JOIN fact f ON f.fact_no = x.from_no WHERE f.id = ?1
    UNION SELECT x.id FROM link x JOIN fact f ON f.fact_no = x.to_no WHERE f.id = ?1)
  ORDER BY l.id"""
_LIVE_LINK = """SELECT l.id, a.id, b.id, l.type, l.weight, l.data, l.valid_from, l.valid_until
  FROM link l JOIN fact a ON a.fact_no = l.from_no JOIN fact b ON b.fact_no = l.to_no
  WHERE a.id = ? AND b.id = ? AND l.type = ? AND l.closed_at IS NULL"""
_IS_LINK_LIVE = "SELECT 1 FROM link WHERE id = ? AND closed_at IS NULL"
_ROOT = "SELECT coalesce(root, id) FROM fact WHERE id = ?"
_NAMED = """SELECT f.id FROM alias a JOIN fact f USING(fact_no)
  WHERE a.scope_no = ? AND a.namespace = ? AND a.value = ?"""
_IN_REALM = """s.retired_at IS NULL
  AND (s.path = ?3 OR substr(s.path, 1, length(?3) + 1) = ?3 || '/')"""
_NAMED_IN_REALM = f"""SELECT f.id FROM alias a INDEXED BY alias_name
  CROSS JOIN scope s USING(scope_no) CROSS JOIN fact f USING(fact_no)
  WHERE a.namespace = ?1 AND a.value = ?2 AND f.lifecycle <> 'retracted' AND {_IN_REALM}
  ORDER BY f.id"""
_LAST_NUMBER_IN_REALM = f"""SELECT max(n.last) FROM scope s CROSS JOIN sequence n USING(scope_no)
  WHERE n.namespace = ?1 AND n.prefix = ?2 AND {_IN_REALM}"""
_LAST_NUMBER = "SELECT last FROM sequence WHERE scope_no = ? AND namespace = ? AND prefix = ?"
_PROMOTIONS = """SELECT p.id, a.id, b.id FROM promotion p
  JOIN fact a ON a.fact_no = p.origin_no JOIN fact b ON b.fact_no = p.copy_no
  WHERE p.undone_at IS NULL AND (a.id = ?1 OR b.id = ?1) ORDER BY p.id"""
_COPIES = """SELECT DISTINCT b.id FROM promotion p JOIN fact a ON a.fact_no = p.origin_no
  JOIN fact b ON b.fact_no = p.copy_no
  WHERE a.id = ? AND b.source_type = 'promoted' ORDER BY b.id"""
_CONFIRMATIONS = """SELECT DISTINCT c.actor, c.session FROM confirmation c
  JOIN fact f USING(fact_no) WHERE f.id = ? ORDER BY c.actor, c.session"""
_CONFIG = "SELECT config FROM scope WHERE path = ? AND retired_at IS NULL AND config IS NOT NULL"
_RUN_EXPOSURES = """SELECT r.run_id, r.body, r.outcome FROM fact_run s JOIN fact f USING(fact_no)
  JOIN run r USING(realm_no, run_id) WHERE f.id = ? AND r.outcome IS NOT NULL
  AND json_extract(r.body, '$.kind') = 'mission' ORDER BY r.run_id"""
_NEXT = "SELECT coalesce(max(fact_no), 0) + 1 FROM fact"
_OPERATION = """SELECT max(op) FROM fact_event JOIN fact f USING(fact_no)
  WHERE f.id = ? AND undone = 0"""
_EVENTS = event_table.select_events(
    "event e",
    """WHERE e.seq >= ?1 AND e.seq <= (SELECT max(seq) FROM fact_event WHERE op = ?1)
    ORDER BY e.seq""",
)
_OLD_ROW = f"""SELECT {", ".join("p." + name for name in fact_events.CHANGEABLE)} FROM fact_past p
  JOIN fact f USING(fact_no) WHERE f.id = ? AND p.until_seq = ?"""
# `other_scope` is 0 unless an event also concerns another fact, as links and promotions do.
_CLOSINGS = event_table.select_events(
    """fact f CROSS JOIN fact_event x ON x.fact_no = f.fact_no AND x.other_scope = 0
    CROSS JOIN event e USING(seq)""",
    """WHERE f.id = ? AND e.type IN ('fact.closed', 'fact.archived', 'fact.undone')
    ORDER BY x.seq DESC""",
)
_LAST_LIVE = """SELECT p.valid_until FROM fact_past p JOIN fact f USING(fact_no)
  WHERE f.id = ? AND p.lifecycle = 'live' ORDER BY p.version DESC LIMIT 1"""
_ALIASES = """SELECT a.scope_no, a.namespace, a.value FROM alias a JOIN fact f USING(fact_no)
  WHERE f.id = ? ORDER BY a.scope_no, a.namespace, a.value"""


class SqliteUnitOfWork:
    """The `FactUnitOfWork` of `fact_transactions` over one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._op: int | None = None
        self._acts: int | None = None

    @property
    def at_us(self) -> int:
        """The time of the write, in microseconds since 1970."""
        return self._tx.at_us

    def begin(self, *, acts: int | None = None) -> None:
        """Start a new operation."""
        self._op, self._acts = None, acts

    def new_id(self) -> str:
        """Return a new id."""
        return self._tx.new_id()

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact by its id, or None."""
        return self._first(_BY_ID, (fact_id,))

    def equal(self, scope: str, content_hash: bytes) -> Fact | None:
        """Return an equal fact, or None."""
        return self._among_equals(_EQUAL, scope, content_hash)

    def decision(self, scope: str, content_hash: bytes) -> Decision | None:
        """Return a reviewer's decision about an equal fact, or None."""
        fact = self._among_equals(_DECIDED, scope, content_hash)
        if fact is None:
            return None
        if fact.review == "rejected":
            return Decision(fact, "rejected")
        replaced = fact.lifecycle == "superseded" and self._tx.fetch_first(_REPLACED, (fact.id,))
        return Decision(fact, "replaced" if replaced else "approved")

    def facts_by_key(self, scope: str, key_hash: bytes) -> Sequence[Fact]:
        """Return the facts of a key."""
        number = base.find_scope(self._tx, scope)
        if number is None:
            return ()
        return list(fact_rows.facts(self._tx.connection, _KEYED, (number, key_hash)))

    def links(self, fact_id: str) -> Sequence[LiveLink]:
        """Return the live links of a fact."""
        return [_live_link(row) for row in self._tx.fetch_all(_LINKS, (fact_id,))]

    def live_link(self, from_id: str, to_id: str, kind: str) -> LiveLink | None:
        """Return the live link of a type, or None."""
        row = self._tx.fetch_first(_LIVE_LINK, (from_id, to_id, kind))
        return _live_link(row) if row else None

    def is_link_live(self, link_id: str) -> bool:
        """Return whether a link is live."""
        return self._tx.fetch_first(_IS_LINK_LIVE, (link_id,)) is not None

    def root(self, fact_id: str) -> str:
        """Return the first version of a fact."""
        row = self._tx.fetch_first(_ROOT, (fact_id,))
        return str(row[0]) if row else fact_id

    def promotions(self, fact_id: str) -> Sequence[ActivePromotion]:
        """Return the active promotions of a fact."""
        return [ActivePromotion(*row) for row in self._tx.fetch_all(_PROMOTIONS, (fact_id,))]

    def copies(self, fact_id: str) -> Sequence[str]:
        """Return the copies that promotions created."""
        return [copy for (copy,) in self._tx.fetch_all(_COPIES, (fact_id,))]

    def confirmations(self, fact_id: str) -> Sequence[Confirmation]:
        """Return the confirmations of a fact."""
        return [Confirmation(*row) for row in self._tx.fetch_all(_CONFIRMATIONS, (fact_id,))]

    def config(self, scope: str) -> ScopeConfig:
        """Return the configuration of a scope."""
        row = self._tx.fetch_first(_CONFIG, (scope,))
        return ScopeConfig.model_validate_json(row[0]) if row else ScopeConfig()

    def run_exposures(self, fact_id: str) -> Sequence[RunExposure]:
        """Return the closed runs of missions that recalled the fact."""
        exposures = []
        for run_id, body, outcome in self._tx.fetch_all(_RUN_EXPOSURES, (fact_id,)):
            run = json.loads(body)
            mission = run.get("mission")
            mission_name = f"{run['namespace']}/{mission}" if mission else run_id
            exposures.append(RunExposure(run_id, mission_name, outcome))
        return exposures

    def record(
        self, kind: str, *, scope: str, actor: Actor, parts: Sequence[Mapping[str, Any]]
    ) -> None:
        """Append an event of the operation and apply it."""
        number = base.ensure_scope(self._tx, scope, actor.name)
        event = self._tx.record(kind, scope_no=number, actor=actor.name, parts=self._of_op(parts))
        self._op = self._op or event.seq

    def create(
        self, new: NewFact, fact_id: str, *, actor: Actor, payload_additions: Mapping[str, Any]
    ) -> None:
        """Record a new fact and index it."""
        number = base.ensure_scope(self._tx, new.scope, actor.name)
        fact_no = int((self._tx.fetch_first(_NEXT) or (1,))[0])
        parts = self._of_op(
            [{"no": fact_no, **fact_event_json.fields(new, fact_id), **payload_additions}]
        )
        event = self._tx.append(
            fact_events.RECORDED, scope_no=number, actor=actor.name, parts=parts
        )
        projected.record(self._tx.connection, event, [(new.content_hash, new.key_hash)])
        self._tx.hash_index.add(number, [new.content_hash], [fact_no])
        self._tx.index(number, fact_events.index_texts(event))
        texts = (new.content, new.title, new.subject)
        self._tx.trigrams.add(trigram_index.entry(number, fact_no, new.kind, texts))
        self._op = self._op or event.seq

    def require_room(self, scope: str) -> None:
        """Check that a scope has room for one more live fact.

        Raises:
            QuotaExceeded: it has not.
        """
        number = base.find_scope(self._tx, scope)
        if number is not None:
            capacity.require_room(self._tx, number, 1)

    def aliases(self, fact_id: str) -> Sequence[Alias]:
        """Return the aliases of a fact."""
        return aliases.of_fact(self._tx.connection, fact_id)

    def alias_holder(self, scope: str, alias: Alias) -> Fact | None:
        """Return the fact with an alias."""
        number = base.find_scope(self._tx, scope)
        row = self._tx.fetch_first(_NAMED, (number, alias.namespace, alias.value))
        return self.fact(row[0]) if row else None

    def alias_holders_in_realm(self, realm: str, alias: Alias) -> Sequence[Fact]:
        """Return the facts of a realm with an alias."""
        rows = self._tx.fetch_all(_NAMED_IN_REALM, (alias.namespace, alias.value, realm))
        holders = (self.fact(fact_id) for (fact_id,) in rows)
        return [holder for holder in holders if holder]

    def last_number_in_realm(self, realm: str, namespace: str, prefix: str) -> int:
        """Return the last number of a sequence in a realm."""
        row = self._tx.fetch_first(_LAST_NUMBER_IN_REALM, (namespace, prefix, realm))
        return int((row and row[0]) or 0)

    def last_number(self, scope: str, namespace: str, prefix: str) -> int:
        """Return the last number of a sequence."""
        number = base.find_scope(self._tx, scope)
        row = self._tx.fetch_first(_LAST_NUMBER, (number, namespace, prefix))
        return int(row[0]) if row else 0

    def transfer_aliases(self, old_id: str, new_id: str, *, actor: Actor) -> None:
        """Move a fact's aliases to another fact."""
        for scope_no, namespace, value in self._tx.fetch_all(_ALIASES, (old_id,)):
            part = {"namespace": namespace, "value": value, "fact": new_id, "was": old_id}
            self._tx.record(
                "alias.set", scope_no=scope_no, actor=actor.name, parts=self._of_op([part])
            )

    def operation(self, fact_id: str) -> int | None:
        """Return the last operation that was not undone."""
        row: Any = self._tx.fetch_first(_OPERATION, (fact_id,))
        return row[0] if row else None

    def events(self, op: int) -> Sequence[Event]:
        """Return an operation's events, without events between them that created scopes."""
        events = event_table.read_events(self._tx.connection, _EVENTS, (op,))
        return [event for event in events if event.op == op or event.parts == (None,)]

    def values_before(self, fact_id: str, seq: int) -> Mapping[str, Any] | None:
        """Return the version that an event ended."""
        row = self._tx.fetch_first(_OLD_ROW, (fact_id, seq))
        if row is None:
            return None
        values = dict(zip(fact_events.CHANGEABLE, row, strict=True))
        return values | {name: json.loads(values[name]) for name in fact_fields.LISTS}

    def closer(self, fact_id: str) -> Closer | None:
        """Return the actor of the last event that closed the fact."""
        for event in event_table.read_events(self._tx.connection, _CLOSINGS, (fact_id,)):
            # Only the service archives facts for retention, and records no actor type.
            default_type = "system" if event.type == "fact.archived" else None
            for part in event.remaining_parts():
                if part.get("fact") == fact_id and closes(part):
                    return Closer(event.actor, part.get("actor_type", default_type))
        return None

    def ended_live(self, fact_id: str) -> tuple[int | None] | None:
        """Return (end of validity,) from when the fact was last live; None if it never was."""
        row = self._tx.fetch_first(_LAST_LIVE, (fact_id,))
        return (row[0],) if row else None

    def erase(self, fact_ids: Sequence[str], *, actor: Actor, reason: str) -> tuple[int, int]:
        """Erase facts permanently."""
        return stored_text_erasure.erase(self._tx, fact_ids, actor=actor.name, reason=reason)

    def _among_equals(self, sql: str, scope: str, content_hash: bytes) -> Fact | None:
        number = base.find_scope(self._tx, scope)
        if number is None:
            return None
        among = json_list(self._tx.hash_index.numbers(number, content_hash))
        return self._first(sql, (number, content_hash, among))

    def _first(self, sql: str, bindings: Sequence[Any]) -> Fact | None:
        return next(fact_rows.facts(self._tx.connection, sql, bindings), None)

    def _of_op(self, parts: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        if self._op is not None:
            return [{**part, "op": self._op} for part in parts]
        if self._acts is not None:
            return [{**part, "acts": self._acts} for part in parts]
        return parts


def _live_link(row: tuple[Any, ...]) -> LiveLink:
    link_id, from_id, to_id, kind, weight, data, valid_from, valid_until = row
    return LiveLink(
        link_id,
        from_id,
        to_id,
        kind,
        weight,
        None if data is None else json.loads(data),
        times.from_us(valid_from),
        times.from_us(valid_until),
    )
