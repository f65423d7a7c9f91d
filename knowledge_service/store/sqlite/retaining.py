"""Archives what declared scopes hold beyond their bounds, inside a write."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from knowledge_client.models import ScopeConfig
from knowledge_service.domain import retention, statistics
from knowledge_service.store.sqlite import times
from knowledge_service.store.sqlite.desk import TableDesk
from knowledge_service.store.sqlite.transaction import Transaction
from knowledge_service.store.verbs import archiving

_BOUND = """SELECT scope_no, path, config FROM scope WHERE retired_at IS NULL
  AND json_extract(config, '$.retention.max_facts') < live_facts ORDER BY scope_no"""
_LIVE = """SELECT f.id, f.confidence,
    max(f.recorded_at, coalesce((SELECT max(c.at) FROM confirmation c
      WHERE c.fact_no = f.fact_no), 0)),
    (SELECT total(u.count) FROM usage u WHERE u.fact_no = f.fact_no AND u.kind = 'succeeded'),
    (SELECT total(u.count) FROM usage u WHERE u.fact_no = f.fact_no AND u.kind = 'failed'),
    f.expires_at,
    f.review = 'approved'
      OR f.fact_no IN (SELECT p.copy_no FROM promotion p WHERE p.undone_at IS NULL)
  FROM fact f WHERE f.scope_no = ? AND f.lifecycle = 'live'"""
_OLD_RECEIPTS = """SELECT r.id, r.at FROM receipt r LEFT JOIN run USING(realm_no, run_id)
  WHERE r.at < ? AND (run.run_id IS NULL OR run.outcome IS NOT NULL) ORDER BY r.at LIMIT ?"""
# `served` is found by fact; the facts of a receipt are in its body.
_NOT_SERVED = """DELETE FROM served WHERE at = ?1 AND receipt = ?2 AND fact_no IN
  (SELECT f.fact_no FROM receipt r, json_each(r.body, '$.facts') j JOIN fact f ON f.id = j.value
   WHERE r.id = ?2)"""
_NO_RECEIPT = "DELETE FROM receipt WHERE id = ?"
_PORTION = 500  # about 10 ms of the writer's time
_OPEN_RUNS = (
    "SELECT r.body FROM receipt r JOIN run USING(realm_no, run_id) WHERE run.outcome IS NULL"
)


def retain(tx: Transaction) -> int:
    """Archive; return how many facts went."""
    bound = tx.all(_BOUND)
    named = _named_by_open_runs(tx) if bound else frozenset()
    count = 0
    for scope_no, path, config in bound:
        settings = ScopeConfig.model_validate_json(config).retention
        candidates = [_candidate(row, named) for row in tx.all(_LIVE, (scope_no,))]
        chosen = retention.choose(candidates, settings, times.from_us(tx.at_us))
        archiving.archive(TableDesk(tx), path, chosen)
        count += len(chosen)
    return count


def forget_recalls(tx: Transaction, before_us: int) -> int:
    """Delete a portion of the receipts made before a moment, with what leads to them."""
    found = tx.all(_OLD_RECEIPTS, (before_us, _PORTION))
    for identity, at in found:
        tx.execute(_NOT_SERVED, (at, identity))
        tx.execute(_NO_RECEIPT, (identity,))
    return len(found)


def _candidate(row: tuple[Any, ...], named: frozenset[str]) -> retention.Candidate:
    expires: datetime | None = times.from_us(row[5])
    return retention.Candidate(
        fact_id=row[0],
        confidence=row[1],
        since=times.from_us(row[2]),
        usefulness=statistics.usefulness(int(row[3]), int(row[4])),
        expires_at=expires,
        is_kept=bool(row[6]) or row[0] in named,
    )


def _named_by_open_runs(tx: Transaction) -> frozenset[str]:
    return frozenset(
        fact_id for (body,) in tx.all(_OPEN_RUNS) for fact_id in json.loads(body)["facts"]
    )
