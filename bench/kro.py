"""The same teams by kro and by kais, each on a control plane of its own, in turn in one run.

kro is built from its Go module, once for each version. A ResourceGraphDefinition makes the leaves
that the Blueprint of `bench.control_plane` makes: two ServiceAccounts, two Deployments, two
Services and a ConfigMap. kais also writes a Formation, two Cells, their status, and the ledger.

The API server and the controller manager decode and check a Deployment, its ReplicaSet or its pod
in 14 of the controller manager's 22 requests for an instance, so their size is part of its cost.
kro is therefore measured twice: with the least that such a team needs, and with the same leaves
that kais made in the same run, with their probes, variables, volumes and security contexts.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import control_plane, metrics_reader, shares
from bench.api import NAMESPACE, Api, Burst, Uses
from bench.figures import quantile, table
from kais_cluster import settings, subprocesses
from kais_cluster.host import ephemeral
from kais_cluster.host.cluster import HostCluster

MODULE = "github.com/kubernetes-sigs/kro"
VERSION = "v0.9.4"
_METRICS_PORT, _PROBE_PORT = 18996, 18997
_WORKERS = 16
_QPS = 2_000
_QUIET_S = 3.0
_LONGEST_S = 120.0
_LEAVES = 7
_SAME_NAMESPACE = "${schema.metadata.namespace}"
_GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"
_REQUESTS_HEAD = ("client", "operator", "instances", "requests", "of these")
_HEAD = (
    *("operator", "instances", "load before", "instances/s", "lowest - highest"),
    *("all workloads s", "applied p50 s", "API requests each", "CPU ms each"),
    *("RSS MiB", "peak MiB"),
)


def build(version: str) -> tuple[Path, Path]:
    """Build kro, unless it is there; return the program and the folder of its CRDs.

    Raises:
        SystemExit: Go is missing, or the module is not served or does not compile.
    """
    go = subprocesses.find_go()
    if go is None:
        raise SystemExit("kro is built from its module: install Go, from https://go.dev/dl")
    module = f"{MODULE}@{version}"
    downloaded = subprocess.run(
        [go, "mod", "download", "-json", module], capture_output=True, text=True, check=False
    )
    if downloaded.returncode != 0:
        raise SystemExit(f"{module} is not downloaded: {downloaded.stdout}{downloaded.stderr}")
    source = Path(json.loads(downloaded.stdout)["Dir"])
    program = settings.binaries_dir() / f"kro-{version}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(".new")
        command = [go, "build", "-trimpath", "-o", str(unfinished), "./cmd/controller"]
        built = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise SystemExit(f"{module} does not compile: {built.stderr[-2000:]}")
        unfinished.replace(program)
    return program, source / "helm" / "crds"


def _cell(name: str) -> list[dict[str, object]]:
    """The leaves of one cell."""
    full_name = f"${{schema.metadata.name}}-{name}-0"
    metadata = {"name": full_name, "namespace": _SAME_NAMESPACE}
    labels = {"cell": full_name}
    container = {
        "name": "cell",
        "image": "localhost/none:1",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "TOPIC", "value": "${schema.spec.topic}"}],
    }
    deployment = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"serviceAccountName": full_name, "containers": [container]},
        },
    }
    service = {"selector": labels, "ports": [{"port": 80, "targetPort": 80}]}
    return [
        _leaf(f"{name}Account", "v1", "ServiceAccount", metadata, {}),
        _leaf(f"{name}Deployment", "apps/v1", "Deployment", metadata, {"spec": deployment}),
        _leaf(f"{name}Service", "v1", "Service", metadata, {"spec": service}),
    ]


def _leaf(
    identifier: str, api_version: str, kind: str, metadata: object, content: Mapping[str, object]
) -> dict[str, object]:
    template = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
    return {"id": identifier, "template": template}


def _least_leaves() -> list[dict[str, object]]:
    """The least that a team of two cells needs."""
    routes = {"name": "topology-${schema.metadata.name}", "namespace": _SAME_NAMESPACE}
    data = {"data": {"topology.json": '{"rule":"all","cells":["left","right"]}'}}
    return [*_cell("left"), *_cell("right"), _leaf("routes", "v1", "ConfigMap", routes, data)]


def _leaves_of_kais(cluster: HostCluster, instance: str) -> list[dict[str, object]]:
    """The leaves that kais made for an instance, as templates for any instance."""
    kinds = "serviceaccounts,deployments,services,configmaps"
    selected = ("-n", NAMESPACE, "-l", f"kais.io/formation={instance}", "-o", "json")
    bodies = json.loads(cluster.kubectl("get", kinds, *selected))["items"]
    if len(bodies) != _LEAVES:
        raise SystemExit(f"{instance} has {len(bodies)} leaves, and kro would make {_LEAVES}")
    return [template_of(f"leaf{n}", body, instance) for n, body in enumerate(bodies)]


def template_of(identifier: str, body: Mapping[str, Any], instance: str) -> dict[str, object]:
    """A leaf of an instance as kro's template: without what the control plane wrote into it."""
    annotations = body["metadata"].get("annotations") or {}
    metadata = {
        **{key: body["metadata"][key] for key in ("name", "labels")},
        "namespace": _SAME_NAMESPACE,
        "annotations": {key: annotations[key] for key in annotations if "kais.io/" in key},
    }
    written = {"apiVersion", "kind", "metadata", "status"}
    content = {key: value for key, value in body.items() if key not in written}
    if body["kind"] == "Service":
        content["spec"] = {key: body["spec"][key] for key in ("selector", "ports")}
    leaf = _leaf(identifier, body["apiVersion"], body["kind"], metadata, content)
    text = json.dumps(leaf).replace(instance, "${schema.metadata.name}")
    template: dict[str, object] = json.loads(text)
    return template


