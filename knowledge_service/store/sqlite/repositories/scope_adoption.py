"""Merges a scope with its retired predecessor of the same path, as when a namespace is recreated.

The old scope returns with its number, its facts and its index. The facts of the present scope move
into it, and the present scope is retired; no fact is lost.
"""

from __future__ import annotations

from typing import Any

from knowledge_client.models import AdoptionResult
from knowledge_service.domain.access_control import realm_of
from knowledge_service.errors import Conflict
from knowledge_service.event_log.index_documents import SCOPE_ADOPTED
from knowledge_service.event_log.payload_erasure import NAME_RESTATED
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.projections import trigram_index
from knowledge_service.store.sqlite.repositories import base

# Moving a fact to another index costs time; this many facts take about a second.
_MOST_MOVED = 2_000

_LAST = """SELECT scope_no, retired_at FROM scope
  WHERE path = ? AND retired_at IS NOT NULL AND erased_by IS NULL
  ORDER BY retired_at DESC, scope_no DESC LIMIT 1"""
_MOVED_WITH_FACTS = """SELECT scope_no, path FROM scope
  WHERE realm_no = ? AND retired_at = ? AND erased_by IS NULL
  ORDER BY scope_no"""
_MOVING = "SELECT fact_no FROM fact WHERE scope_no = ? ORDER BY fact_no"
_EQUAL_RUNS = """SELECT a.run_id FROM run a JOIN run b USING(run_id)
  WHERE a.realm_no = ? AND b.realm_no = ? ORDER BY a.run_id LIMIT 3"""
_COUNT = "SELECT count(*) FROM fact WHERE scope_no = ? AND lifecycle = 'live'"
# The moved fact keeps such a name, which the fact of the old scope loses.
_NAMES_OF_BOTH = """SELECT moved.namespace, moved.value, holder.id, earlier.id
  FROM alias moved JOIN alias kept USING(namespace, value)
  JOIN fact holder ON holder.fact_no = moved.fact_no
  JOIN fact earlier ON earlier.fact_no = kept.fact_no
  WHERE kept.scope_no = ? AND moved.scope_no = ? ORDER BY 1, 2"""
# Usage, receipts and vectors are not projections: only these statements move them.
_FOLLOW = (
    """INSERT INTO usage(fact_no, observer_no, kind, count, last_at)
  SELECT fact_no, ?1, kind, count, last_at FROM usage WHERE observer_no = ?2
  ON CONFLICT DO UPDATE SET count = count + excluded.count,
    last_at = max(last_at, excluded.last_at)""",
    "DELETE FROM usage WHERE observer_no = ?2",
    """INSERT INTO scope_usage(scope_no, observer_no, kind, count, last_at)
  SELECT iif(scope_no = ?2, ?1, scope_no), iif(observer_no = ?2, ?1, observer_no), kind,
    sum(count), max(last_at) FROM scope_usage WHERE ?2 IN (scope_no, observer_no) GROUP BY 1, 2, 3
  ON CONFLICT DO UPDATE SET count = count + excluded.count,
    last_at = max(last_at, excluded.last_at)""",
    "DELETE FROM scope_usage WHERE ?2 IN (scope_no, observer_no)",
    "UPDATE receipt SET observer_no = ?1 WHERE observer_no = ?2",
    "UPDATE receipt SET realm_no = ?1 WHERE realm_no = ?2",
    "UPDATE fact_run SET realm_no = ?1 WHERE realm_no = ?2",
    "UPDATE served SET observer_no = ?1 WHERE observer_no = ?2",
    "UPDATE OR REPLACE vector SET scope_no = ?1 WHERE scope_no = ?2",
)


class Adoption(base.SqliteRepository):
    """The adoption part of the `ScopeStore` port."""

    def adopt_scope(self, path: str, *, actor: Actor) -> AdoptionResult | None:
        """Restore the last predecessor; of a realm, also the scopes that were retired with it."""

        def work(tx: Transaction) -> AdoptionResult | None:
            row = tx.fetch_first(_LAST, (path,))
            if row is None:
                return None
            number, retired_at = row
            old = [(number, path)]
            if path == realm_of(path):
                old = [
                    (int(n), str(p))
                    for n, p in tx.fetch_all(_MOVED_WITH_FACTS, (number, retired_at))
                ]
            realm = base.find_scope(tx, realm_of(path))
            home = number if path == realm_of(path) or realm is None else realm
            facts = sum(_adopt(tx, predecessor, home, actor) for predecessor in old)
            return AdoptionResult(path=path, scopes=tuple(sorted(p for _, p in old)), facts=facts)

        return self._writer.submit(work)


def _adopt(tx: Transaction, old: tuple[int, str], realm_no: int, actor: Actor) -> int:
    number, path = old
    now = base.find_scope(tx, path)
    moving = [int(row[0]) for row in tx.fetch_all(_MOVING, (now,))] if now is not None else []
    if len(moving) > _MOST_MOVED:
        raise Conflict(
            f"{path} has stored {len(moving)} facts since; adopting moves {_MOST_MOVED} at most:"
            " export it, delete it, adopt the old one, then import the export"
        )
    _refuse_equal_runs(tx, old, now)
    fact_count = int((tx.fetch_first(_COUNT, (number,)) or (0,))[0])
    searched = trigram_index.entries(tx.connection, moving)
    part: dict[str, Any] = {"path": path, "from": now, "realm": realm_no, "numbers": moving}
    names = [
        {"namespace": namespace, "value": value, "fact": holder, "was": earlier}
        for namespace, value, holder, earlier in tx.fetch_all(_NAMES_OF_BOTH, (number, now))
    ]
    tx.record(SCOPE_ADOPTED, scope_no=number, actor=actor.name, parts=[part])
    if names:  # so that an erasure of the holder finds the earlier events of the name
        tx.record(NAME_RESTATED, scope_no=number, actor=actor.name, parts=names)
    if now is not None:
        for statement in _FOLLOW:
            tx.execute(statement, (number, now))
        tx.hash_index.move(now, number, moving)
        tx.index(number, projection_rebuild.texts_of(tx.connection, moving))
        tx.unindex_scope(now)
        for entry in searched:
            tx.trigrams.remove(entry)
        for entry in trigram_index.entries(tx.connection, moving):
            tx.trigrams.add(entry)
    return fact_count


def _refuse_equal_runs(tx: Transaction, old: tuple[int, str], now: int | None) -> None:
    """Check that the old and the present realm have no runs with the same id.

    Raises:
        Conflict: they have; ids are unique in a realm.
    """
    number, path = old
    runs = [row[0] for row in tx.fetch_all(_EQUAL_RUNS, (number, now))] if now is not None else []
    if runs:
        raise Conflict(
            f"{path} has runs of its own with ids that the old one has ({', '.join(runs)}):"
            " export it, delete it, adopt the old one, then import the export"
        )
