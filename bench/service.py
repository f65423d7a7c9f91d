"""The knowledge service over HTTP, client included: sizes times scopes, in tables and a plot.

`python -m bench service --quick` is a small run that proves the bench; `--sizes 10000,100000`
and `--scopes 10` choose. Recalls name the scopes that shall be visible: a chain of cell, formation
and realm that holds 4,000 facts, one that holds 50,000, and everything where that is 32 scopes.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import milliseconds, table
from bench.plots import Plot
from bench.served import Served

SIZES = (10_000, 100_000, 1_000_000)
SCOPES = (10, 1_000, 10_000)
QUICK = ((2_000,), (10,))
RECALLS = 400
_MAX_NAMED_SCOPES = 32
# Each waits for its own commit: two leave the writer idle now and then.
_IMPORTERS = 4


@dataclass(frozen=True)
class Layout:
    """Which scopes there are, and how many facts go to each."""

    plan: tuple[tuple[str, int], ...]
    small: tuple[str, ...]
    large: tuple[str, ...]

    @property
    def everything(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self.plan)


def lay_out(facts: int, scopes: int) -> Layout:
    """Lay facts out: two chains of three scopes, the rest evenly over formations beside them."""
    small, large = min(4_000, facts // 10), min(50_000, facts // 2)
    plan, chains = [], []
    for realm, count in (("small", small), ("large", large)):
        top = f"realm:{realm}"
        chain = (f"{top}/formation:team/cell:lead", f"{top}/formation:team", top)
        parts = (count // 4, count // 2, count - count // 4 - count // 2)
        plan += list(zip(chain, parts, strict=True))
        chains.append(chain)
    remaining, formations = facts - small - large, max(1, scopes - 6)
    plan += [
        (
            f"realm:r{n % 100}/formation:f{n}",
            remaining * (n + 1) // formations - remaining * n // formations,
        )
        for n in range(formations)
    ]
    return Layout(tuple((path, count) for path, count in plan if count), *chains)


@dataclass
class Tables:
    """The rows that were measured so far, by the table that they belong to."""

    imports: list[list[object]] = field(default_factory=list)
    recalls: list[list[object]] = field(default_factory=list)
    writes: list[list[object]] = field(default_factory=list)
    footprints: list[list[object]] = field(default_factory=list)

    def render(self) -> str:
        """Return one Markdown table a subject."""
        size = ("facts", "scopes")
        latency = ("p50 ms", "p95 ms", "p99 ms")
        cpu = "client's share of a core"
        sections = {
            "Import in batches": table((*size, "clients", "facts/s"), self.imports),
            "Recall": table((*size, "recall", "clients", *latency, "recalls/s", cpu), self.recalls),
            "Remember, one fact a request": table(
                (*size, "write", "clients", *latency, "writes/s", cpu), self.writes
            ),
            "Memory, disk and start": table(
                (*size, "ready s", "idle MiB", "full MiB", "index bytes a fact", "file MiB"),
                self.footprints,
            ),
        }
        return "\n\n".join(f"### {title}\n\n{rows}" for title, rows in sections.items())


def measure(facts: int, scopes: int, calls: int, plot: Plot, tables: Tables) -> None:
    """Fill a store, measure it, and add the rows to the tables."""
    layout = lay_out(facts, scopes)
    size = [f"{facts:,}", f"{scopes:,}"]

    def add(rows: list[list[object]], *cells: object) -> None:
        rows.append([*size, *cells])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)  # the page comes after an hour

    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        db = Path(folder) / "k.db"
        served = Served(db)
        idle = served.resident_mib()
        job: dict[str, Any] = {"kind": "import", "plan": layout.plan, "clients": _IMPORTERS}
        (result,) = served.send({**job, "seed": 5})
        add(tables.imports, _IMPORTERS, f"{facts / result['seconds']:,.0f}")
        served.stop()
        served = Served(db)
        views = {"4,000 visible": layout.small, "50,000 visible": layout.large}
        if len(layout.everything) <= _MAX_NAMED_SCOPES:
            views[f"all visible, {len(layout.everything)} scopes"] = layout.everything
        for name, visible in views.items():
            for cache, clients in (("cold", 1), ("warm", 1), ("warm", 16)):
                job = {"kind": "recall", "scopes": visible, "clients": clients, "count": calls}
                (result,) = served.send(job)
                add(tables.recalls, f"{name}, {cache}", clients, *_rates(result, calls))
                if (cache, clients) == ("warm", 1):
                    label = name.partition(" visible")[0]
                    plot.add(f"{label} of {scopes:,} scopes", facts, result["samples"])
        measure_writes(served, layout, calls, add, tables)
        full = served.resident_mib()
        served.stop()
        served = Served(db)
        file_mib = f"{db.stat().st_size / 2**20:,.0f}"
        sizes = (f"{idle:.0f}", f"{full:.0f}", f"{index_bytes(db):.0f}", file_mib)
        add(tables.footprints, f"{served.ready_s:.1f}", *sizes)
        served.stop()


def measure_writes(
    served: Served, layout: Layout, calls: int, add: Callable[..., None], tables: Tables
) -> None:
    """Measure recalls beside writes, single writes, and recalls of what was just written."""
    reading = {"kind": "recall", "scopes": layout.large, "clients": 1, "count": calls}
    writing = {"kind": "remember", "scopes": layout.large[:1], "clients": 8, "rate": 500}
    recall_result, write_result = served.send(reading, {**writing, "count": 500 * 4, "mark": 10**9})
    rate = len(write_result["samples"]) / write_result["seconds"]
    name = f"50,000 visible, beside {rate:.0f} writes/s"
    add(tables.recalls, name, 1, *_rates(recall_result, calls))
    for clients in (1, 32):
        job = {"kind": "remember", "scopes": layout.large[1:2], "clients": clients}
        (result,) = served.send({**job, "count": 10 * calls, "mark": 10**10 * clients})
        add(tables.writes, "remember", clients, *_rates(result, 10 * calls))
    job = {"kind": "visible", "scopes": layout.large, "clients": 8, "count": calls}
    (result,) = served.send(job)
    name = "remember, then recall it: all recalled"
    add(tables.writes, name, 8, *milliseconds(result["samples"]), "", "")


def _rates(result: dict[str, Any], calls: int) -> list[str]:
    """Return p50, p95 and p99 in ms, calls a second, and the client's share of a core."""
    rate = f"{calls / result['seconds']:,.0f}"
    return [*milliseconds(result["samples"]), rate, f"{result['cpu']:.0%}"]


