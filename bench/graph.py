"""Neighbours, impact, and the graph of entities, each with many rows: in process, over one file.

`python -m bench.graph [links [entities]]` prints one JSON line. Facts have eight links on average,
and a few are hubs with a thousand; these rows are written as the store would have, without its log,
because only reading is measured. Entities, with two observations and a relation each, are created
through the store.
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

from bench.figures import milliseconds
from bench.texts import Texts
from knowledge_client.models import AliasIn, Graph, GraphNamesIn, ScopeConfig
from knowledge_service.domain.access_control import View
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import (
    ActionContext,
    Actor,
    AuditReader,
    NeighbourQuery,
    NewLink,
)
from knowledge_service.ports.operations import LinkFacts, StoreFact
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases.graph import reading
from tests.knowledge_builders import new_fact

_SCOPE = "realm:bench/formation:team"
_TYPES = ("person", "concept", "event", "project")
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


def create_entities(store: SqliteStore, count: int) -> None:
    """Create entities, a hundred in each operation."""
    texts, dice = Texts(seed=4), random.Random(4)  # noqa: S311 - a workload
    context = ActionContext(Actor("bench", "system"), "bench")
    for start in range(0, count, 100):
        acts: list[StoreFact | LinkFacts] = []
        for number in range(start, min(count, start + 100)):
            entity = f"act:{len(acts)}"
            name = f"{texts.sentence(2, 4)} {number}"
            fields = {"kind": "entity", "schema_": "graph/1", "subject": dice.choice(_TYPES)}
            alias = AliasIn(namespace="entity", value=name)
            acts.append(StoreFact(new_fact(name, scope=_SCOPE, aliases=(alias,), **fields)))
            for position in range(2):
                text = texts.fact(2 * number + position)
                observation = {"kind": "observation", "about": entity, "position": position}
                acts.append(StoreFact(new_fact(text, scope=_SCOPE, **observation)))
            if entity != "act:0":
                acts.append(LinkFacts(NewLink(entity, "act:0", "related_to")))
        store.perform(acts, context)


def time_graph(store: SqliteStore, queries: int = 200) -> dict[str, list[float]]:
    """Time reads of the graph by a cell below its scope; seconds of each, by name of the read."""
    reader = Principal("bench", "agent", f"{_SCOPE}/cell:reader")
    dice = random.Random(5)  # noqa: S311 - a workload

    def read(contains: str | None = None, cursor: str | None = None) -> Graph:
        return reading.read_graph(
            store, reader, scope=None, contains=contains, cursor=cursor, limit=100
        )

    samples: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[[], Graph]) -> Graph:
        start = time.perf_counter()
        graph = call()
        samples.setdefault(name, []).append(time.perf_counter() - start)
        return graph

    page = read()
    for _ in range(queries):
        page = timed("page", lambda cursor=page.cursor: read(cursor=cursor))  # type: ignore[misc]
        entity = dice.choice(page.entities)
        body = GraphNamesIn(names=tuple(each.name for each in dice.sample(page.entities, 10)))
        timed("open", lambda body=body: reading.open_entities(store, reader, body))  # type: ignore[misc]
        text = dice.choice((entity.name, *entity.observations))
        at = dice.randrange(max(1, len(text) - 20))
        part = text[at : at + 20]
        timed("search", lambda part=part: read(contains=part))  # type: ignore[misc]
    return samples


def measure_entities(folder: Path, count: int) -> dict[str, list[float]]:
    """Create entities in a new file, then time reads of their graph."""
    store = SqliteStore(folder / "entities.db")
    create_entities(store, count)
    while store.merge_index():  # the service does so within half a minute
        pass
    samples = time_graph(store)
    store.close()
    return samples


if __name__ == "__main__":
    link_count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    entity_count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with tempfile.TemporaryDirectory() as temporary_folder:
        report: dict[str, object] = {**measure(Path(temporary_folder), link_count)}
        for what, seconds in measure_entities(Path(temporary_folder), entity_count).items():
            report |= dict(zip((f"{what}_p50", f"{what}_p95"), milliseconds(seconds), strict=False))
        sys.stdout.write(json.dumps(report) + "\n")
