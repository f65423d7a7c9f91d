"""Counts the outcome of a run for the facts that it recalled."""

from __future__ import annotations

from knowledge_client.models import Receipt
from knowledge_service.domain import run_reports
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import fact_rows

_FACT = f"{fact_rows.SELECT} WHERE f.id = ?"
_NUMBERS = "SELECT fact_no, scope_no FROM fact WHERE id = ?"
_USE = """INSERT INTO usage(fact_no, observer_no, kind, count, last_at) VALUES(?, ?, ?, 1, ?)
  ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at"""
_USE_SCOPE = """INSERT INTO scope_usage(scope_no, observer_no, kind, count, last_at)
  VALUES(?, ?, ?, 1, ?) ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at"""
_EXPOSED_FACTS = "INSERT OR IGNORE INTO fact_run(fact_no, realm_no, run_id) VALUES(?, ?, ?)"
_OF_RUN = """SELECT observer_no, body FROM receipt WHERE realm_no = ? AND run_id = ?
  ORDER BY id"""


def credit(tx: Transaction, realm_no: int, run_id: str, kind: str) -> tuple[str, ...]:
    """Count the outcome of a run for the facts that it recalled, once for each fact and observer.

    Facts that the run itself stored get no credit. Returns the distinct facts that were credited.
    """
    credited_pairs: set[tuple[str, int]] = set()
    for observer_no, body in tx.fetch_all(_OF_RUN, (realm_no, run_id)):
        credited_pairs.update(
            (fact, observer_no) for fact in Receipt.model_validate_json(body).facts
        )
    credited: dict[str, None] = {}
    for fact_id, observer_no in sorted(credited_pairs):
        fact = next(fact_rows.facts(tx.connection, _FACT, (fact_id,)), None)
        if fact is None or run_reports.is_own(run_id, fact):
            continue
        for fact_no, scope_no in tx.fetch_all(_NUMBERS, (fact_id,)):
            tx.execute(_USE, (fact_no, observer_no, kind, tx.at_us))
            tx.execute(_USE_SCOPE, (scope_no, observer_no, kind, tx.at_us))
            tx.execute(_EXPOSED_FACTS, (fact_no, realm_no, run_id))
        credited[fact_id] = None
    return tuple(credited)
