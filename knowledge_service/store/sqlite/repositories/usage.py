"""Usage in tables: rows by fact, observer and kind, and their sums by scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
from pydantic import TypeAdapter

from knowledge_client.models import UsageCount, UsageKind
from knowledge_service.domain.access_control import View
from knowledge_service.event_log import times
from knowledge_service.ports import NO_CONTEXT, FactUsage, IdempotencyKey, UsageContext
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.projections import usage as projected
from knowledge_service.store.sqlite.repositories import base

_COUNTED: TypeAdapter[int] = TypeAdapter(int)

_FACT = "SELECT fact_no, scope_no FROM fact WHERE id = ?"
_USE = """INSERT INTO usage(fact_no, observer_no, kind, count, last_at) VALUES(?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET count = count + excluded.count, last_at = excluded.last_at"""
_USE_SCOPE = """INSERT INTO scope_usage(scope_no, observer_no, kind, count, last_at)
  VALUES(?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET count = count + excluded.count, last_at = excluded.last_at"""
_OF_FACT = """SELECT o.path, u.kind, u.count, u.last_at FROM usage u
  JOIN scope o ON o.scope_no = u.observer_no
  WHERE u.fact_no = ? AND o.retired_at IS NULL ORDER BY u.kind, o.path"""
_OF_FACT_SEEN = """SELECT o.path, u.kind, u.count, u.last_at FROM json_each(?2) s
  CROSS JOIN usage u ON u.fact_no = ?1 AND u.observer_no = s.value
  JOIN scope o ON o.scope_no = u.observer_no ORDER BY u.kind, o.path"""
_CROWDED = "SELECT EXISTS(SELECT 1 FROM usage WHERE fact_no = ? LIMIT 1 OFFSET ?)"


class Usage(base.SqliteRepository):
    """The `UsageStore` port."""

    def count_usage(
        self,
        uses: Sequence[FactUsage],
        *,
        observer: str,
        actor: str,
        context: UsageContext = NO_CONTEXT,
        idempotency_key: IdempotencyKey | None = None,
    ) -> int:
        """Count uses in one transaction, and append them to the log."""

        def work(tx: Transaction) -> int:
            observer_no = base.ensure_scope(tx, observer, actor)
            counted = [(use, _count(tx, use, observer_no)) for use in uses]
            _record(tx, [use for use, count in counted if count], observer_no, actor, context)
            return sum(count for _, count in counted)

        return self._idempotent(idempotency_key, _COUNTED, work)


def usage_of_fact(
    connection: apsw.Connection, fact_no: int, view: View, scopes: base.ScopeFilter
) -> dict[UsageKind, UsageCount]:
    """Return the sum of a fact's uses by observers that the reader may see."""
    counts: dict[Any, UsageCount] = {}
    query: tuple[str, tuple[Any, ...]] = (_OF_FACT, (fact_no,))
    if scopes.is_named(connection, _CROWDED, fact_no):
        query = (_OF_FACT_SEEN, (fact_no, scopes.scopes))
    for observer, kind, count, last_at in connection.execute(*query):
        if not view.can_read(observer):
            continue
        at, previous = times.from_us(last_at), counts.get(kind)
        counts[kind] = (
            UsageCount(count=count + previous.count, last_at=max(at, previous.last_at))
            if previous
            else UsageCount(count=count, last_at=at)
        )
    return counts


def _record(
    tx: Transaction,
    uses: Sequence[FactUsage],
    observer_no: int,
    actor: str,
    context: UsageContext,
) -> None:
    # A run or session that is not known is left out, as in the events of earlier versions.
    context_values = {name: value for name, value in vars(context).items() if value is not None}
    by_kind: dict[UsageKind, list[dict[str, Any]]] = {}
    for use in uses:
        part = {"used": use.fact_id, "count": use.count, **context_values}
        by_kind.setdefault(use.kind, []).append(part)
    for kind, parts in by_kind.items():
        tx.record(projected.type_of(kind), scope_no=observer_no, actor=actor, parts=parts)


def _count(tx: Transaction, use: FactUsage, observer_no: int) -> int:
    row = tx.fetch_first(_FACT, (use.fact_id,))
    if row is None:
        return 0
    tx.execute(_USE, (row[0], observer_no, use.kind, use.count, tx.at_us))
    tx.execute(_USE_SCOPE, (row[1], observer_no, use.kind, use.count, tx.at_us))
    return use.count
