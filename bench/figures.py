"""What all benches share: quantiles, the machine's description, tables in Markdown."""

import math
import os
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile


def quantile(samples: Sequence[float], share: float) -> float:
    """Nearest-rank quantile: `share` 0.99 of 100 samples is the 99th smallest."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def milliseconds(samples: Sequence[float]) -> list[str]:
    """p50, p95 and p99 of samples in seconds, as text in milliseconds."""
    return [f"{quantile(samples, share) * 1000:.1f}" for share in (0.50, 0.95, 0.99)]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """Cores, memory, processor and the time of an fdatasync: what figures depend on most."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    p50, _, p99 = milliseconds(_fdatasyncs())
    return (
        f"{os.cpu_count()} cores ({cpu}), {total:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}; fdatasync of 4 KiB p50 {p50} ms, p99 {p99} ms"
    )


def _fdatasyncs() -> list[float]:
    samples = []
    with NamedTemporaryFile(dir=Path.home()) as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append(time.perf_counter() - start)
    return samples
