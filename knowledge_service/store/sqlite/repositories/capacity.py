"""Room for live facts in scopes without a KnowledgeScope, checked inside a write."""

from __future__ import annotations

from knowledge_service.domain import capacity
from knowledge_service.store.sqlite.db.transaction import Transaction

_UNDECLARED = "SELECT path, live_facts FROM scope WHERE scope_no = ? AND config IS NULL"


def has_room(tx: Transaction, scope_no: int, count: int) -> bool:
    """Return whether a scope has room for `count` more live facts."""
    row = tx.fetch_first(_UNDECLARED, (scope_no,))
    return row is None or row[1] + count <= tx.undeclared_facts


def require_room(tx: Transaction, scope_no: int, count: int) -> None:
    """Check that a scope has room for `count` more live facts.

    Raises:
        QuotaExceeded: it has not.
    """
    row = tx.fetch_first(_UNDECLARED, (scope_no,))
    if row is not None and row[1] + count > tx.undeclared_facts:
        raise capacity.scope_full_error(row[0], tx.undeclared_facts)
