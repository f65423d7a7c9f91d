"""Deletes old receipts, inside a write."""

from __future__ import annotations

from knowledge_service.store.sqlite.db.transaction import Transaction

_OLD_RECEIPTS = """SELECT r.id, r.at FROM receipt r LEFT JOIN run USING(realm_no, run_id)
  WHERE r.at < ? AND (run.run_id IS NULL OR run.outcome IS NOT NULL) ORDER BY r.at LIMIT ?"""
# `served` is indexed by fact; the facts of a receipt are in its body.
_NOT_SERVED = """DELETE FROM served WHERE at = ?1 AND receipt = ?2
  AND observer_no = (SELECT observer_no FROM receipt WHERE id = ?2) AND fact_no IN
  (SELECT f.fact_no FROM receipt r, json_each(r.body, '$.facts') j JOIN fact f ON f.id = j.value
   WHERE r.id = ?2)"""
_NO_RECEIPT = "DELETE FROM receipt WHERE id = ?"
_PORTION = 500  # about 10 ms of the writer's time


def delete_receipts(tx: Transaction, cutoff_us: int) -> int:
    """Delete some receipts made before a time, and their rows in `served`; return their number."""
    rows = tx.fetch_all(_OLD_RECEIPTS, (cutoff_us, _PORTION))
    for identity, at in rows:
        tx.execute(_NOT_SERVED, (at, identity))
        tx.execute(_NO_RECEIPT, (identity,))
    return len(rows)