def graph(leaves: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The ResourceGraphDefinition of a team of two cells with these leaves."""
    schema = {
        "apiVersion": "v1alpha1",
        "kind": "Pair",
        "spec": {"topic": 'string | default="none"'},
    }
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "pair"},
        "spec": {"schema": schema, "resources": list(leaves)},
    }


def _pair(name: str, namespace: str) -> dict[str, object]:
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "Pair",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"topic": name},
    }


def _is_active(status: Mapping[str, Any]) -> bool:
    return bool(status.get("state") == "ACTIVE")


PAIRS = Uses("/apis/kro.run/v1alpha1", "pairs", _pair, _is_active)


@contextmanager
def kro_plane(program: Path, crds: Path) -> Iterator[tuple[HostCluster, int]]:
    """A new control plane with kro; gives it and kro's process id."""
    with ephemeral.control_plane() as cluster:
        cluster.kubectl("apply", "--server-side", "-f", str(crds))
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(crds))
        options = [
            f"--metrics-bind-address=127.0.0.1:{_METRICS_PORT}",
            f"--health-probe-bind-address=127.0.0.1:{_PROBE_PORT}",
            f"--dynamic-controller-concurrent-reconciles={_WORKERS}",
            f"--dynamic-controller-rate-limiter-rate-limit={_QPS}",
            f"--dynamic-controller-rate-limiter-burst-limit={_QPS}",
            f"--client-qps={_QPS}",
            f"--client-burst={_QPS}",
            "--zap-log-level=error",
        ]
        environment = {"KUBECONFIG": str(cluster.kubeconfig)}
        with control_plane.process(str(program), *options, **environment) as running:
            yield cluster, running.pid


