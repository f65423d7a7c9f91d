"""Neighbours at many links, and a fact's impact at many receipts: in process, over one file.

`python -m bench.graph [links]` prints one JSON line. Facts have eight links on average, and a few
are hubs with a thousand; the rows are written as the store would have, without its log, because
only reading is measured.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from knowledge_client.models import ScopeConfig
from knowledge_service.domain.access_control import View
from knowledge_service.ports import Actor, AuditReader, NeighbourQuery
from knowledge_service.store.sqlite.store import SqliteStore

_SCOPE = "realm:bench/formation:team"
_LINKS_A_FACT, _HUBS, _SPOKES = 8, 20, 1_000
_QUERIES, _RECEIPTS, _FACTS_A_RECEIPT = 500, 50_000, 10
_FACT = """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source,
  source_type, recorded_at, content_hash) VALUES(?, ?, ?, 'fact', ?, '[]', 0.5,
  '{"type":"user_input"}', 'user_input', 1, ?)"""
_LINK = """INSERT OR IGNORE INTO link(id, from_no, to_no, type, actor, recorded_at, from_scope,
  to_scope) SELECT ?1, ?2, ?3, 'related', 'bench', 1, scope_no, scope_no FROM fact
  WHERE fact_no = ?2"""
_RECEIPT = """INSERT INTO receipt(id, principal, observer_no, at, query_hash, body)
  VALUES(?, 'bench', ?, ?, 'x', '{}')"""
_SERVED = """INSERT OR IGNORE INTO served(fact_no, at, receipt, principal, observer_no)
  VALUES(?, ?, ?, 'bench', ?)"""


def fill(db: apsw.Connection, links: int, scope_no: int) -> int:
    """Write facts, links and receipts; return how many facts there are."""
    dice = random.Random(1)  # noqa: S311 - a workload
    facts = max(links // _LINKS_A_FACT, 2 * _SPOKES)
    with db:
        db.executemany(
            _FACT,
            (
                (n, f"f-{n:09}", scope_no, f"fact number {n} of the bench", n.to_bytes(8, "big"))
                for n in range(1, facts + 1)
            ),
        )
        ends = ((1 + dice.randrange(facts), 1 + dice.randrange(facts)) for _ in range(links))
        db.executemany(_LINK, ((f"l-{n:09}", *pair) for n, pair in enumerate(ends)))
        hubs = [1 + dice.randrange(facts) for _ in range(_HUBS)]
        spokes = ((hub, 1 + dice.randrange(facts)) for hub in hubs for _ in range(_SPOKES))
        db.executemany(_LINK, ((f"h-{n:09}", *pair) for n, pair in enumerate(spokes)))
        for n in range(_RECEIPTS):
            receipt = f"r-{n:09}"
            db.execute(_RECEIPT, (receipt, scope_no, n))
            served_facts = [1, *(1 + dice.randrange(facts) for _ in range(_FACTS_A_RECEIPT - 1))]
            db.executemany(_SERVED, [(fact, n, receipt, scope_no) for fact in served_facts])
    return facts


def measure(
    folder: Path, links: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float | int]:
    """Fill a store and time questions; in milliseconds."""
    path = folder / "graph.db"
    store = SqliteStore(path)
    store.put_scope(_SCOPE, ScopeConfig(), actor=Actor("bench", "system"))
    store.close()
    view = View(_SCOPE)
    db = apsw.Connection(str(path))
    scope_no = next(iter(db.execute("SELECT max(scope_no) FROM scope")))[0]
    db.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-262144")
    facts = fill(db, links, scope_no)
    db.close()
    store = SqliteStore(path)
    dice = random.Random(2)  # noqa: S311 - a workload
    figures: dict[str, float | int] = {"facts": facts, "links": links}
    for depth in (1, 2):
        times = []
        for _ in range(_QUERIES):
            query = NeighbourQuery(f"f-{1 + dice.randrange(facts):09}", depth, 50)
            start = clock()
            store.neighbors(query, view)
            times.append((clock() - start) * 1000)
        times.sort()
        figures |= {
            f"depth{depth}_p50": times[_QUERIES // 2],
            f"depth{depth}_p95": times[-_QUERIES // 20],
        }
    start = clock()
    impact = store.impact("f-000000001", AuditReader(view, "bench"), limit=1_000)
    figures["impact_ms"] = (clock() - start) * 1000
    figures["impact_recalls"] = len(impact.recalls) if impact else 0
    store.close()
    return figures


if __name__ == "__main__":
    link_count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as temporary_folder:
        sys.stdout.write(json.dumps(measure(Path(temporary_folder), link_count)) + "\n")
