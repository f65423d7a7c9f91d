"""Single operations of the store in process: create, link, find similar facts, walk many links."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import graph
from bench.figures import milliseconds, table
from bench.texts import Texts
from knowledge_service.domain.access_control import View
from knowledge_service.ports import Actor, NewLink, Search
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import new_fact

FACTS, CALLS, ENTITIES = 1_000, 300, 100_000
_READS = {
    "open": ("open ten of the entities by name", "< 10"),
    "search": ("search the graph for 20 characters", "< 10"),
    "page": ("a page of 100 entities of the graph", "< 20"),
}
_SCOPE = "realm:bench/formation:team"
_ACTOR = Actor("bench", "system")


def time_calls(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of each call."""
    samples = []
    for call in calls:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return samples


def measure_operations(folder: Path) -> list[list[object]]:
    """Create, link and find similar ones at 1,000 facts; each write is committed and synced."""
    store = SqliteStore(folder / "marks.db")
    generator = Texts(seed=3)
    texts = [generator.fact(number) for number in range(FACTS + CALLS)]
    facts = [new_fact(text, scope=_SCOPE) for text in texts]
    ids = [store.remember([fact], actor=_ACTOR)[0].fact_id for fact in facts[:FACTS]]
    rows: list[list[object]] = []

    def add_row(operation: str, mark: str, samples: Sequence[float]) -> None:
        rows.append([operation, *milliseconds(samples), mark])

    create_calls = [
        lambda fact=fact: store.remember([fact], actor=_ACTOR) for fact in facts[FACTS:]
    ]
    add_row("create a fact", "< 1", time_calls(create_calls))
    pairs = [(ids[n], ids[(7 * n + 1) % FACTS]) for n in range(CALLS)]
    view = View(_SCOPE)
    link_calls = [
        lambda ends=ends: store.link(NewLink(ends[0], ends[1], "related"), view, actor=_ACTOR)
        for ends in pairs
    ]
    add_row("link two facts", "< 1", time_calls(link_calls))
    search_calls = [
        lambda text=text: store.search(Search(view, text, 10)).hits for text in texts[:CALLS]
    ]
    add_row("find similar facts", "< 5", time_calls(search_calls))
    store.close()
    return rows


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        rows = measure_operations(Path(folder))
        figures = graph.measure(Path(folder), 1_000_000)
        reads = graph.measure_entities(Path(folder), ENTITIES)
    for depth in (1, 2):
        p50, p95 = (f"{figures[f'depth{depth}_{share}']:.1f}" for share in ("p50", "p95"))
        rows.append([f"neighbours to depth {depth}, 50 of them", p50, p95, "", "< 5"])
    impact = f"{figures['impact_ms']:.0f}"
    recalls = f"{figures['impact_recalls']:,} recalls"
    rows.append([f"impact of a fact, its last {recalls}", impact, "", "", "< 1000"])
    for name, (what, mark) in _READS.items():
        rows.append([what, *milliseconds(reads[name]), mark])
    head = ("what", "p50 ms", "p95 ms", "p99 ms", "mark for p95, ms")
    description = f"{FACTS:,} facts; {figures['links']:,} links between {figures['facts']:,} facts"
    description += f"; {ENTITIES:,} entities with two observations each"
    return f"## Knowledge service in process\n\n{description}.\n\n{table(head, rows)}"