def _requests() -> int:
    """Count kro's requests, by its own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{_METRICS_PORT}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    counts = [line for line in lines if line.startswith("rest_client_requests_total{")]
    return sum(int(float(line.rpartition(" ")[2])) for line in counts)


def _is_serving() -> bool:
    try:
        return _requests() > 0
    except OSError:
        return False


async def _wait_until(is_reached: Callable[[], bool], *, subject: str) -> None:
    start = time.perf_counter()
    while not is_reached():
        if time.perf_counter() - start > _LONGEST_S:
            raise SystemExit(f"kro: {subject} not within {_LONGEST_S:.0f} s")
        await asyncio.sleep(0.2)


async def _settle() -> None:
    """Wait until kro sent no request for some seconds."""
    previous = -1
    while (now := _requests()) != previous:
        previous = now
        await asyncio.sleep(_QUIET_S)


async def _measure_kro(
    cluster: HostCluster,
    process_id: int,
    count: int,
    leaves: Sequence[Mapping[str, object]],
    realms: int,
) -> tuple[list[object], shares.Shares]:
    api = Api(cluster.kubeconfig, realms=realms)
    for namespace in api.namespaces:
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await _wait_until(_is_serving, subject="it is ready")
    await api.create_when_served(_GRAPHS, graph(leaves))
    state = ("get", "resourcegraphdefinition", "pair", "-o", "jsonpath={.status.state}")
    await _wait_until(
        lambda: cluster.kubectl(*state).strip() == "Active", subject="its graph is active"
    )
    await api.burst("warm", 3, workloads=2, uses=PAIRS)
    await _settle()
    metrics_reader.forget_peak(process_id)
    requests, cpu_s = _requests(), metrics_reader.cpu_s(process_id)
    start = shares.read(cluster, process_id)
    burst = await api.burst(f"burst{count}", count, workloads=2, uses=PAIRS)
    await _settle()
    each = (_requests() - requests) / count
    cpu_ms = (metrics_reader.cpu_s(process_id) - cpu_s) / count * 1000
    used = shares.read(cluster, process_id).since(start)
    await api.close()
    row: list[object] = [
        *_speed(burst, count),
        f"{each:.1f}",
        f"{cpu_ms:.0f}",
        *_memory(process_id),
    ]
    return row, used


def _speed(burst: Burst, count: int) -> list[str]:
    """Rate until all was applied and there, seconds to all workloads, median to applied."""
    seconds = max(burst.seconds_to_applied, burst.seconds_to_workloads)
    median = quantile(burst.samples, 0.5)
    return [f"{count / seconds:.1f}", f"{burst.seconds_to_workloads:.1f}", f"{median:.2f}"]


def _memory(process_id: int) -> list[str]:
    fields = ("VmRSS", "VmHWM")
    return [f"{metrics_reader.memory_mib(process_id, field):.0f}" for field in fields]


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


async def _measure_kais(
    cluster: HostCluster, process_id: int, count: int, realms: int
) -> tuple[list[object], shares.Shares]:
    api = await control_plane.ready(cluster, realms=realms)
    await metrics_reader.settle(process_id)
    start = shares.read(cluster, process_id)
    row, _ = await control_plane.measure_burst(api, process_id, count)
    used = shares.read(cluster, process_id).since(start)
    await api.close()
    return row, used


@dataclass(frozen=True)
class Measured:
    """What one operator did with one burst; `figures` are those of the table after `name`."""

    name: str
    count: int
    figures: Sequence[object]
    used: shares.Shares
    restart: Sequence[object] = ()


def median_of_rounds(rounds: Sequence[Measured]) -> Measured:
    """The medians of an operator's rounds with one count, and its lowest and highest rate."""
    first = rounds[0]
    load, rate, *others = _medians([one.figures for one in rounds])
    rates = sorted(float(str(one.figures[1])) for one in rounds)
    cpu_s = {
        name: statistics.median(one.used.cpu_s.get(name, 0.0) for one in rounds)
        for name in first.used.cpu_s
    }
    kinds = {kind for one in rounds for kind in one.used.requests}
    requests = {
        kind: round(statistics.median(one.used.requests[kind] for one in rounds)) for kind in kinds
    }
    return Measured(
        first.name,
        first.count,
        [load, rate, f"{rates[0]:.1f} - {rates[-1]:.1f}", *others],
        shares.Shares(cpu_s, Counter(requests)),
        _medians([one.restart for one in rounds]),
    )


def _medians(rows: Sequence[Sequence[object]]) -> list[str]:
    """The median of each column; of `a + b` each part, with the decimals of the first row."""
    return [
        " + ".join(_median(parts) for parts in zip(*map(_parts, column), strict=True))
        for column in zip(*rows, strict=True)
    ]


