"""The operator on a control plane without nodes: how fast uses are applied, and what they cost.

Each instance is a Formation with two Service cells: two ServiceAccounts, two Deployments, two
Services and a ConfigMap at the leaves. The operator runs as a process of its own, so its memory and
processor time are told apart; requests are counted by the operator itself.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

from bench import metrics_reader
from bench.api import Api
from bench.figures import quantile, table
from kais_cluster.host import ephemeral
from kais_cluster.host.cluster import HostCluster

BURSTS = (100, 300, 1000)
LONE = 50
CELL = {
    "mode": "Service",
    "container": {"image": "localhost/none:1", "ports": [{"containerPort": 80}]},
}
BLUEPRINT = {
    "apiVersion": "kais.io/v1",
    "kind": "Blueprint",
    "metadata": {"name": "pair", "namespace": "bench"},
    "spec": {
        "parameters": [{"name": "topic", "type": "string", "default": "none"}],
        "formation": {
            "cells": [{"name": "left", "spec": CELL}, {"name": "right", "spec": CELL}],
            "topology": {"type": "full_mesh"},
        },
    },
}


@contextmanager
def process(*command: str, **environment: str) -> Iterator[Popen[bytes]]:
    """A program that is ended with the bench; its output goes to a file that failures name."""
    with tempfile.NamedTemporaryFile(prefix="kais-bench-", suffix=".log", delete=False) as log:
        started = subprocess.Popen(
            command, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def _format_quantiles(samples: Sequence[float]) -> str:
    quantiles = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    parts = (f"{name} {quantile(samples, share) * 1000:.0f} ms" for name, share in quantiles)
    return ", ".join(parts)


async def measure_burst(api: Api, operator: int, count: int) -> tuple[list[object], str]:
    """One row of the table, and the line of what it was made of."""
    await metrics_reader.settle(operator)
    metrics_reader.forget_peak(operator)
    start_reading = metrics_reader.read(operator)
    burst = await api.burst(f"burst{count}", count, workloads=2)
    at_applied = metrics_reader.read(operator).since(start_reading)
    await metrics_reader.settle(operator)
    usage = metrics_reader.read(operator).since(start_reading)
    seconds = max(burst.seconds_to_applied, burst.seconds_to_workloads)
    row = [
        count,
        f"{count / seconds:.1f}",
        f"{burst.seconds_to_workloads:.1f}",
        *(f"{quantile(burst.samples, share):.2f}" for share in (0.5, 0.9, 0.99)),
        f"{usage.requests.total() / count:.1f}",
        f"{usage.cpu_s / count * 1000:.0f} + {usage.render_s / count * 1000:.0f}",
        f"{metrics_reader.memory_mib(operator, 'VmRSS'):.0f}",
        f"{metrics_reader.memory_mib(operator, 'VmHWM'):.0f}",
    ]
    verbs = ", ".join(f"{verb} {n / count:.1f}" for verb, n in usage.requests.most_common())
    passes = ", ".join(
        f"{kind} {at_applied.reconciles[kind] / (count * per_instance):.1f}"
        f" ({n / (count * per_instance):.1f})"
        for kind, per_instance in (("BlueprintInstance", 1), ("Formation", 1), ("Cell", 2))
        if (n := usage.reconciles[kind])
    )
    summary = f"- burst of {count}: {verbs}; passes per object until all are applied"
    return row, f"{summary} (and in all): {passes}"


async def measure_lone(cluster: HostCluster, operator: int) -> str:
    """One use at a time."""
    api = await ready(cluster)
    crowded = [(await api.burst(f"row{number}", 1)).samples[0] for number in range(LONE)]
    lone = []
    for number in range(LONE):
        await metrics_reader.rest(operator)
        lone.append((await api.burst(f"lone{number}", 1)).samples[0])
    await api.close()
    return (
        f"A lone instance, create→Applied, {LONE} times with the operator at rest: "
        f"{_format_quantiles(lone)}; each right after the one before was Applied: "
        f"{_format_quantiles(crowded)}."
    )


async def ready(cluster: HostCluster) -> Api:
    """Wait until a use can be made, and make some, so that nothing is done for the first time."""
    api = Api(cluster.kubeconfig)
    await api.create("/api/v1/namespaces", {"metadata": {"name": "bench"}})
    await metrics_reader.wait_ready()
    await api.create_when_served("/apis/kais.io/v1/namespaces/bench/blueprints", BLUEPRINT)
    await api.burst("warm", 3, workloads=2)
    return api


async def measure_many(cluster: HostCluster, operator: int, count: int) -> tuple[list[object], str]:
    """One burst in an empty cluster."""
    api = await ready(cluster)
    measured = await measure_burst(api, operator, count)
    await api.close()
    print(*measured[0], sep=" | ", file=sys.stderr, flush=True)
    return measured


def versions(cluster: HostCluster) -> set[str]:
    """Name and version of each object that a use consists of."""
    kinds = "bp,bpr,bpi,fm,cells,deployments,services,serviceaccounts,configmaps"
    line = "{.kind}/{.metadata.name} {.metadata.resourceVersion}{'\\n'}"
    template = f"jsonpath={{range .items[*]}}{line}{{end}}"
    return set(cluster.kubectl("get", kinds, "-n", "bench", "-o", template).splitlines())


async def measure_restart(cluster: HostCluster, operator: int, count: int) -> str:
    """What a new operator does with so many settled instances."""
    versions_before = versions(cluster)
    ready_s = await metrics_reader.wait_ready()
    start = time.perf_counter()
    await metrics_reader.settle(operator)
    usage = metrics_reader.read(operator)
    settled_s = time.perf_counter() - start - 3
    now, peak = (metrics_reader.memory_mib(operator, field) for field in ("VmRSS", "VmHWM"))
    return (
        f"- restart with {count} settled instances: ready after {ready_s:.1f} s, all looked at "
        f"{settled_s:.0f} s later ({usage.reconciles.total():,} passes), "
        f"{len(versions(cluster) - versions_before)} of {len(versions_before):,} objects written, "
        f"{now:.0f} MiB (peak {peak:.0f})"
    )


def _wait_for_collector(cluster: HostCluster) -> None:
    """Wait until the garbage collector follows our kinds, as in any cluster that had them before.

    It looks for new kinds every 30 s. Until then it reads the owner of each child.
    """
    cluster.kubectl("create", "configmap", "owner", "-n", "default")
    uid = cluster.kubectl(
        "get", "configmap", "owner", "-n", "default", "-o", "jsonpath={.metadata.uid}"
    )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid.strip()}
    followed = {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "followed", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"cells": [{"name": "left", "spec": CELL}]},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(followed))
    cluster.kubectl("delete", "configmap", "owner", "-n", "default")
    gone = ("--for=delete", "formation/followed", "-n", "default", "--timeout=120s")
    cluster.kubectl("wait", *gone, timeout_s=130)


@contextmanager
def plane(
    checkout: Path | None = None,
) -> Iterator[tuple[HostCluster, Callable[[], AbstractContextManager[Popen[bytes]]]]]:
    """A new control plane with our kinds and a store; gives what starts an operator there.

    Programs and kinds are those of the checkout, by default of this one.

    Each burst has its own: what an earlier one left in the API server and the controller manager
    would be in its figures, and to delete it takes longer than to make it.
    """
    programs = Path(sys.executable).parent if checkout is None else checkout / ".venv" / "bin"
    crds = str((checkout or Path()) / "crds")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kb-")))
        cluster = stack.enter_context(ephemeral.control_plane())
        cluster.kubectl("apply", "--server-side", "-f", crds)
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
        cluster.kubectl("create", "namespace", "kais-system")
        _wait_for_collector(cluster)
        store = [str(programs / "kais-knowledge"), "serve", "--db", str(folder / "k.db")]
        stack.enter_context(process(*store, "--port", "18999", "--auth", "none"))
        environment = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "KAIS_KNOWLEDGE_URL": "http://127.0.0.1:18999",
            "KAIS_OPERATOR_NAMESPACE": "kais-system",
            "KAIS_METRICS_PORT": str(metrics_reader.PORT),
            "KAIS_LOG_LEVEL": "WARNING",
        }
        yield cluster, lambda: process(str(programs / "kais-operator"), **environment)


def run(bursts: Sequence[int] = BURSTS) -> str:
    """Measure and return the section of docs/benchmarks.md."""
    with plane() as (cluster, operator), operator() as running:
        lone = asyncio.run(measure_lone(cluster, running.pid))
    rows: list[list[object]] = []
    summaries: list[str] = []
    for count in bursts:
        with plane() as (cluster, operator):
            with operator() as running:
                row, line = asyncio.run(measure_many(cluster, running.pid, count))
            rows.append(row)
            summaries.append(line)
            with operator() as restarted:
                summaries.append(asyncio.run(measure_restart(cluster, restarted.pid, count)))
    head = (
        *("instances", "instances/s", "all workloads s", "create→Applied p50 s", "p90 s", "p99 s"),
        *("API requests each", "CPU ms each (operator + rendering)", "RSS MiB", "peak MiB"),
    )
    return (
        f"## Operator on a control plane without nodes\n\n{lone}\n\n{table(head, rows)}\n\n"
        "Requests of the operator to the API server, per instance, and what a restart does:\n\n"
        + "\n".join(summaries)
    )