def index_bytes(db: Path) -> float:
    """Return how many bytes of the index's pages a fact has, those written while measuring too."""
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as connection:
        facts = int(connection.execute("SELECT count(*) FROM fact").fetchone()[0])
        try:
            query = "SELECT sum(pgsize) FROM dbstat WHERE name = 'posting'"
            size = int(connection.execute(query).fetchone()[0])
        except sqlite3.OperationalError:  # a SQLite without dbstat: the rows alone
            query = "SELECT sum(length(data)) + 20 * count(*) FROM posting"
            size = int(connection.execute(query).fetchone()[0])
    return size / max(facts, 1)


def bare(calls: int) -> list[object]:
    """Measure the route that remembers without a store."""
    served = Served(None)
    job: dict[str, Any] = {"kind": "remember", "scopes": ["realm:a"], "clients": 32}
    (result,) = served.send({**job, "count": calls})
    served.stop()
    return ["", "", "remember without a store", 32, *_rates(result, calls)]


def run(arguments: Sequence[str] = ()) -> str:
    """Measure and return the section of docs/benchmarks.md."""
    quick = "--quick" in arguments
    sizes, scopes = (
        QUICK
        if quick
        else (
            _sizes_option(arguments, "--sizes", SIZES),
            _sizes_option(arguments, "--scopes", SCOPES),
        )
    )
    calls = 20 if quick else RECALLS
    plot = Plot("p95 of one recall, ms")
    tables = Tables(writes=[bare(10 * calls)])
    for count in scopes:
        for size in sizes:
            measure(size, count, calls, plot, tables)
    is_default_run = (sizes, scopes) == (
        SIZES,
        SCOPES,
    )  # a plot of some of the sizes is not the page's
    picture = plot.write(Path("docs/benchmarks-recall.svg")) if is_default_run else ""
    return f"## Knowledge service over HTTP\n\n{tables.render()}\n\n{picture}"


def _sizes_option(arguments: Sequence[str], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    if name not in arguments:
        return default
    value = arguments[list(arguments).index(name) + 1]
    return tuple(int(part) for part in value.split(","))
