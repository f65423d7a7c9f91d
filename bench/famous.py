"""One fact that everybody sees, and a cell that reads it: alone, then among strangers.

`python -m bench.famous [strangers]` prints one JSON line: p50 in ms of each question of the cell,
alone and with `strangers` other cells (default: 10,000), each with an outcome, five links, a name
and a run of its own. The rows are written as the store would have, without its log: only reading is
measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import apsw

from knowledge_client.models import AliasIn, FactIn, RunIn, Source
from knowledge_service.domain import facts
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.visibility import View
from knowledge_service.ports import Actor, Around, Reader, RunListing, Search
from knowledge_service.store.sqlite.store import SqliteStore

_HOME = "realm:demo/formation:team/cell:lead-0"
_ACTOR = Actor("bench", "system")
_WORDS = "the build needs Java 21"
_NAME = Name("shop", "java")
_CALLS, _LINKS = 200, 5
_SCOPE = """INSERT INTO scope(scope_no, path, realm_no, created_at) VALUES(?1, ?2, ?1, 1)"""
_FACT = """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source,
  source_type, recorded_at, content_hash) VALUES(?1, 'f-' || ?1, ?2, 'fact', 'x', '[]', 0.5,
  '{"type":"user_input"}', 'user_input', 1, randomblob(32))"""
_USE = """INSERT INTO usage(fact_no, observer_no, kind, count, last_at)
  VALUES(1, ?, 'succeeded', 1, 1)"""
_LINK = """INSERT INTO link(id, from_no, to_no, from_scope, to_scope, type, actor, recorded_at)
  VALUES('l-' || ?1 || '-' || ?3, ?1, 1, ?2, 1, 'related' || ?3, 'bench', 1)"""
_ALIAS = "INSERT INTO alias(scope_no, namespace, value, fact_no) VALUES(?, 'shop', 'java', ?)"
_RUN = """INSERT INTO run(realm_no, run_id, scope, namespace, blueprint, outcome, opened_at,
  last_at, body) SELECT ?1, 'r-' || ?1, ?2, namespace, blueprint, outcome, opened_at + ?1, last_at,
  body FROM run WHERE run_id = 'own'"""


def tell(store: SqliteStore) -> str:
    """Store the famous fact and what the cell itself has; return the fact's id."""
    source = Source(type="user_input", actor="bench")
    alias = AliasIn(namespace="shop", value="java")
    told = [
        facts.new_fact(FactIn(content=_WORDS), scope="platform", source=source, confidence=0.5),
        facts.new_fact(
            FactIn(content=f"{_WORDS} or later", aliases=(alias,)),
            scope=_HOME,
            source=source,
            confidence=0.5,
        ),
    ]
    found = store.remember(told, actor=_ACTOR)
    run = RunIn(namespace="demo", scope=_HOME, blueprint="review", outcome="Succeeded")
    store.put_run("own", run, actor=_ACTOR)
    return found[0].fact_id


def crowd(path: Path, strangers: int) -> None:
    """Write what strangers do around fact 1, each in a realm of its own."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous=OFF")
    with db:
        for number in range(1_000, 1_000 + strangers):
            scope = f"realm:r{number}/cell:c"
            db.execute(_SCOPE, (number, scope))
            db.execute(_FACT, (number, number))
            db.execute(_USE, (number,))
            db.executemany(_LINK, [(number, number, n) for n in range(_LINKS)])
            db.execute(_ALIAS, (number, number))
            db.execute(_RUN, (number, scope))
    db.close()


def questions(store: SqliteStore, fact_id: str) -> Mapping[str, Callable[[], object]]:
    """Return what the cell asks."""
    view = View(_HOME)
    return {
        "recall": lambda: store.search(Search(view, _WORDS, 10)),
        "name": lambda: store.named(_NAME, view),
        "runs": lambda: store.list_runs(RunListing(view, 50)),
        "links": lambda: store.links(fact_id, view, types=(), before=None, limit=50),
        "neighbours": lambda: store.neighbors(Around(fact_id, 2, 50), view),
        "impact": lambda: store.impact(fact_id, Reader(view, "bench"), limit=50),
    }


def measure(path: Path, fact_id: str) -> dict[str, float]:
    """Time each question; p50 in milliseconds."""
    store = SqliteStore(path)
    found = {}
    for name, ask in questions(store, fact_id).items():
        samples = []
        for _ in range(_CALLS):
            began = time.perf_counter()
            ask()
            samples.append((time.perf_counter() - began) * 1000)
        found[name] = round(sorted(samples)[_CALLS // 2], 3)
    store.close()
    return found


def main(strangers: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "knowledge.db"
        store = SqliteStore(path)
        fact_id = tell(store)
        store.close()
        alone = measure(path, fact_id)
        crowd(path, strangers)
        found = {"strangers": strangers, "alone": alone, "among_them": measure(path, fact_id)}
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
