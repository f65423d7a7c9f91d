"""What the operator has used and done so far, by its metrics and by the kernel."""

import asyncio
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PORT = 18998
"""Of the operator's metrics and probes."""


@dataclass(frozen=True)
class Reading:
    """What the operator has used so far, its render workers apart from it.

    Attributes:
        requests: by verb and resource, such as `patch status cells`.
        reconciles: by kind.
        cpu_s: processor time of the operator.
        render_s: processor time of its render workers.
    """

    requests: Counter[str]
    reconciles: Counter[str]
    cpu_s: float
    render_s: float

    def requests_of(self, verb: str) -> int:
        """Count the requests of a verb for all resources."""
        return sum(n for key, n in self.requests.items() if key.rpartition(" ")[0] == verb)

    def since(self, earlier: "Reading") -> "Reading":
        return Reading(
            self.requests - earlier.requests,
            self.reconciles - earlier.reconciles,
            self.cpu_s - earlier.cpu_s,
            self.render_s - earlier.render_s,
        )


def read(process_id: int) -> Reading:
    """Ask its metrics, and the kernel."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return Reading(
        _counts(lines, "kais_api_requests_total", "verb", "resource"),
        _counts(lines, "kais_reconcile_total", "kind"),
        cpu_s(process_id),
        children_cpu_s(process_id),
    )


def _counts(lines: Sequence[str], metric: str, *names: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        if line.startswith(metric + "{"):
            labels, _, value = line.rpartition(" ")
            values = (labels.split(f'{name}="')[1].split('"')[0] for name in names)
            counts[" ".join(values)] += int(float(value))
    return counts


def cpu_s(process_id: int) -> float:
    """Processor time of a process, without its children."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu_s(process_id: int) -> float:
    """Processor time of the children of a process that still run."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    return sum(cpu_s(int(child)) for child in children)


def memory_mib(process_id: int, field: str) -> float:
    """VmRSS or VmHWM of a process."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def forget_peak(process_id: int) -> None:
    """Have VmHWM begin anew."""
    Path(f"/proc/{process_id}/clear_refs").write_text("5")


def is_ready() -> bool:
    """Ask the operator once."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=5):
            return True
    except OSError:
        return False


async def wait_ready() -> float:
    """Wait until the operator leads and trusts its watches; gives the seconds."""
    start = time.perf_counter()
    while time.perf_counter() - start < 60:
        if is_ready():
            return time.perf_counter() - start
        await asyncio.sleep(0.2)
    raise SystemExit("the operator is not ready within 60 s")


async def settle(process_id: int) -> None:
    """Wait until no pass was made for three seconds."""
    previous = -1
    while (now := read(process_id).reconciles.total()) != previous:
        previous = now
        await asyncio.sleep(3)


async def rest(process_id: int) -> None:
    """Wait until no pass was made for a second: one use is alone when those before are done."""
    previous = -1
    while (now := read(process_id).reconciles.total()) != previous:
        previous = now
        await asyncio.sleep(1)
