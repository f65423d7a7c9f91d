"""One fact that everybody sees, and a cell that reads it: alone, then among strangers.

`python -m bench.shared_fact [strangers] [visible]` prints one JSON line: p50 of the processor time
of each question of the reader, in ms, alone and with `strangers` other cells (default: 10,000),
each with an outcome, five links, a name, a run, an event and a receipt of its own. With `visible`,
the reader is a person who sees so many scopes of a realm; every tenth of them did with the fact
what a stranger does. The rows are written as the store would have: only reading is measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from knowledge_client.models import AliasIn, FactIn, RunIn, Source
from knowledge_service.domain import facts
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.aliases import Name
from knowledge_service.ports import Actor, AuditReader, NeighbourQuery, RunListing, Search
from knowledge_service.store.sqlite.store import SqliteStore

_REALM = "realm:demo"
_HOME = f"{_REALM}/formation:team/cell:lead-0"
_ACTOR = Actor("bench", "system")
CONTENT = "the build needs Java 21"
_NAME = Name("shop", "java")
_LINKS = 5
_CALLS, _TIME_LIMIT_S = 200, 1.0
_SCOPE = """INSERT INTO scope(scope_no, path, realm_no, created_at) VALUES(?1, ?2, ?1, 1)"""
_FACT = """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source,
  source_type, recorded_at, content_hash) VALUES(?1, 'f-' || ?1, ?2, 'fact', 'x', '[]', 0.5,
  '{"type":"user_input"}', 'user_input', 1, randomblob(32))"""
_USE = """INSERT INTO usage(fact_no, observer_no, kind, count, last_at)
  VALUES(1, ?, 'succeeded', 1, 1)"""
_LINK = """INSERT INTO link(id, from_no, to_no, from_scope, to_scope, type, actor, recorded_at)
  VALUES('l-' || ?1 || '-' || ?3, ?1, 1, ?2, 1, 'related' || ?3, 'bench', 1)"""
_ALIAS = "INSERT INTO alias(scope_no, namespace, value, fact_no) VALUES(?, 'shop', 'java', ?)"
_EVENT = """INSERT INTO event(scope_no, type, actor, at, payload_hash, prev_hash)
  VALUES(?1, 'fact.confirmed', 'bench', ?1, X'00', X'00')"""
_RECEIPT = """INSERT INTO receipt(id, principal, observer_no, at, query_hash, body)
  VALUES('r-' || ?1, 'bench', ?1, ?1, '', '{"facts": []}')"""
_SERVED = """INSERT INTO served(fact_no, observer_no, at, receipt, principal)
  VALUES(1, ?1, ?1, 'r-' || ?1, 'bench')"""
_RUN = """INSERT INTO run(realm_no, run_id, scope, namespace, blueprint, outcome, opened_at,
  last_at, body) SELECT ?1, 'r-' || ?1, ?2, namespace, blueprint, outcome, opened_at + ?1, last_at,
  body FROM run WHERE run_id = 'own'"""


def store_facts(store: SqliteStore) -> str:
    """Store the famous fact and what the cell itself has; return the fact's id."""
    source = Source(type="user_input", actor="bench")
    alias = AliasIn(namespace="shop", value="java")
    new_facts = [
        facts.new_fact(FactIn(content=CONTENT), scope="platform", source=source, confidence=0.5),
        facts.new_fact(
            FactIn(content=f"{CONTENT} or later", aliases=(alias,)),
            scope=_HOME,
            source=source,
            confidence=0.5,
        ),
    ]
    remembered = store.remember(new_facts, actor=_ACTOR)
    run = RunIn(namespace="demo", scope=_HOME, blueprint="review", outcome="Succeeded")
    store.put_run("own", run, actor=_ACTOR)
    return remembered[0].fact_id


def add_scopes(path: Path, paths: Sequence[str], *, stride: int = 1) -> None:
    """Add scopes; each `stride`th has done something with fact 1."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous=OFF")
    newest: Any = db.execute("SELECT max(scope_no) FROM scope").fetchall()[0][0]
    first = newest + 1_000
    with db:
        for number, scope in enumerate(paths, first):
            db.execute(_SCOPE, (number, scope))
            if number % stride:
                continue
            db.execute(_FACT, (number, number))
            db.execute(_USE, (number,))
            db.executemany(_LINK, [(number, number, n) for n in range(_LINKS)])
            db.execute(_ALIAS, (number, number))
            db.execute(_RUN, (number, scope))
            for sql in (_EVENT, _RECEIPT, _SERVED):
                db.execute(sql, (number,))
    db.close()


def questions(store: SqliteStore, fact_id: str, view: View) -> Mapping[str, Callable[[], object]]:
    """Return what the reader asks."""
    position = store.bounds()[0]
    reaches = view.scope_ranges or (ScopeRange(_HOME, subtree=False),)
    return {
        "recall": lambda: store.search(Search(view, CONTENT, 10)).hits,
        "name": lambda: store.named(_NAME, view),
        "runs": lambda: store.list_runs(RunListing(view, 50)),
        "links": lambda: store.links(fact_id, view, types=(), before_id=None, limit=50),
        "neighbours": lambda: store.neighbors(NeighbourQuery(fact_id, 2, 50), view),
        "why": lambda: store.why(fact_id, AuditReader(view, "bench")),
        "impact": lambda: store.impact(fact_id, AuditReader(view, "bench"), limit=50),
        "stream": lambda: store.changes(position, view, limit=50),
        "audit": lambda: store.audit(reaches, None, limit=50),
    }


def measure(path: Path, fact_id: str, view: View) -> dict[str, float]:
    """Measure the processor time of each question; p50 in milliseconds."""
    store = SqliteStore(path)
    medians = {}
    for name, ask in questions(store, fact_id, view).items():
        samples: list[float] = []
        end = time.thread_time() + _TIME_LIMIT_S
        while len(samples) < _CALLS and (not samples or time.thread_time() < end):
            start = time.thread_time()
            ask()
            samples.append((time.thread_time() - start) * 1000)
        medians[name] = round(sorted(samples)[len(samples) // 2], 3)
    store.close()
    return medians


def main(strangers: int, visible: int) -> None:
    """Measure and print."""
    view = View(_REALM, (ScopeRange(_REALM, subtree=True),)) if visible else View(_HOME)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "knowledge.db"
        store = SqliteStore(path)
        fact_id = store_facts(store)
        store.close()
        add_scopes(
            path, [f"{_REALM}/formation:f{n // 50}/cell:c{n}" for n in range(visible)], stride=10
        )
        alone = measure(path, fact_id, view)
        add_scopes(path, [f"realm:r{n}/cell:c" for n in range(strangers)])
        report = {
            "strangers": strangers,
            "visible": visible,
            "alone": alone,
            "among_them": measure(path, fact_id, view),
        }
        sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 10_000,
        int(sys.argv[2]) if len(sys.argv) > 2 else 0,
    )
