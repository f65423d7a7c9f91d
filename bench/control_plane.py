"""Bursts of instances on a control plane without nodes: how fast, how many requests, memory.

Each instance is a Formation with two Task cells and a Mission. The operator runs as a process of
its own; the API server's audit log tells its requests from the bench's by the user agent.
"""

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx
import yaml

from bench.figures import quantile, table
from kais_cluster import settings
from kais_cluster.host.cluster import HostCluster

BURSTS = (100, 300)
LONE = 20
CELL = {"mode": "Task", "container": {"image": "localhost/none:1", "command": ["true"]}}
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
        "mission": {"objective": "About {{ topic }}", "entrypoint": {"cell": "left"}},
    },
}


@contextmanager
def process(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
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


class Api:
    """The API server for the bench itself: creates, and a watch that notes when each is Applied."""

    def __init__(self, kubeconfig: Path) -> None:
        loaded = yaml.safe_load(kubeconfig.read_text())
        cluster, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
        context = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
        with tempfile.TemporaryDirectory() as folder:
            crt, key = Path(folder, "crt"), Path(folder, "key")
            crt.write_text(_text(user["client-certificate-data"]))
            key.write_text(_text(user["client-key-data"]))
            context.load_cert_chain(crt, key)
        self._http = httpx.AsyncClient(
            base_url=cluster["server"],
            verify=context,
            headers={"User-Agent": "kais-bench"},
            timeout=httpx.Timeout(30, read=300),
            trust_env=False,
        )
        self.instances = "/apis/kais.io/v1/namespaces/bench/blueprintinstances"

    async def create(self, path: str, body: dict[str, object]) -> None:
        """Create an object; a refusal ends the bench with the server's words."""
        answer = await self._http.post(path, json=body)
        if answer.status_code >= 300:
            raise SystemExit(f"{path}: {answer.text}")

    async def delete_instances(self) -> None:
        """Remove all instances and wait until their children are gone."""
        await self._http.delete(self.instances)
        for _ in range(120):
            left = await self._http.get("/apis/kais.io/v1/namespaces/bench/cells")
            if not left.json()["items"]:
                return
            await asyncio.sleep(1)
        raise SystemExit("cells of deleted instances are still there after 120 s")

    async def burst(self, prefix: str, count: int) -> tuple[list[float], float]:
        """Create so many at once: seconds from create to Applied each, and for all of them."""
        version = await self._version()
        created: dict[str, float] = {}
        applied: dict[str, float] = {}
        watching = asyncio.create_task(self._watch(version, applied, prefix, count))
        begin = time.perf_counter()

        async def one(number: int) -> None:
            name = f"{prefix}-{number}"
            body = {
                "apiVersion": "kais.io/v1",
                "kind": "BlueprintInstance",
                "metadata": {"name": name, "namespace": "bench"},
                "spec": {"blueprintRef": {"name": "pair"}, "parameters": {"topic": name}},
            }
            created[name] = time.perf_counter()
            await self.create(self.instances, body)

        await asyncio.gather(*(one(number) for number in range(count)))
        await asyncio.wait_for(watching, 600)
        samples = [applied[name] - created[name] for name in created]
        return samples, max(applied.values()) - begin

    async def _version(self) -> str:
        """The list's resourceVersion; right after a CRD is made, lists answer 429 for a while."""
        for _ in range(60):
            answer = await self._http.get(self.instances)
            if answer.status_code == HTTPStatus.OK:
                return str(answer.json()["metadata"]["resourceVersion"])
            await asyncio.sleep(0.5)
        raise SystemExit(f"{self.instances}: {answer.text}")

    async def _watch(
        self, version: str, applied: dict[str, float], prefix: str, count: int
    ) -> None:
        query = {"watch": "1", "resourceVersion": version}
        async with self._http.stream("GET", self.instances, params=query) as answer:
            async for line in answer.aiter_lines():
                body = json.loads(line)["object"]
                name = body["metadata"]["name"]
                if name.startswith(prefix) and name not in applied and _is_applied(body):
                    applied[name] = time.perf_counter()
                if len(applied) == count:
                    return


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def _is_applied(body: dict[str, object]) -> bool:
    status = body.get("status") or {}
    found = status.get("conditions", [])  # type: ignore[attr-defined]
    return any(c["type"] == "Applied" and c["status"] == "True" for c in found)


def memory_mib(process_id: int, field: str) -> float:
    """VmRSS or VmHWM of a process."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def requests_since(audit_log: Path, offset: int) -> Counter[str]:
    """The operator's requests by verb, Leases apart."""
    with audit_log.open() as log:
        log.seek(offset)
        entries = [json.loads(line) for line in log]
    ours = [
        e
        for e in entries
        if e["user"]["username"] == "kubernetes-admin"
        and not e.get("userAgent", "").startswith(("kais-bench", "kubectl"))
        and e.get("objectRef", {}).get("resource") != "leases"
    ]
    return Counter(e["verb"] for e in ours)


async def measure(cluster: HostCluster, operator: subprocess.Popen[bytes]) -> str:
    """The tables of this bench."""
    api = Api(cluster.kubeconfig)
    await api.create("/api/v1/namespaces", {"metadata": {"name": "bench"}})
    await api.create("/apis/kais.io/v1/namespaces/bench/blueprints", BLUEPRINT)
    await api.burst("warm", 1)
    lone = [(await api.burst(f"lone{number}", 1))[0][0] for number in range(LONE)]
    rows: list[list[object]] = []
    verbs: list[str] = []
    for count in BURSTS:
        await api.delete_instances()
        await asyncio.sleep(5)
        offset = cluster.audit_log.stat().st_size
        samples, seconds = await api.burst(f"burst{count}", count)
        await asyncio.sleep(15)  # until missions and cells have settled too
        seen = requests_since(cluster.audit_log, offset)
        rows.append(
            [
                count,
                f"{count / seconds:.1f}",
                f"{quantile(samples, 0.5):.2f}",
                f"{quantile(samples, 0.99):.2f}",
                f"{seen.total() / count:.1f}",
                f"{memory_mib(operator.pid, 'VmRSS'):.0f}",
                f"{memory_mib(operator.pid, 'VmHWM'):.0f}",
            ]
        )
        told = ", ".join(f"{verb} {n / count:.1f}" for verb, n in seen.most_common())
        verbs.append(f"- burst of {count}: {told}")
    head = ("instances", "instances/s", "create→Applied p50 s", "p99 s")
    head += ("API requests each", "RSS MiB", "peak MiB")
    return (
        f"A lone instance, create→Applied, {LONE} in a row: "
        f"p50 {quantile(lone, 0.5) * 1000:.0f} ms, "
        f"p99 {quantile(lone, 0.99) * 1000:.0f} ms.\n\n{table(head, rows)}\n\n"
        "API requests of the operator per instance by verb:\n\n" + "\n".join(verbs)
    )


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    programs = Path(sys.executable).parent
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kb-")))
        cluster = HostCluster(settings.HostSettings(folder / "c", settings.binaries_dir()))
        cluster.up(no_node=True)
        stack.callback(cluster.down)
        cluster.kubectl("apply", "--server-side", "-f", "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "crds")
        cluster.kubectl("create", "namespace", "kais-system")
        store = [str(programs / "kais-knowledge"), "serve", "--db", str(folder / "k.db")]
        stack.enter_context(process(*store, "--port", "18999", "--auth", "none"))
        environment = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "KAIS_KNOWLEDGE_URL": "http://127.0.0.1:18999",
            "KAIS_OPERATOR_NAMESPACE": "kais-system",
            "KAIS_METRICS_PORT": "18998",
            "KAIS_LOG_LEVEL": "WARNING",
        }
        operator = stack.enter_context(process(str(programs / "kais-operator"), **environment))
        measured = asyncio.run(measure(cluster, operator))
    return "## Operator on a control plane without nodes\n\n" + measured
