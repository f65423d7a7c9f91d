"""What an erasure and a round of retention cost everybody else, in one large scope, in process.

`python -m bench maintenance --sizes 200000,1000000` chooses the sizes. `--in FOLDER` keeps the
filled databases there and uses them again. A probe remembers one fact after the other meanwhile;
its longest wait is what others notice.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.figures import table
from bench.texts import Texts
from knowledge_client.models import Retention, ScopeConfig
from knowledge_service.ports import ActionContext, Actor, Listing
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import ALL, new_fact

SIZES = (200_000,)
_BATCH = 200
_ERASED = 5
_LARGE = "realm:bench/formation:large"
_PROBE_SCOPE = "realm:bench/formation:other"
_ACTOR = Actor("bench", "system")
_CONTEXT = ActionContext(_ACTOR, "measured")
_PAUSE_S = 0.002


class Probe:
    """A thread that remembers one fact after the other and notes how long each took."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.waits_s: list[float] = []

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(_PAUSE_S):
            number += 1
            fact = new_fact(f"probe {number} {time.monotonic_ns()}", scope=_PROBE_SCOPE)
            start = time.perf_counter()
            self._store.remember([fact], actor=_ACTOR)
            self.waits_s.append(time.perf_counter() - start)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write meanwhile."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()


def fill(path: Path, count: int) -> None:
    """Write `count` facts into one scope."""
    store = SqliteStore(path)
    generator = Texts(seed=11)
    for first in range(0, count, _BATCH):
        texts = [generator.fact(number) for number in range(first, first + _BATCH)]
        facts = [new_fact(text, scope=_LARGE, tags=(f"t{n % 7}",)) for n, text in enumerate(texts)]
        store.remember(facts, actor=_ACTOR)
    store.close()


def measure(path: Path, count: int) -> list[list[object]]:
    """Erase some facts, then archive what is over a bound; the rows of the table."""
    store = SqliteStore(path)
    store.put_scope(_LARGE, ScopeConfig(), actor=_ACTOR)
    listed = store.list_facts(Listing(ALL, 1000, scopes=(_LARGE,)))
    chosen = [fact.id for fact in listed[:: len(listed) // _ERASED]][:_ERASED]

    def erase() -> None:
        for fact_id in chosen:
            store.erase(fact_id, _CONTEXT)

    def retain() -> None:
        bound = ScopeConfig(retention=Retention(max_facts=count - _ERASED - 20))
        store.put_scope(_LARGE, bound, actor=_ACTOR)
        store.retain()

    rows = [
        _measure_task(store, count, "nothing", lambda: time.sleep(1)),
        _measure_task(store, count, f"{_ERASED} erasures", erase),
        _measure_task(store, count, "a round of retention, 20 facts too many", retain),
    ]
    store.close()
    return rows


def _measure_task(
    store: SqliteStore, count: int, name: str, task: Callable[[], None]
) -> list[object]:
    probe = Probe(store)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak of resident memory
    with probe.running():
        start = time.perf_counter()
        task()
        seconds = time.perf_counter() - start
    wait_times = sorted(probe.waits_s)
    worst = 1000 * wait_times[-1] if wait_times else 1000 * seconds
    middle = 1000 * wait_times[len(wait_times) // 2] if wait_times else worst
    row: list[object] = [f"{count:,}", name, f"{seconds:.2f}", f"{middle:.1f}", f"{worst:.0f}"]
    row.append(f"{_peak_mib():.0f}")
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [status_line for status_line in lines if status_line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def run(arguments: Sequence[str] = ()) -> str:
    """Measure and return the section of docs/benchmarks.md."""
    sizes = [int(part) for part in _option(arguments, "--sizes", "200000").split(",")]
    database_folder = _option(arguments, "--in", "")
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        for size in sizes:
            filled = Path(database_folder or folder) / f"filled-{size}.db"
            if not filled.exists():
                fill(filled, size)
            path = Path(folder) / "measured.db"
            shutil.copy(filled, path)
            rows += measure(path, size)
            path.unlink()
    head = ("facts in the scope", "while", "it took, s", "a write waits, ms", "at most", "peak MiB")
    return "## Erasure and retention\n\n" + table(head, rows)


def _option(arguments: Sequence[str], name: str, default: str) -> str:
    if name not in arguments:
        return default
    return list(arguments)[list(arguments).index(name) + 1]
