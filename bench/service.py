"""The knowledge service over HTTP, client included: sizes times scopes, in a table and a plot.

`python -m bench service --quick` is a small run that proves the bench; `--sizes 10000,100000`
and `--scopes 10` choose. Recalls name the scopes that shall be visible: a chain of cell, formation
and realm that holds 4,000 facts, one that holds 50,000, and everything where that is 32 scopes.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import milliseconds, table
from bench.plots import Plot
from bench.served import Served

SIZES = (10_000, 100_000, 1_000_000)
SCOPES = (10, 1_000, 10_000)
QUICK = ((2_000,), (10,))
RECALLS = 400
_ALL = 32
# Each waits for its own commit: two leave the writer idle now and then.
_IMPORTERS = 4


@dataclass(frozen=True)
class Places:
    """Which scopes there are, and how many facts go to each."""

    plan: tuple[tuple[str, int], ...]
    small: tuple[str, ...]
    large: tuple[str, ...]

    @property
    def everything(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self.plan)


def places(facts: int, scopes: int) -> Places:
    """Lay facts out: two chains of three scopes, the rest evenly over formations beside them."""
    small, large = min(4_000, facts // 10), min(50_000, facts // 2)
    plan, chains = [], []
    for realm, count in (("small", small), ("large", large)):
        top = f"realm:{realm}"
        chain = (f"{top}/formation:team/cell:lead", f"{top}/formation:team", top)
        parts = (count // 4, count // 2, count - count // 4 - count // 2)
        plan += list(zip(chain, parts, strict=True))
        chains.append(chain)
    left, others = facts - small - large, max(1, scopes - 6)
    plan += [
        (f"realm:r{n % 100}/formation:f{n}", left * (n + 1) // others - left * n // others)
        for n in range(others)
    ]
    return Places(tuple((path, count) for path, count in plan if count), *chains)


def measure(  # noqa: PLR0915 - one store, measured from its filling to its restart
    facts: int, scopes: int, calls: int, plot: Plot
) -> list[list[object]]:
    """Fill a store and measure it; the rows of the table."""
    where = places(facts, scopes)
    rows: list[list[object]] = []

    def row(what: str, clients: object, samples: Sequence[float], rest: object) -> None:
        times = milliseconds(samples) if samples else ["", "", ""]
        rows.append([f"{facts:,}", f"{scopes:,}", what, clients, *times, rest])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)  # the table comes after an hour

    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        db = Path(folder) / "k.db"
        served = Served(db)
        idle = served.resident_mib()
        job = {"kind": "import", "plan": where.plan, "clients": _IMPORTERS, "seed": 5}
        (done,) = served.send(job)
        rate = f"{facts / done['seconds']:,.0f} facts/s"
        row("batch import, 200 a request", _IMPORTERS, (), rate)
        served.stop()
        served = Served(db)
        views = {"4,000 visible": where.small, "50,000 visible": where.large}
        if len(where.everything) <= _ALL:
            views[f"all visible, {len(where.everything)} scopes"] = where.everything
        for name, seen in views.items():
            for heat, clients in (("cold", 1), ("warm", 1), ("warm", 16)):
                job = {"kind": "recall", "scopes": seen, "clients": clients, "count": calls}
                (done,) = served.send(job)
                rate = f"{calls / done['seconds']:,.0f}/s, client {done['cpu']:.0%} of a core"
                row(f"recall, {name}, {heat}", clients, done["samples"], rate)
                if (heat, clients) == ("warm", 1):
                    seen_by = name.partition(" visible")[0]
                    plot.add(f"{seen_by} of {scopes:,} scopes", facts, done["samples"])
        reading = {"kind": "recall", "scopes": where.large, "clients": 1, "count": calls}
        writing = {"kind": "remember", "scopes": where.large[:1], "clients": 8, "rate": 500}
        found = served.send(reading, {**writing, "count": 500 * 4, "mark": 10**9})
        wrote = len(found[1]["samples"]) / found[1]["seconds"]
        row("recall, 50,000 visible, while writes run", 1, found[0]["samples"], f"{wrote:.0f} w/s")
        for clients in (1, 32):
            job = {"kind": "remember", "scopes": where.large[1:2], "clients": clients}
            (done,) = served.send({**job, "count": 10 * calls, "mark": 10**10 * clients})
            rate = f"{10 * calls / done['seconds']:,.0f}/s, client {done['cpu']:.0%} of a core"
            row("remember, one fact a request", clients, done["samples"], rate)
        (done,) = served.send(
            {"kind": "visible", "scopes": where.large, "clients": 8, "count": calls}
        )
        row("recall right after its write: all found", 8, done["samples"], "")
        resident = served.resident_mib()
        served.stop()
        served = Served(db)
        index = index_bytes(db)
        told = (
            f"ready {served.ready_s:.1f} s, resident {idle:.0f} MiB idle, {resident:.0f} MiB full"
        )
        row(
            f"{told}, index {index:.0f} bytes a fact",
            "",
            (),
            f"{db.stat().st_size / 2**20:,.0f} MiB",
        )
        served.stop()
    return rows


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


def bare(calls: int) -> list[list[object]]:
    """Measure the route that remembers without a store."""
    served = Served(None)
    job: dict[str, Any] = {"kind": "remember", "scopes": ["realm:a"], "clients": 32}
    (done,) = served.send({**job, "count": calls})
    served.stop()
    rate = f"{calls / done['seconds']:,.0f}/s, client {done['cpu']:.0%} of a core"
    name = "remember without a store"
    return [["", "", name, 32, *milliseconds(done["samples"]), rate]]


def run(arguments: Sequence[str] = ()) -> str:
    """Measure and return the section of docs/benchmarks.md."""
    quick = "--quick" in arguments
    sizes, scopes = (
        QUICK
        if quick
        else (_chosen(arguments, "--sizes", SIZES), _chosen(arguments, "--scopes", SCOPES))
    )
    calls = 20 if quick else RECALLS
    plot = Plot("p95 of one recall, ms")
    rows = bare(10 * calls)
    for count in scopes:
        for size in sizes:
            rows += measure(size, count, calls, plot)
    head = ("facts", "scopes", "what", "clients", "p50 ms", "p95 ms", "p99 ms", "and")
    is_whole = (sizes, scopes) == (SIZES, SCOPES)  # a plot of some of the sizes is not the page's
    picture = plot.write(Path("docs/benchmarks-recall.svg")) if is_whole else ""
    return f"## Knowledge service over HTTP\n\n{table(head, rows)}\n{picture}"


def _chosen(arguments: Sequence[str], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    if name not in arguments:
        return default
    given = arguments[list(arguments).index(name) + 1]
    return tuple(int(part) for part in given.split(","))
