"""Extraction jobs in tables. The facts of a job and its final state are one transaction."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

from knowledge_client.models import Extraction
from knowledge_service.domain import extraction
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import NotFound, PreviouslyRetracted, QuotaExceeded
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import store_fact, unit_of_work
from knowledge_service.ports import Actor, ExtractionCall, ExtractionQueue
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base, runs
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_NANO = 1_000_000_000
_COLUMNS = """x.run_id, x.state, x.facts, x.reason, x.attempts, x.model, x.calls, x.input_tokens,
  x.output_tokens, x.cost_nano"""
_GET = f"SELECT {_COLUMNS} FROM extraction x WHERE x.realm_no = ? AND x.run_id = ?"
# Jobs of a retired realm wait until it is adopted.
_OPEN = f"""SELECT s.path, {_COLUMNS} FROM extraction x JOIN scope s ON s.scope_no = x.realm_no
  WHERE x.state IN ('pending', 'running') AND s.retired_at IS NULL
  AND (?1 = 'all' OR (x.model IS NOT NULL) = (?1 = 'model'))
  AND (?2 IS NULL OR x.retry_at IS NULL OR x.retry_at <= ?2)
  ORDER BY x.accepted_at LIMIT ?3"""
_COST = """SELECT COALESCE(sum(cost_nano), 0) FROM extraction
  WHERE realm_no = ? AND called_at > ?"""
_LIMIT = "SELECT max_facts FROM extraction WHERE realm_no = ? AND run_id = ?"
_EARLIER = """SELECT e.error_signature, count(*) FROM run this
  JOIN run other ON other.scope = this.scope AND other.realm_no = this.realm_no
    AND other.run_id <> this.run_id AND other.opened_at <= this.opened_at
  JOIN episode e ON e.realm_no = other.realm_no AND e.run_id = other.run_id
  WHERE this.realm_no = ? AND this.run_id = ?
  AND e.error_signature IN (SELECT value FROM json_each(?))
  GROUP BY e.error_signature"""
_BY_KEY = """SELECT id, lifecycle FROM fact WHERE scope_no = ? AND key_hash = ?
  AND lifecycle IN ('live', 'retracted') ORDER BY lifecycle = 'live' DESC, id"""
_EXISTS = "SELECT 1 FROM fact WHERE id = ?"
_SCOPE_OF = "SELECT scope FROM run WHERE realm_no = ? AND run_id = ?"


class Extractions(base.SqliteRepository):
    """The `ExtractionStore` port."""

    def accept_extraction(self, key: RunKey, max_facts: int, *, actor: Actor) -> Extraction:
        """Accept an extraction; a repeated call returns the state of the first."""

        def work(tx: Transaction) -> Extraction:
            columns = _run_columns(tx, key)
            if tx.fetch_first(_GET, columns) is None:
                _record_event(
                    tx, "extraction.accepted", columns, actor.name, {"max_facts": max_facts}
                )
            return _get(tx, key)

        return self._writer.submit(work)

    def extraction(self, key: RunKey) -> Extraction | None:
        """Return the extraction of a run, or None."""
        with self._readers.snapshot() as connection:
            columns = runs.run_columns(connection, key)
            for row in connection.execute(_GET, columns) if columns else ():
                return _extraction_from_row(row)
        return None

    def extraction_limit(self, key: RunKey) -> int:
        """Return the maximum number of facts that was requested; 0 without an extraction."""
        with self._readers.snapshot() as connection:
            columns = runs.run_columns(connection, key)
            rows = connection.execute(_LIMIT, columns) if columns else ()
            return int(next(iter(rows), (0,))[0])

    def open_extractions(
        self, limit: int, *, queue: ExtractionQueue = "all", due_at: datetime | None = None
    ) -> tuple[tuple[RunKey, Extraction], ...]:
        """List unfinished jobs, oldest first."""
        due_us = None if due_at is None else times.to_us(due_at)
        with self._readers.snapshot() as connection:
            return tuple(
                (RunKey(realm, row[0]), _extraction_from_row(row))
                for realm, *row in connection.execute(_OPEN, (queue, due_us, limit))
            )

    def begin_extraction(self, key: RunKey) -> Extraction:
        """Set the state to `running` and count the attempt."""

        def work(tx: Transaction) -> Extraction:
            if _get(tx, key).state in ("pending", "running"):
                _record_event(tx, "extraction.begun", _run_columns(tx, key), "extraction", {})
            return _get(tx, key)

        return self._writer.submit(work)

    def choose_extraction_model(self, key: RunKey, model: str) -> Extraction:
        """Move an open job to the queue of a model."""

        def work(tx: Transaction) -> Extraction:
            if _get(tx, key).state in ("pending", "running"):
                _record_event(
                    tx, "extraction.model_chosen", _run_columns(tx, key), "extraction",
                    {"model": model},
                )  # fmt: skip
            return _get(tx, key)

        return self._writer.submit(work)

    def reserve_extraction_call(self, key: RunKey, call: ExtractionCall) -> bool:
        """Count a call with its maximum cost, if the budget of the realm allows it."""
        cost_nano = _nano(call.cost)

        def work(tx: Transaction) -> bool:
            columns = _run_columns(tx, key)
            row = tx.fetch_first(_COST, (columns[0], times.to_us(call.since)))
            spent = row[0] if row else 0
            if call.budget is not None and spent + cost_nano > _nano(call.budget):
                return False
            _record_event(tx, "extraction.called", columns, "extraction", {"cost_nano": cost_nano})
            return True

        return self._writer.submit(work)

    def settle_extraction_call(
        self, key: RunKey, *, reserved: Decimal, cost: Decimal, tokens: tuple[int, int]
    ) -> None:
        """Replace the reserved cost of a call by its real one."""

        def work(tx: Transaction) -> None:
            payload = {
                "reserved_nano": _nano(reserved),
                "cost_nano": _nano(cost),
                "tokens": list(tokens),
            }
            _record_event(tx, "extraction.settled", _run_columns(tx, key), "extraction", payload)

        self._writer.submit(work)

    def earlier_signatures(self, key: RunKey, signatures: Sequence[str]) -> Mapping[str, int]:
        """Count episodes of earlier runs in the same scope by error signature."""
        with self._readers.bulk_connection() as connection:
            columns = runs.run_columns(connection, key)
            if columns is None:
                return {}
            return dict(connection.execute(_EARLIER, (*columns, json_list(list(signatures)))))

    def finish_extraction(
        self,
        key: RunKey,
        new: Sequence[NewFact],
        reason: str | None,
        *,
        actor: Actor,
        drawn_facts: Sequence[NewFact] = (),
    ) -> Extraction:
        """Store the facts and the state in one transaction."""

        def work(tx: Transaction) -> Extraction:
            extraction = _get(tx, key)
            if extraction.state == "done":
                return extraction
            fact_ids = [fact_id for fact_id in extraction.facts if _exists(tx, fact_id)]
            skipped: Counter[str] = Counter()
            stores = [
                *((fact, _store) for fact in new),
                *((fact, _remember) for fact in drawn_facts),
            ]
            for fact, store in stores:
                try:
                    fact_id = store(tx, fact, actor)
                except PreviouslyRetracted:
                    skipped["retracted in this scope before"] += 1
                except QuotaExceeded as exc:
                    skipped[exc.detail] += 1
                else:
                    if fact_id not in fact_ids:
                        fact_ids.append(fact_id)
            summary = _summarise(reason, skipped)
            payload = {"facts": fact_ids, "reason": summary}
            _record_event(tx, "extraction.done", _run_columns(tx, key), actor.name, payload)
            return _get(tx, key)

        return self._writer.submit(work)

    def fail_extraction(self, key: RunKey, reason: str, *, retry: bool) -> Extraction:
        """Record the reason of a failed attempt; without `retry` the state becomes `failed`."""

        def work(tx: Transaction) -> Extraction:
            payload = {"reason": reason, "retry": retry}
            _record_event(tx, "extraction.failed", _run_columns(tx, key), "extraction", payload)
            return _get(tx, key)

        return self._writer.submit(work)

    def postpone_extraction(
        self,
        key: RunKey,
        reason: str,
        *,
        retry_at: datetime,
        facts: Sequence[NewFact],
        actor: Actor,
    ) -> Extraction:
        """Store the facts that are certain already, and record why the rest comes later."""

        def work(tx: Transaction) -> Extraction:
            payload: dict[str, Any] = {
                "reason": reason, "retry": True, "retry_at": times.to_us(retry_at),
            }  # fmt: skip
            fact_ids: list[str] = []
            for fact in facts:
                with suppress(PreviouslyRetracted, QuotaExceeded):
                    fact_ids.append(_store(tx, fact, actor))
            if fact_ids:
                payload["facts"] = list(dict.fromkeys(fact_ids))
            _record_event(tx, "extraction.failed", _run_columns(tx, key), "extraction", payload)
            return _get(tx, key)

        return self._writer.submit(work)


def _store(tx: Transaction, fact: NewFact, actor: Actor) -> str:
    """Store a fact, or confirm the live fact with the same key.

    Raises:
        PreviouslyRetracted: a fact with this key, or an equal fact, was retracted.
        QuotaExceeded: the scope has no KnowledgeScope, and it is full.
    """
    scope_no = base.ensure_scope(tx, fact.scope, actor.name)
    uow = SqliteUnitOfWork(tx)
    for fact_id, lifecycle in tx.fetch_all(_BY_KEY, (scope_no, fact.key_hash)):
        existing = unit_of_work.require_fact(uow, fact_id)
        if not extraction.is_confirmed(existing.content, fact):
            continue
        if lifecycle != "live":
            raise PreviouslyRetracted(f"the fact with this key was retracted in {fact.scope}")
        store_fact.confirm_equal(uow, existing, fact, actor)
        return existing.id
    return store_fact.store_or_confirm_fact(uow, fact, actor).fact_id


def _exists(tx: Transaction, fact_id: str) -> bool:
    return tx.fetch_first(_EXISTS, (fact_id,)) is not None


def _remember(tx: Transaction, fact: NewFact, actor: Actor) -> str:
    """Store a fact of a model as if an agent remembered it."""
    base.ensure_scope(tx, fact.scope, actor.name)
    agent = dataclasses.replace(actor, type="agent")
    return store_fact.store_or_confirm_fact(SqliteUnitOfWork(tx), fact, agent).fact_id


def _nano(cost: Decimal) -> int:
    return int((cost * _NANO).to_integral_value(ROUND_CEILING))


def _summarise(reason: str | None, skipped: Mapping[str, int]) -> str | None:
    notes = [f"{count} left out: {cause}" for cause, count in skipped.items()]
    return "; ".join([*([reason] if reason else []), *notes]) or None


def _get(tx: Transaction, key: RunKey) -> Extraction:
    row = tx.fetch_first(_GET, _run_columns(tx, key))
    if row is None:
        raise _no_extraction(key)
    return _extraction_from_row(row)


def _run_columns(tx: Transaction, key: RunKey) -> tuple[int, str]:
    columns = runs.run_columns(tx, key)
    if columns is None:
        raise _no_extraction(key)
    return columns


def _no_extraction(key: RunKey) -> NotFound:
    return NotFound(f"no extraction was requested for run {key.run_id}")


def _extraction_from_row(row: Sequence[Any]) -> Extraction:
    return Extraction(
        run_id=row[0],
        state=row[1],
        facts=tuple(json.loads(row[2])),
        reason=row[3],
        attempts=row[4],
        model=row[5],
        calls=row[6],
        input_tokens=row[7],
        output_tokens=row[8],
        cost=row[9] / _NANO,
    )


def _record_event(
    tx: Transaction, kind: str, columns: tuple[int, str], actor: str, payload: Mapping[str, Any]
) -> None:
    scope = tx.fetch_first(_SCOPE_OF, columns)
    number = base.find_scope(tx, scope[0]) if scope else None
    realm_no, run_id = columns
    parts = [{"run": run_id, "realm": realm_no, **payload}]
    tx.record(kind, scope_no=number, actor=actor, parts=parts)
