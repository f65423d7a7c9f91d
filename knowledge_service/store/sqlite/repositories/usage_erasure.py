"""Deletes the uses of a fact before the fact is erased: a popular fact has many."""

from __future__ import annotations

from typing import Any

import apsw

from knowledge_service.store.sqlite.db.transaction import Transaction

_DELETE_USAGE = """WITH RECURSIVE gone(no) AS (SELECT fact_no FROM fact WHERE id = ?1
  UNION SELECT p.copy_no FROM gone CROSS JOIN promotion p ON p.origin_no = gone.no
    CROSS JOIN fact c ON c.fact_no = p.copy_no WHERE c.source_type = 'promoted')"""
_COUNT = f"""{_DELETE_USAGE} SELECT
  (SELECT count(*) FROM (SELECT 1 FROM gone CROSS JOIN served s ON s.fact_no = gone.no LIMIT ?2))
  + (SELECT count(*) FROM
    (SELECT 1 FROM gone CROSS JOIN usage u ON u.fact_no = gone.no LIMIT ?2))"""
_FORGET = (
    f"""{_DELETE_USAGE} DELETE FROM served WHERE (fact_no, observer_no, at, receipt) IN (
  SELECT s.fact_no, s.observer_no, s.at, s.receipt FROM gone
  CROSS JOIN served s ON s.fact_no = gone.no LIMIT ?2)""",
    f"""{_DELETE_USAGE} DELETE FROM usage WHERE (fact_no, observer_no, kind) IN (
  SELECT u.fact_no, u.observer_no, u.kind FROM gone
  CROSS JOIN usage u ON u.fact_no = gone.no LIMIT ?2)""",
)
# Rows per table and commit, which take some 10 ms of the writer's time.
_PORTION = 500


def are_many(connection: apsw.Connection, fact_id: str) -> bool:
    """Return whether a fact and its copies have more uses than one commit should delete."""
    rows: Any = connection.execute(_COUNT, (fact_id, _PORTION)).fetchall()
    return bool(rows[0][0] >= _PORTION)


def forget_some(tx: Transaction, fact_id: str) -> int:
    """Delete some uses of a fact and of its copies; return their number."""
    count = 0
    for statement in _FORGET:
        tx.execute(statement, (fact_id, _PORTION))
        count += tx.changes()
    return count
