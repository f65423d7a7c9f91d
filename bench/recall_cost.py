"""Processor time of a recall in process, receipt and HTTP apart: `python -m bench recall_cost`.

On a shared machine, processor time varies less than time by the clock. Other processes still evict
its caches, so a repeated question counts by the least of several rounds.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import milliseconds, table
from bench.service import lay_out
from bench.texts import Texts
from knowledge_service import memory_allocator
from knowledge_service.domain.access_control import PLATFORM, ScopeRange, View
from knowledge_service.ports import Actor, Search
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import new_fact

_FACTS, _SCOPES, _QUESTIONS, _ROUNDS = 100_000, 10, 400, 5
_BATCH = 1_000
_ACTOR = Actor("bench", "system")
_EVERYTHING = View(PLATFORM, (ScopeRange(PLATFORM, subtree=True),))


def fill(path: Path) -> None:
    """Store facts of made-up words."""
    store, texts, number = SqliteStore(path), Texts(seed=5), 0
    for scope, count in lay_out(_FACTS, _SCOPES).plan:
        for start in range(0, count, _BATCH):
            size = min(_BATCH, count - start)
            facts = [new_fact(texts.fact(number + n), scope=scope) for n in range(size)]
            store.remember(facts, actor=_ACTOR)
            number += size
    store.close()


def measure(path: Path) -> list[list[object]]:
    """Ask each question once with an empty cache, and then in rounds."""
    memory_allocator.configure()  # as the service does
    layout, rows = lay_out(_FACTS, _SCOPES), list[list[object]]()
    for visible, scopes in (("4,000", layout.small), ("50,000", layout.large)):
        store, texts = SqliteStore(path), Texts(seed=7)
        questions = [texts.question() for _ in range(_QUESTIONS)]
        first, *rounds = [_ask(store, questions, scopes) for _ in range(1 + _ROUNDS)]
        store.close()
        least = [min(samples) for samples in zip(*rounds, strict=True)]
        rows.append([visible, "first time", *milliseconds(first)])
        rows.append([visible, f"repeated, least of {_ROUNDS}", *milliseconds(least)])
    return rows


def _ask(store: SqliteStore, questions: Sequence[str], scopes: tuple[str, ...]) -> list[float]:
    """Return the processor seconds of each question."""
    samples = []
    for question in questions:
        start = time.thread_time()
        store.search(Search(_EVERYTHING, question, 10, scopes))
        samples.append(time.thread_time() - start)
    return samples


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        path = Path(folder) / "k.db"
        fill(path)
        # Its own process, because malloc stays configured.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows = pool.apply(measure, (path,))
    head = ("facts visible", "questions", "p50 ms", "p95 ms", "p99 ms")
    description = (
        f"In process, without HTTP and the receipt: {_FACTS:,} facts in {_SCOPES} scopes, of which"
        f" three are visible; {_QUESTIONS} questions of 10 to 20 made-up words. Before the first"
        " question, the cache of postings is empty."
    )
    return f"## Processor time of a recall\n\n{description}\n\n{table(head, rows)}"
