"""Recalls over HTTP at a million facts of natural words, also of a fact that strangers used.

`python -m bench recall_rates` measures it; `--facts 100000` is a smaller store. The words of facts
and questions are as frequent as in the meetings and operations of `bench/recall`, so the thesaurus
and the stemmer have work to do. A fact of the platform was used, linked and named by 10,000 other
cells; the questions about it have its words as well as others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import shared_fact
from bench.figures import milliseconds, table
from bench.served import Served
from bench.service import lay_out
from knowledge_service.domain.access_control import PLATFORM
from knowledge_service.store.sqlite.store import SqliteStore

_FACTS, _SCOPES, _STRANGERS = 1_000_000, 10, 10_000
_CALLS, _IMPORTERS = 400, 4
_CLIENTS = (("cold", 1), ("warm", 1), ("warm", 16))
_HEAD = (
    "visible", "questions", "postings", "clients", "p50 ms", "p95 ms", "p99 ms", "recalls/s",
    "processor ms a recall", "client's share of a core",
)  # fmt: skip


def fill(path: Path, facts: int) -> None:
    """Store the shared fact, what strangers did with it, and the other facts."""
    store = SqliteStore(path)
    shared_fact.store_facts(store)
    store.close()
    shared_fact.add_scopes(path, [f"realm:x{number}/cell:c" for number in range(_STRANGERS)])
    served = Served(path)
    plan = lay_out(facts, _SCOPES).plan
    job: dict[str, Any] = {"kind": "import", "plan": plan, "clients": _IMPORTERS, "seed": 5}
    served.send({**job, "words": "natural"})
    served.stop()


def measure(path: Path, facts: int) -> list[list[object]]:
    """Ask for each view, of each kind of question, with each number of clients."""
    layout = lay_out(facts, _SCOPES)
    views: Mapping[str, Sequence[str]] = {
        "4,000": layout.small,
        "50,000": layout.large,
        f"all {facts:,}": layout.everything,
    }
    served = Served(path)
    rows: list[list[object]] = []
    for visible, scopes in views.items():
        for kind, about in (("natural words", ""), ("also the shared fact", shared_fact.CONTENT)):
            job = {"kind": "recall", "scopes": [*scopes, PLATFORM], "count": _CALLS, "seed": 7}
            job |= {"words": "natural", "about": about}
            for postings, clients in _CLIENTS:
                before_s = served.processor_s()
                (result,) = served.send({**job, "clients": clients})
                spent_ms = 1000 * (served.processor_s() - before_s) / _CALLS
                rate = f"{_CALLS / result['seconds']:,.0f}"
                latencies = milliseconds(result["samples"])
                cells = (*latencies, rate, f"{spent_ms:.1f}", f"{result['cpu']:.0%}")
                rows.append([visible, kind, postings, clients, *cells])
    served.stop()
    return rows


def run(arguments: Sequence[str] = ()) -> str:
    """Measure and return the section of docs/benchmarks.md."""
    facts = int(arguments[1]) if arguments[:1] == ["--facts"] else _FACTS
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        path = Path(folder) / "k.db"
        fill(path, facts)
        rows = measure(path, facts)
    return f"## Recall among facts of natural words\n\n{table(_HEAD, rows)}"
