"""How long a command of `kais` takes, against what Python and its libraries take to begin with."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import table
from kais_cluster import errors, settings
from kais_cluster.host import cluster, ephemeral

ROUNDS = 11
BLUEPRINTS = 20
ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
HELP = [str(BIN / "kais"), "--help"]
LIST = [str(BIN / "kais"), "blueprint", "list"]
TYPER = [sys.executable, "-c", "import typer"]
KR8S = [sys.executable, "-c", "import kr8s"]
Sample = tuple[float, float]
"""Seconds that passed, and seconds of processor time."""


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    with ephemeral.control_plane() as host:
        host.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        host.kubectl("wait", "--for=condition=Established", "-f", str(ROOT / "crds"))
        _fill(host)
        env = settings.environment() | {"KUBECONFIG": str(host.kubeconfig)}
        measurements = _measure([TYPER, HELP, KR8S, LIST], env)
    typer, help_time, kr8s, listed = (_medians(samples) for samples in measurements)
    rows = [
        _row("`kais --help`", help_time, typer, limit="1.5"),
        _row("`kais blueprint list`", listed, kr8s, limit="2.5"),
    ]
    head = (
        "command",
        "ms",
        "its library alone, ms",
        "ratio",
        "of processor time",
        "limit",
    )
    description = (
        f"Medians of {ROUNDS} rounds, each of the four one after the other. The library of the "
        f"first is `import typer`, of the second `import kr8s`; there are {BLUEPRINTS} Blueprints."
    )
    return f"## Commands\n\n{description}\n\n" + table(head, rows)


def _row(name: str, duration: Sample, alone: Sample, *, limit: str) -> list[str]:
    ratios = [f"{total / baseline:.2f}" for total, baseline in zip(duration, alone, strict=True)]
    return [name, f"{1000 * duration[0]:.0f}", f"{1000 * alone[0]:.0f}", *ratios, limit]


def _medians(samples: list[Sample]) -> Sample:
    wall, processor = zip(*samples, strict=True)
    return statistics.median(wall), statistics.median(processor)


def _fill(host: cluster.HostCluster) -> None:
    """Make the Blueprints; right after its definition is stored a kind is refused."""
    cell = {"name": "a", "spec": {"container": {"image": "example/task:1"}}}
    items = [
        {
            "apiVersion": "kais.io/v1",
            "kind": "Blueprint",
            "metadata": {"name": f"b-{number}", "namespace": "default"},
            "spec": {"formation": {"cells": [cell]}},
        }
        for number in range(BLUEPRINTS)
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    for retries_left in reversed(range(20)):
        try:
            host.kubectl("apply", "-f", "-", stdin=listed)
        except errors.CommandFailed:
            if not retries_left:
                raise
            time.sleep(0.5)
        else:
            return


def _measure(commands: list[list[str]], env: dict[str, str]) -> list[list[Sample]]:
    """Give what every round of each command took; a round before them warms the caches."""
    measurements: list[list[Sample]] = [[] for _ in commands]
    for number in range(ROUNDS + 1):
        for command, samples in zip(commands, measurements, strict=True):
            times_before, start = os.times(), time.perf_counter()
            subprocess.run(command, env=env, check=True, capture_output=True)
            wall, times_after = time.perf_counter() - start, os.times()
            processor_s = times_after.children_user + times_after.children_system
            if number:
                samples.append(
                    (wall, processor_s - times_before.children_user - times_before.children_system)
                )
    return measurements
