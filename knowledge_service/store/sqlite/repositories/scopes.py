"""Scopes in tables: configuration, counters and deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from knowledge_client.models import ScopeConfig, ScopeStats
from knowledge_service.domain import run_statistics
from knowledge_service.domain.access_control import View
from knowledge_service.event_log import times
from knowledge_service.ports import Actor
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base, stored_text_erasure

_DIFFERS = "SELECT 1 FROM scope WHERE scope_no = ? AND config IS NOT ?"
_CONFIG = "SELECT config FROM scope WHERE path = ? AND retired_at IS NULL AND config IS NOT NULL"
_STATS = """SELECT scope_no, live_facts, last_write_at FROM scope
  WHERE path = ? AND retired_at IS NULL"""
_BY_LEVEL = """SELECT CASE WHEN path = 'platform' THEN 'platform'
    WHEN instr(path, '/cell:') THEN 'cell' WHEN instr(path, '/formation:') THEN 'formation'
    ELSE 'realm' END, sum(live_facts) FROM scope WHERE retired_at IS NULL GROUP BY 1"""
_USAGE = """SELECT o.path, u.kind, u.count FROM scope_usage u
  JOIN scope o ON o.scope_no = u.observer_no WHERE u.scope_no = ? AND o.retired_at IS NULL"""
_USAGE_SEEN = """SELECT o.path, u.kind, u.count FROM json_each(?2) s
  CROSS JOIN scope_usage u ON u.scope_no = ?1 AND u.observer_no = s.value
  JOIN scope o ON o.scope_no = u.observer_no"""
_CROWDED = "SELECT EXISTS(SELECT 1 FROM scope_usage WHERE scope_no = ? LIMIT 1 OFFSET ?)"

LEVELS = ("platform", "realm", "formation", "cell")
# Settings of scopes cached in memory, a kilobyte each; an arbitrary number.
_REMEMBERED = 20_000


class Scopes(base.SqliteRepository):
    """The `ScopeStore` port."""

    _declared: tuple[int, dict[str, ScopeConfig | None]] = (-1, {})

    def put_scope(self, path: str, config: ScopeConfig, *, actor: Actor) -> None:
        """Declare a scope; an equal declaration writes nothing."""
        text = config.model_dump_json()

        def work(tx: Transaction) -> None:
            number = base.ensure_scope(tx, path, actor.name)
            if tx.fetch_first(_DIFFERS, (number, text)):
                part = {"path": path, "config": config.model_dump(mode="json")}
                tx.record("scope.configured", scope_no=number, actor=actor.name, parts=[part])

        self._writer.submit(work)

    def scope_configs(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig]:
        """Return declarations, from the cache if possible."""
        version, configs = self._declared
        if version != self._writer.scopes_version or len(configs) > _REMEMBERED:
            version, configs = self._declared = (self._writer.scopes_version, {})
        missing = [path for path in paths if path not in configs]
        if missing:
            # Cached under the version that was read first, so that it cannot outlive a change.
            configs.update(self._declarations(missing))
        requested = {path: configs[path] for path in paths}
        return {path: config for path, config in requested.items() if config}

    def _declarations(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig | None]:
        declarations: dict[str, ScopeConfig | None] = dict.fromkeys(paths)
        with self._readers.snapshot() as connection:
            for path in paths:
                for (text,) in connection.execute(_CONFIG, (path,)):
                    declarations[path] = ScopeConfig.model_validate_json(text)
        return declarations

    def list_scopes(self, view: View) -> tuple[str, ...]:
        """Return the visible scopes by path."""
        with self._readers.bulk_connection() as connection:
            return tuple(sorted(base.visible_paths(connection, view, None)))

    def delete_scope(self, path: str, *, actor: Actor, erase: bool = False) -> bool:
        """Retire a scope; its successor starts empty."""

        def work(tx: Transaction) -> bool:
            number = base.find_scope(tx, path)
            if number is None:
                return False
            retire(tx, number, path, actor, erase=erase)
            stored_text_erasure.forget_answers_of_scope(tx, path)
            return True

        existed = self._writer.submit(work)
        if erase:
            self._readers.wait_for_earlier_snapshots(self._writer.erased_at_s)
        return existed

    def reset_scope(self, path: str, *, actor: Actor) -> bool:
        """Remove a declaration."""

        def work(tx: Transaction) -> bool:
            number = base.find_scope(tx, path)
            if number is None or not tx.fetch_first(_DIFFERS, (number, None)):
                return False
            tx.record("scope.reset", scope_no=number, actor=actor.name, parts=[{"path": path}])
            return True

        return self._writer.submit(work)

    def facts_by_level(self) -> dict[str, int]:
        """Count the live facts of all scopes of each level, from the counters of the scopes."""
        with self._readers.snapshot() as connection:
            counted = {str(level): int(count) for level, count in connection.execute(_BY_LEVEL)}
        return {level: counted.get(level, 0) for level in LEVELS}

    def scope_stats(self, paths: Sequence[str], view: View) -> tuple[ScopeStats, ...]:
        """Read the counters."""
        with self._readers.bulk_connection() as connection:
            scope_filter = base.scope_filter(view, base.visible_scopes(connection, view, None))
            return tuple(_stats(connection, path, view, scope_filter) for path in paths)


def retire(
    tx: Transaction, number: int, path: str, actor: Actor, *, erase: bool = False
) -> None:  # fmt: skip
    """Retire a scope; with `erase`, its facts are erased from then on."""
    part: dict[str, Any] = {"path": path}
    if erase:
        part["erase"] = True
    tx.record("scope.retired", scope_no=number, actor=actor.name, parts=[part])


def _stats(
    connection: apsw.Connection, path: str, view: View, scopes: base.ScopeFilter
) -> ScopeStats:
    row = next(iter(connection.execute(_STATS, (path,))), None)
    if row is None:
        return ScopeStats(path=path)
    usage: Counter[str] = Counter()
    query: tuple[str, tuple[Any, ...]] = (_USAGE, (row[0],))
    if scopes.is_named(connection, _CROWDED, row[0]):
        query = (_USAGE_SEEN, (row[0], scopes.scopes))
    for observer, kind, count in connection.execute(*query):
        if view.can_read(observer):
            usage[kind] += count
    return ScopeStats(
        path=path,
        facts=row[1],
        recalls=usage["recall"],
        usefulness=run_statistics.usefulness(usage["succeeded"], usage["failed"]),
        last_write_at=times.from_us(row[2]),
    )
