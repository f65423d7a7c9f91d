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
    "metadata": {"name": "pair"},
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


_VERBS = ("create", "patch status", "patch", "list", "get")
_PER_INSTANCE = {"BlueprintInstance": 1, "Formation": 1, "Cell": 2}
REQUESTS_HEAD = ("instances", *_VERBS, *_PER_INSTANCE)
RESTART_HEAD = (
    *("instances", "ready s", "all reconciled, s later", "reconciles", "objects written"),
    *("RSS MiB", "peak MiB"),
)


def _quantiles_ms(samples: Sequence[float]) -> list[str]:
    return [f"{quantile(samples, share) * 1000:.0f}" for share in (0.5, 0.9, 0.99)]


async def measure_burst(api: Api, operator: int, count: int) -> tuple[list[object], list[object]]:
    """A row of the bursts, and one by `REQUESTS_HEAD`."""
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
    requests: list[object] = [
        count,
        *(f"{usage.requests_of(verb) / count:.1f}" for verb in _VERBS),
        *(
            f"{at_applied.reconciles[kind] / (count * per_instance):.1f}"
            f" ({usage.reconciles[kind] / (count * per_instance):.1f})"
            for kind, per_instance in _PER_INSTANCE.items()
        ),
    ]
    return row, requests


async def measure_lone(cluster: HostCluster, operator: int) -> str:
    """One instance at a time."""
    api = await ready(cluster)
    crowded = [(await api.burst(f"row{number}", 1)).samples[0] for number in range(LONE)]
    lone = []
    for number in range(LONE):
        await metrics_reader.rest(operator)
        lone.append((await api.burst(f"lone{number}", 1)).samples[0])
    await api.close()
    rows = [
        ("is at rest", *_quantiles_ms(lone)),
        ("has just applied the previous one", *_quantiles_ms(crowded)),
    ]
    return f"create→Applied of one instance at a time, {LONE} of each:\n\n" + table(
        ("the operator", "p50 ms", "p90 ms", "p99 ms"), rows
    )


async def ready(cluster: HostCluster, *, realms: int = 1) -> Api:
    """Wait until a use can be made, and make some, so that nothing is done for the first time."""
    api = Api(cluster.kubeconfig, realms=realms)
    for namespace in api.namespaces:
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await metrics_reader.wait_ready()
    for namespace in api.namespaces:
        path = f"/apis/kais.io/v1/namespaces/{namespace}/blueprints"
        await api.create_when_served(path, BLUEPRINT)
    await api.burst("warm", max(3, realms), workloads=2)
    return api


async def measure_many(
    cluster: HostCluster, operator: int, count: int
) -> tuple[list[object], list[object]]:
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
    return set(cluster.kubectl("get", kinds, "-A", "-o", template).splitlines())


async def measure_restart(cluster: HostCluster, operator: int, count: int) -> list[object]:
    """What a new operator does with so many settled instances: a row by `RESTART_HEAD`."""
    versions_before = versions(cluster)
    ready_s = await metrics_reader.wait_ready()
    start = time.perf_counter()
    await metrics_reader.settle(operator)
    usage = metrics_reader.read(operator)
    settled_s = time.perf_counter() - start - 3
    now, peak = (metrics_reader.memory_mib(operator, field) for field in ("VmRSS", "VmHWM"))
    return [
        count,
        f"{ready_s:.1f}",
        f"{settled_s:.0f}",
        f"{usage.reconciles.total():,}",
        len(versions(cluster) - versions_before),
        f"{now:.0f}",
        f"{peak:.0f}",
    ]


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
    requests: list[list[object]] = []
    restarts: list[list[object]] = []
    for count in bursts:
        with plane() as (cluster, operator):
            with operator() as running:
                row, request_row = asyncio.run(measure_many(cluster, running.pid, count))
            rows.append(row)
            requests.append(request_row)
            with operator() as restarted:
                restarts.append(asyncio.run(measure_restart(cluster, restarted.pid, count)))
    head = (
        *("instances", "instances/s", "all workloads s", "create→Applied p50 s", "p90 s", "p99 s"),
        *("API requests each", "CPU ms each (operator + rendering)", "RSS MiB", "peak MiB"),
    )
    return (
        f"## Operator on a control plane without nodes\n\n{lone}\n\n"
        f"Bursts of instances:\n\n{table(head, rows)}\n\n"
        "Requests of the operator per instance, and reconciles per object until all are applied "
        f"(and in all):\n\n{table(REQUESTS_HEAD, requests)}\n\n"
        f"A new operator on settled instances:\n\n{table(RESTART_HEAD, restarts)}"
    )
