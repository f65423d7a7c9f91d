"""`python -m bench.side_by_side OLD NEW [--instances 100] [--rounds 3]`: two operators in turn.

OLD and NEW are checkouts of this repository, each with its `.venv`. Their operators apply the same
burst alternately, each on a control plane of its own, so that a busy minute of the machine affects
both. Counts of requests and reconciles do not depend on the machine; rates and processor time are
worth comparing on an idle one only. Prints a row per run, then the medians.
"""

import argparse
import asyncio
import statistics
import sys
from pathlib import Path

from bench import control_plane
from bench.figures import machine, table

HEAD = ("operator", "instances/s", "applied p50 s", "requests each", "CPU ms each", "RSS MiB")
_COLUMNS = (1, 3, 6, 7, 8)
"""Of a row of `control_plane.measure_burst`: the figures that HEAD names."""


def main() -> None:
    """Measure both in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    runs: dict[str, list[list[str]]] = {"old": [], "new": []}
    for _ in range(options.rounds):
        for name, measured in runs.items():
            row, requests = measure(getattr(options, name), options.instances)
            measured.append(row)
            print(name, *row, *requests, sep=" | ", file=sys.stderr, flush=True)
    rows = [[name, *medians(measured)] for name, measured in runs.items()]
    print(f"Machine: {machine()}\n\n{table(HEAD, rows)}")


def measure(checkout: Path, instances: int) -> tuple[list[str], list[object]]:
    """Apply a burst with the operator of a checkout; return its figures and its requests."""
    with control_plane.plane(checkout.resolve()) as (cluster, operator), operator() as running:
        row, requests = asyncio.run(control_plane.measure_many(cluster, running.pid, instances))
    return [str(row[column]) for column in _COLUMNS], requests


def medians(runs: list[list[str]]) -> list[str]:
    """Return the median of each figure; CPU is the operator's and the renderer's."""
    return [
        f"{statistics.median(sum(map(float, value.split(' + '))) for value in column):.1f}"
        for column in zip(*runs, strict=True)
    ]


if __name__ == "__main__":
    main()
