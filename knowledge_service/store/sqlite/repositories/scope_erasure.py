"""Erases the facts of deleted scopes: a few per commit, between other writes."""

from __future__ import annotations

from typing import Any

import apsw

from knowledge_service.fact_transactions import erase
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

# A scope whose facts are all erased yields no more rows.
_UNERASED = """SELECT f.id, s.path, s.erased_by FROM scope s INDEXED BY scope_erased
  CROSS JOIN fact f INDEXED BY fact_newest ON f.scope_no = s.scope_no
  WHERE s.erased_by IS NOT NULL LIMIT ?"""
_COUNT = """SELECT count(*) FROM scope s INDEXED BY scope_erased
  CROSS JOIN fact f INDEXED BY fact_newest ON f.scope_no = s.scope_no
  WHERE s.erased_by IS NOT NULL"""
# Facts per commit, which take some 20 ms of the writer's time.
_PORTION = 4


def erase_some(tx: Transaction) -> int:
    """Erase some facts of deleted scopes with their promoted copies; return the number of facts."""
    rows = tx.fetch_all(_UNERASED, (_PORTION,))
    uow = SqliteUnitOfWork(tx)
    for fact_id, path, actor in rows:
        reason = f"the scope {path} was deleted"
        fact_ids = (fact_id, *erase.find_copies(uow, fact_id))
        uow.erase(fact_ids, actor=Actor(actor, "system"), reason=reason)
    return len(rows)


def count(connection: apsw.Connection) -> int:
    """Return the number of facts of deleted scopes that are not erased yet."""
    rows: Any = connection.execute(_COUNT).fetchall()
    return int(rows[0][0])
