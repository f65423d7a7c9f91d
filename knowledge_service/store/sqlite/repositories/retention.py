"""Archives facts beyond the bounds of declared scopes.

A reader scans a scope, a page in each snapshot, and chooses the facts. The writer archives some of
them in each commit, after it has checked again that each may be archived: a fact may have been
approved, promoted, changed or recalled by a run since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge_client.models import Retention as Settings
from knowledge_client.models import ScopeConfig
from knowledge_service.domain import retention, run_statistics
from knowledge_service.errors import StoreUnavailable
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import archive as archiving
from knowledge_service.store.sqlite.db.read_pool import ReadPool
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.db.write_queue import WriteQueue
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_BOUND = """SELECT scope_no, path, config, live_facts FROM scope WHERE retired_at IS NULL
  AND json_extract(config, '$.retention.max_facts') < live_facts"""
_BOUNDS = f"{_BOUND} ORDER BY scope_no"
_BOUND_OF = f"{_BOUND} AND scope_no = ?"
_PROTECTED = """f.review = 'approved'
    OR EXISTS (SELECT 1 FROM promotion p WHERE p.copy_no = f.fact_no AND p.undone_at IS NULL)"""
_FACTS = f"""SELECT f.id, f.confidence,
    max(f.recorded_at, coalesce((SELECT max(c.at) FROM confirmation c
      WHERE c.fact_no = f.fact_no), 0)),
    (SELECT total(u.count) FROM usage u WHERE u.fact_no = f.fact_no AND u.kind = 'succeeded'),
    (SELECT total(u.count) FROM usage u WHERE u.fact_no = f.fact_no AND u.kind = 'failed'),
    f.expires_at, f.lifecycle <> 'live' OR {_PROTECTED}, f.version
  FROM fact f INDEXED BY fact_newest WHERE f.scope_no = ? AND f.id > ? ORDER BY f.id LIMIT ?"""
_OF_OPEN_RUNS = """SELECT DISTINCT j.value FROM run
  JOIN receipt r USING(realm_no, run_id), json_each(r.body, '$.facts') j
  WHERE run.outcome IS NULL"""
_MAY_GO = f"""SELECT f.id, f.version FROM json_each(?1) n CROSS JOIN fact f ON f.id = n.value
  WHERE +f.scope_no = ?2 AND +f.lifecycle = 'live' AND NOT ({_PROTECTED})
  AND NOT EXISTS (SELECT 1 FROM served s JOIN receipt r ON r.id = s.receipt
    JOIN run ON run.realm_no = r.realm_no AND run.run_id = r.run_id
    WHERE s.fact_no = f.fact_no AND s.run_id IS NOT NULL AND run.outcome IS NULL)"""
# The number of rows that are read in one snapshot, which takes some milliseconds: a longer read
# would block the checkpoint of the write-ahead log.
_PAGE = 1_000
# The maximum number of facts chosen in one scan of a scope, which are held in memory.
_CHOSEN = 20_000
# Facts archived per commit, which take some milliseconds of the writer's time.
_PORTION = 100
# After a scan, a scope is not scanned again for this many times the duration of the scan. Otherwise
# a large scope that is always slightly over its limit would keep a processor busy.
_REST = 10.0


@dataclass(frozen=True)
class _Bound:
    scope_no: int
    path: str
    settings: Settings
    surplus: int


class Retention:
    """Chooses facts with the readers, archives with the writer; one thread at a time."""

    def __init__(
        self, readers: ReadPool, writer: WriteQueue, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._readers = readers
        self._writer = writer
        self._monotonic = monotonic
        self._not_before_s: dict[int, float] = {}

    def retain(self) -> int:
        """Archive facts in every scope beyond its bound; return their number.

        Raises:
            ExceptionGroup: it failed in some scopes, which the message names; the others are done.
            StoreUnavailable: the store cannot be read or written.
        """
        with self._readers.snapshot() as connection:
            rows: Any = connection.execute(_BOUNDS).fetchall()
        count, failures = 0, {}
        for row in rows:
            try:
                count += self._retain_in(_bound(row))
            except StoreUnavailable:
                raise
            except Exception as exc:  # noqa: BLE001 - a scope must not stop the others
                failures[row[1]] = exc
        if failures:
            message = f"retention failed in these scopes: {', '.join(failures)}"
            raise ExceptionGroup(message, [*failures.values()])
        return count

    def _retain_in(self, bound: _Bound) -> int:
        began_s = self._monotonic()
        if began_s < self._not_before_s.get(bound.scope_no, began_s):
            return 0
        chosen = retention.choose_for_archive(
            self._candidates(bound),
            min(bound.surplus, _CHOSEN),
            bound.settings,
            self._writer.now(),
        )
        ended_s = self._monotonic()
        self._not_before_s[bound.scope_no] = ended_s + _REST * (ended_s - began_s)
        count = 0
        for first in range(0, len(chosen), _PORTION):
            count += self._archive(bound, chosen[first : first + _PORTION])
        return count

    def _archive(self, bound: _Bound, portion: Sequence[retention.Choice]) -> int:
        return self._writer.submit(lambda tx: archive(tx, bound.scope_no, portion))

    def _candidates(self, bound: _Bound) -> Iterator[retention.Candidate]:
        with self._readers.snapshot() as connection:
            facts_of_open_runs = frozenset(
                str(fact_id) for (fact_id,) in connection.execute(_OF_OPEN_RUNS)
            )
        last = ""
        while rows := self._page(bound.scope_no, last):
            yield from (_candidate(row, facts_of_open_runs) for row in rows)
            last = rows[-1][0]

    def _page(self, scope_no: int, last: str) -> list[tuple[Any, ...]]:
        with self._readers.snapshot() as connection:
            return connection.execute(_FACTS, (scope_no, last, _PAGE)).fetchall()


def archive(tx: Transaction, scope_no: int, chosen: Sequence[retention.Choice]) -> int:
    """Archive the facts of one scope that may still be archived; return their number."""
    row = tx.fetch_first(_BOUND_OF, (scope_no,))
    if row is None:
        return 0
    bound = _bound(row)
    chosen_json = json_list([choice.fact_id for choice in chosen])
    may_go = set(tx.fetch_all(_MAY_GO, (chosen_json, scope_no)))
    going = [choice for choice in chosen if (choice.fact_id, choice.version) in may_go][
        : bound.surplus
    ]
    archiving.archive(SqliteUnitOfWork(tx), bound.path, going)
    return len(going)


def _bound(row: Sequence[Any]) -> _Bound:
    scope_no, path, config, live_facts = row
    settings = ScopeConfig.model_validate_json(config).retention
    return _Bound(scope_no, path, settings, retention.surplus(live_facts, settings))


def _candidate(row: tuple[Any, ...], facts_of_open_runs: frozenset[str]) -> retention.Candidate:
    return retention.Candidate(
        fact_id=row[0],
        confidence=row[1],
        since=times.from_us(row[2]),
        usefulness=run_statistics.usefulness(int(row[3]), int(row[4])),
        expires_at=times.from_us(row[5]),
        is_protected=bool(row[6]) or row[0] in facts_of_open_runs,
        version=row[7],
    )