def _parts(value: object) -> list[str]:
    return str(value).split(" + ")


def _median(texts: Sequence[str]) -> str:
    decimals = len(texts[0].partition(".")[2])
    return f"{statistics.median(float(text.replace(',', '')) for text in texts):,.{decimals}f}"


def _measure_all(program: Path, crds: Path, count: int, realms: int) -> Iterator[Measured]:
    kro = partial(_measure_one_kro, program, crds, count, realms)
    yield kro("kro, least leaves", _least_leaves())
    load = _load()
    with control_plane.plane() as (cluster, operator):
        with operator() as running:
            measured, used = asyncio.run(_measure_kais(cluster, running.pid, count, realms))
        leaves = _leaves_of_kais(cluster, "warm-0")
        with operator() as restarted:
            restart = asyncio.run(control_plane.measure_restart(cluster, restarted.pid, count))
    _, rate, workloads_s, p50_s, _, _, requests, cpu_ms, *memory = measured
    figures = [load, rate, workloads_s, p50_s, requests, cpu_ms, *memory]
    yield Measured("kais", count, figures, used, restart)
    yield kro("kro, leaves of kais", leaves)


def _measure_one_kro(
    program: Path,
    crds: Path,
    count: int,
    realms: int,
    name: str,
    leaves: Sequence[Mapping[str, object]],
) -> Measured:
    load = _load()
    with kro_plane(program, crds) as (cluster, process_id):
        row, used = asyncio.run(_measure_kro(cluster, process_id, count, leaves, realms))
    return Measured(name, count, [load, *row], used)


def _printed(one: Measured) -> Measured:
    print(one.name, one.count, *one.figures, sep=" | ", file=sys.stderr, flush=True)
    return one


def run(arguments: Sequence[str] = ()) -> str:
    """Measure both in turn, and return the section of docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="python -m bench kro")
    parser.add_argument("--instances", type=int, nargs="+", default=control_plane.BURSTS)
    parser.add_argument("--realms", type=int, default=1, help="namespaces with the instances")
    parser.add_argument("--rounds", type=int, default=1, help="of all operators, for each count")
    parser.add_argument("--version", default=VERSION, help="of kro's Go module")
    options = parser.parse_args(arguments)
    program, crds = build(options.version)
    measured: list[Measured] = []
    for count in options.instances:
        rounds = [
            [_printed(one) for one in _measure_all(program, crds, count, options.realms)]
            for _ in range(options.rounds)
        ]
        measured += [median_of_rounds(of_one) for of_one in zip(*rounds, strict=True)]
    cpu = [[one.name, one.count, *shares.cpu_row(one.used, one.count)] for one in measured]
    requests = [
        (client, one.name, one.count, *shares.request_row(one.used, one.count, client))
        for one in measured
        for client in (shares.OPERATOR, shares.CONTROLLERS)
    ]
    medians = (
        "" if options.rounds == 1 else f"Figures are medians of {options.rounds} rounds in turn. "
    )
    spread = "" if options.realms == 1 else f", {options.realms} realms"
    return (
        f"## kais beside kro {options.version}{spread}\n\n"
        f"{medians}kro has {_WORKERS} workers and {_QPS:,} requests a second. An instance "
        f"of kro is {_LEAVES} leaves, the least that the team needs or the same leaves that kais "
        "made; one of kais has a Formation, two Cells, their status and the ledger on top. kais' "
        "processor time is that of operator and rendering.\n\n"
        f"{table(_HEAD, [[one.name, one.count, *one.figures] for one in measured])}\n\n"
        "Processor time for one instance until all is settled, in milliseconds, by process:\n\n"
        f"{table(shares.HEAD, cpu)}\n\n"
        "Requests for one instance by the audit log, watches apart:\n\n"
        f"{table(_REQUESTS_HEAD, requests)}\n\n"
        "A new operator on the settled instances:\n\n"
        + table(control_plane.RESTART_HEAD, [one.restart for one in measured if one.restart])
    )
