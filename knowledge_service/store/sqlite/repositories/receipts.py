"""Receipts of recalls in tables: written with the uses of their facts, read, deleted when old."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import apsw

from knowledge_client.models import Receipt
from knowledge_service.ports import NewReceipt
from knowledge_service.store.sqlite.db.transaction import BatchableJob, Transaction
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base

_RECEIPT = """INSERT INTO receipt(id, principal, observer_no, run_id, attempt, at, query_hash, body,
  realm_no) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_FIND = """SELECT r.body, s.path FROM receipt r JOIN scope s ON s.scope_no = r.observer_no
  WHERE r.id = ? AND s.retired_at IS NULL"""
_FACT_NUMBERS = """SELECT f.id, f.fact_no, f.scope_no FROM json_each(?) n CROSS JOIN fact f
  ON f.id = n.value"""
_USE = """INSERT INTO usage(fact_no, observer_no, kind, count, last_at) VALUES(?, ?, ?, 1, ?)
  ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at"""
_USE_SCOPE = """INSERT INTO scope_usage(scope_no, observer_no, kind, count, last_at)
  VALUES(?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET count = count + excluded.count, last_at = excluded.last_at"""
_SERVED = """INSERT OR IGNORE INTO served(fact_no, at, receipt, principal, observer_no, run_id)
  VALUES(?, ?, ?, ?, ?, ?)"""
_OLD_RECEIPTS = """SELECT r.id, r.at FROM receipt r LEFT JOIN run USING(realm_no, run_id)
  WHERE r.at < ? AND (run.run_id IS NULL OR run.outcome IS NOT NULL) ORDER BY r.at LIMIT ?"""
# `served` is indexed by fact; the facts of a receipt are in its body.
_NOT_SERVED = """DELETE FROM served WHERE at = ?1 AND receipt = ?2
  AND observer_no = (SELECT observer_no FROM receipt WHERE id = ?2) AND fact_no IN
  (SELECT f.fact_no FROM receipt r, json_each(r.body, '$.facts') j JOIN fact f ON f.id = j.value
   WHERE r.id = ?2)"""
_NO_RECEIPT = "DELETE FROM receipt WHERE id = ?"
_PORTION = 500  # about 10 ms of the writer's time


def find(connection: apsw.Connection, receipt_id: str) -> NewReceipt | None:
    """Return a receipt and its observer."""
    for body, observer in connection.execute(_FIND, (receipt_id,)):
        return NewReceipt(Receipt.model_validate_json(body), observer)
    return None


class RecordReceipt(BatchableJob):
    """Writes a receipt and its uses; the receipts of one commit are written together."""

    max_batch = 128  # none has to run alone

    def __init__(self, new: NewReceipt) -> None:
        self.new = new

    def __call__(self, tx: Transaction) -> None:
        """Write the receipt."""
        record(tx, [self.new])

    def run_batch(self, tx: Transaction, jobs: Sequence[RecordReceipt]) -> list[None]:
        """Write the receipts of all jobs."""
        record(tx, [job.new for job in jobs])
        return [None] * len(jobs)


def record(tx: Transaction, receipts: Sequence[NewReceipt]) -> None:
    """Write receipts, and count the uses of their facts, also by the scopes of these facts."""
    fact_ids = dict.fromkeys(chain.from_iterable([new.receipt.facts for new in receipts]))
    known_facts = {
        fact_id: rest
        for fact_id, *rest in tx.fetch_all(_FACT_NUMBERS, (json_list(list(fact_ids)),))
    }
    receipt_rows: list[tuple[Any, ...]] = []
    served_rows: list[tuple[Any, ...]] = []
    usage_rows: list[tuple[Any, ...]] = []
    scope_usage_rows: list[tuple[Any, ...]] = []
    for new in receipts:
        receipt = new.receipt
        observer_no = base.ensure_scope(tx, new.observer, receipt.principal)
        origin = (receipt.id, receipt.principal, observer_no, receipt.run)
        realm_no = base.ensure_scope(tx, new.realm, receipt.principal) if receipt.run else None
        body = receipt.model_dump_json()
        receipt_rows.append(
            (*origin, receipt.attempt, tx.at_us, receipt.query_hash, body, realm_no)
        )
        own_facts = [known_facts[fact_id] for fact_id in receipt.facts if fact_id in known_facts]
        kind = "injected" if receipt.run else "recalled"
        served_rows += [(fact_no, tx.at_us, *origin) for fact_no, _ in own_facts]
        usage_rows += [(fact_no, observer_no, kind, tx.at_us) for fact_no, _ in own_facts]
        # Besides the uses of its facts, a scope counts the recall itself.
        scopes = sorted(Counter([scope_no for _, scope_no in own_facts]).items())
        scope_usage_rows += [
            (scope_no, observer_no, kind, count, tx.at_us) for scope_no, count in scopes
        ]
        scope_usage_rows += [
            (scope_no, observer_no, "recall", 1, tx.at_us) for scope_no, _ in scopes
        ]
    tx.executemany(_RECEIPT, receipt_rows)
    tx.executemany(_SERVED, sorted(served_rows, key=operator.itemgetter(0)))
    tx.executemany(_USE, sorted(usage_rows, key=operator.itemgetter(0)))
    tx.executemany(_USE_SCOPE, scope_usage_rows)


def delete_receipts(tx: Transaction, cutoff_us: int) -> int:
    """Delete some receipts made before a time, and their rows in `served`; return their number."""
    rows = tx.fetch_all(_OLD_RECEIPTS, (cutoff_us, _PORTION))
    for identity, at in rows:
        tx.execute(_NOT_SERVED, (at, identity))
        tx.execute(_NO_RECEIPT, (identity,))
    return len(rows)
