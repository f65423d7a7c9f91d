"""Cells with minds as processes on loopback, with a real API server, the service and the operator.

There is no node: the Deployment controller makes the pods, and this module says of each what its
kubelet would. The processes may be killed and started again as often as a bench likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from a2a.types import Task

from kais import a2a
from kais_cluster import errors
from kais_cluster.host import ephemeral, ports
from kais_cluster.host.cluster import HostCluster

NAMESPACE = "bench"
PRICES = '{"openai/house": {"input": "1", "output": "10"}}'
_PATIENCE_S = 120.0
_TOKEN = "bench-token-of-{}-0123456789"  # noqa: S105 - of a service on loopback
T = TypeVar("T")


def wait_for(read: Callable[[], T], subject: str, within_s: float = _PATIENCE_S) -> T:
    """Read until there is something.

    Raises:
        SystemExit: There was nothing in time.
    """
    deadline = time.monotonic() + within_s
    while not (value := read()):
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {within_s:.0f} s: {subject}")
        time.sleep(0.05)
    return value


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - on loopback
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@dataclass
class Program:
    """A process that can be killed and started again."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    ready_url: str
    log: Path
    process: subprocess.Popen[bytes] | None = None
    kills: int = 0

    def start(self) -> None:
        """Start it, without waiting."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=os.environ | self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Wait until it answers."""
        wait_for(lambda: answers(self.ready_url), f"{self.name} answers; see {self.log}")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.process is not None
        self.kills += 1
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def memory_mib(self) -> float:
        """What it holds in memory."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@dataclass(frozen=True)
class MissionEnd:
    """What became of a mission, and when it was seen."""

    status: Mapping[str, Any]
    seen_at: float


@dataclass
class MindTeam:
    """Service cells of one namespace with all that they need."""

    folder: Path
    cluster: HostCluster
    cells: list[str]
    models: Program
    service: Program
    operator: Program
    runtimes: list[Program] = field(default_factory=list)

    def programs(self) -> list[Program]:
        """All that a kill may hit."""
        return [self.operator, self.service, *self.runtimes]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("--namespace", NAMESPACE, *arguments, stdin=stdin)

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The objects of a kind; none while the API server does not answer."""
        try:
            return list(json.loads(self.kubectl("get", kind, "-o", "json"))["items"])
        except errors.CommandFailed:
            return []

    def journal(self) -> list[dict[str, Any]]:
        """The calls that the model server got."""
        url = self.models.ready_url
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - on loopback
            return list(json.loads(answer.read()))

    def send(self, names: Sequence[str]) -> None:
        """Create missions, each for the next cell."""
        bodies = [
            {
                "apiVersion": "kais.io/v1",
                "kind": "Mission",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "cellRef": self.cells[number % len(self.cells)],
                    "objective": f"Do the work of <{name}>.",
                    "completion": {"timeout": "30m", "maxAttempts": 3},
                },
            }
            for number, name in enumerate(names)
        ]
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        self.kubectl("create", "-f", "-", stdin=json.dumps(listed))

    def wait_for_missions(
        self, names: Sequence[str], step: Callable[[], None], *, within_s: float
    ) -> dict[str, MissionEnd]:
        """Watch missions until all have an outcome; call `step` at least once a second.

        Raises:
            SystemExit: One has none in time.
        """
        ends: dict[str, MissionEnd] = {}
        deadline = time.monotonic() + within_s
        with self._watch() as lines:
            while len(ends) < len(names):
                if time.monotonic() > deadline:
                    missing = sorted(set(names) - set(ends))
                    raise SystemExit(f"no outcome within {within_s:.0f} s: {missing[:5]}")
                step()
                for line in lines():
                    body = json.loads(line)
                    name, status = body["metadata"].get("name"), body.get("status") or {}
                    if name in names and name not in ends and status.get("outcome"):
                        ends[name] = MissionEnd(status, time.time())
        return {
            body["metadata"]["name"]: MissionEnd(
                body["status"], ends[body["metadata"]["name"]].seen_at
            )
            for body in self.items("missions")
            if body["metadata"]["name"] in ends
        }

    @contextlib.contextmanager
    def _watch(self) -> Iterator[Callable[[], list[str]]]:
        kubectl = self.cluster.settings.binaries / "kubectl"
        process = subprocess.Popen(
            [
                *(str(kubectl), "--kubeconfig", str(self.cluster.kubeconfig), "-n", NAMESPACE),
                *("get", "missions", "--watch", "-o", "jsonpath={@}{'\\n'}"),
            ],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        rest = b""

        def lines() -> list[str]:
            nonlocal rest
            time.sleep(0.02)
            rest += process.stdout.read() or b"" if process.stdout else b""
            *whole, rest = rest.split(b"\n")
            return [line.decode() for line in whole if line]

        try:
            yield lines
        finally:
            process.kill()
            process.wait()

    def tasks(self) -> dict[str, Task]:
        """The tasks of all cells, by their ids.

        Raises:
            SystemExit: Two cells have the same.
        """
        tasks: dict[str, Task] = {}
        for cell in self.cells:
            for identity, body in _rows(self.folder / cell / "state/tasks.db", _TASKS):
                if identity in tasks:
                    raise SystemExit(f"task {identity} is in two cells")
                tasks[identity] = Task.FromString(body)
        return tasks

    def ledger(self) -> dict[str, list[tuple[str, Decimal, int, int, str]]]:
        """The calls in the ledger of each cell: state, cost, tokens in and out, task."""
        return {
            cell: [
                (state, Decimal(cost) / 10**12, put_in, out, task)
                for state, cost, put_in, out, task in _rows(
                    self.folder / cell / "state/ledger.db", _CALLS
                )
            ]
            for cell in self.cells
        }


_TASKS = "SELECT id, body FROM task"
_CALLS = "SELECT state, cost, input_tokens, output_tokens, task FROM call"


def _rows(path: Path, query: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def finished_at(task: Task) -> float:
    """When the runtime finished a task."""
    return float(task.status.timestamp.ToDatetime(UTC).timestamp())


def task_of(end: MissionEnd, attempt: int) -> str:
    """The id of the task of an attempt."""
    return a2a.task_id(a2a.OPERATOR, a2a.message_id(end.status["runId"], attempt, "work"))


def disagreements(team: MindTeam, ends: Mapping[str, MissionEnd]) -> list[str]:
    """Compare missions, tasks, ledgers and the journal of the model server; empty is as it must be.

    A call that is settled was answered, with the tokens that the journal has. Each further entry
    of the journal needs a reservation of its own, which is open or was kept as an estimate.
    """
    problems = []
    expected = {
        task_of(end, number)
        for end in ends.values()
        for number in range(1, end.status["attempt"] + 1)
    }
    tasks = team.tasks()
    problems += [f"no mission has the task {task}" for task in sorted(set(tasks) - expected)]
    problems += [f"no cell has the task {task}" for task in sorted(expected - set(tasks))]
    ledger, journal = team.ledger(), team.journal()
    for cell in team.cells:
        entries = [entry for entry in journal if entry["model"] == "house" and _is_of(entry, cell)]
        answered = Counter((e["input_tokens"], e["output_tokens"]) for e in entries)
        settled = Counter((i, o) for state, _, i, o, _ in ledger[cell] if state == "settled")
        reserved = sum(state in ("open", "estimated") for state, *_ in ledger[cell])
        if settled - answered:
            problems.append(f"{cell}: settled, but never answered: {settled - answered}")
        if len(entries) > settled.total() + reserved:
            problems.append(
                f"{cell}: {len(entries)} calls, in the ledger {settled.total()} and {reserved}"
            )
    costs: Counter[str] = Counter()
    for calls in ledger.values():
        for _, cost, _, _, task in calls:
            costs[task] += cost  # type: ignore[assignment]
    for name, end in ends.items():
        ours = sum(costs[task_of(end, number)] for number in range(1, end.status["attempt"] + 1))
        shown = Decimal(str(end.status.get("cost", 0)))
        if abs(shown - ours) > Decimal("0.000001"):
            problems.append(f"{name}: its status says ${shown}, the ledger ${ours}")
    return problems


def _is_of(entry: Mapping[str, Any], cell: str) -> bool:
    return f"You are {cell}." in json.dumps(entry["request"])


@contextlib.contextmanager
def team(script: str, *, cells: int, tools: Sequence[str] = ()) -> Iterator[MindTeam]:
    """Run so many cells, all ready for work, during the block."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kais-minds-")))
        cluster = stack.enter_context(ephemeral.control_plane())
        cluster.kubectl("apply", "--server-side", "-f", "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "crds")
        for namespace in ("kais-system", NAMESPACE):
            cluster.kubectl("create", "namespace", namespace)
        names = [f"mind-{number}" for number in range(cells)]
        model_port, service_port, metrics_port, *cell_ports = ports.free_ports(3 + cells)
        (folder / "script.yaml").write_text(script)
        (folder / "cells.json").write_text(json.dumps(dict(zip(names, cell_ports, strict=True))))
        _write_tokens(folder, {})
        programs = Path(sys.executable).parent
        models = Program(
            "models",
            [
                *(sys.executable, "-m", "tests.model_server", "--port", str(model_port)),
                *("--script", str(folder / "script.yaml")),
            ],
            {},
            f"http://127.0.0.1:{model_port}/journal",
            folder / "models.log",
        )
        service = Program(
            "service",
            [
                *(str(programs / "kais-knowledge"), "serve", "--db", str(folder / "k.db")),
                *("--port", str(service_port), "--auth", "token"),
                *("--token-file", str(folder / "tokens.json")),
            ],
            {},
            f"http://127.0.0.1:{service_port}/readyz",
            folder / "service.log",
        )
        operator = Program(
            "operator",
            [sys.executable, "-m", "bench.loopback_operator"],
            {
                "KUBECONFIG": str(cluster.kubeconfig),
                "KAIS_KNOWLEDGE_URL": f"http://127.0.0.1:{service_port}",
                "KAIS_KNOWLEDGE_TOKEN_FILE": str(folder / "operator.token"),
                "KAIS_OPERATOR_NAMESPACE": "kais-system",
                "KAIS_METRICS_PORT": str(metrics_port),
                "KAIS_LOG_LEVEL": "WARNING",
                "KAIS_BENCH_CELLS": str(folder / "cells.json"),
            },
            f"http://127.0.0.1:{metrics_port}/healthz",
            folder / "operator.log",
        )
        built = MindTeam(folder, cluster, names, models, service, operator)
        for program in (models, service, operator):
            stack.callback(program.stop)
            program.start()
            program.wait()
        for name, port in zip(names, cell_ports, strict=True):
            spec = _spec(name, model_port, tools)
            body = {
                "apiVersion": "kais.io/v1",
                "kind": "Cell",
                "metadata": {"name": name},
                "spec": spec,
            }
            built.kubectl("apply", "-f", "-", stdin=json.dumps(body))
            runtime = Program(
                name,
                [sys.executable, "-m", "agent_runtime"],
                _variables(folder / name, name, spec, port, service_port),
                f"http://127.0.0.1:{port}{a2a.CARD_PATH}",
                folder / f"{name}.log",
            )
            built.runtimes.append(runtime)
            stack.callback(runtime.stop)
        _register(built)
        for runtime in built.runtimes:
            runtime.start()
        for runtime in built.runtimes:
            runtime.wait()
        _say_ready(built)
        yield built


def _spec(name: str, model_port: int, tools: Sequence[str]) -> dict[str, Any]:
    return {
        "mode": "Service",
        "mind": {
            "provider": "openai",
            "model": "house",
            "baseUrl": f"http://127.0.0.1:{model_port}/v1",
            "systemPrompt": f"You are {name}.",
            "maxTokens": 100,
        },
        "tools": [{"name": tool} for tool in tools],
    }


def _variables(
    folder: Path, name: str, spec: Mapping[str, Any], port: int, service_port: int
) -> dict[str, str]:
    for path in ("workspace/shared", f"workspace/private/{name}"):
        (folder / path).mkdir(parents=True)
    return {
        "CELL_NAME": name,
        "CELL_NAMESPACE": NAMESPACE,
        "CELL_SPEC": json.dumps(spec),
        "KAIS_A2A_PORT": str(port),
        "KAIS_AGENT_STATE": str(folder / "state"),
        "KAIS_WORKSPACE": str(folder / "workspace"),
        "KAIS_TERMINATION_FILE": str(folder / "termination-log"),
        "KAIS_PRICES": PRICES,
        "KNOWLEDGE_SERVICE_URL": f"http://127.0.0.1:{service_port}",
        "KNOWLEDGE_TOKEN_FILE": str(folder / "token"),
        "OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false",
    }


def _register(built: MindTeam) -> None:
    """Give each cell the token of its account, which the operator has created."""

    def accounts() -> dict[str, str]:
        listed = {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in built.items("serviceaccounts")
        }
        owners = {
            item["metadata"]["name"]: item["spec"]["template"]["spec"].get("serviceAccountName", "")
            for item in built.items("deployments")
        }
        found = {
            name: f"system:serviceaccount:{NAMESPACE}:{account} {listed[account]}"
            for name, account in owners.items()
            if account in listed
        }
        return found if set(built.cells) <= set(found) else {}

    _write_tokens(built.folder, wait_for(accounts, "the accounts of all cells"))
    time.sleep(1.5)  # the service looks at the file once a second


def _write_tokens(folder: Path, cells: Mapping[str, str]) -> None:
    """Write the token file of the service, and the token of each caller."""
    grants = [{"scope": "platform", "verbs": ["admin"], "subtree": True}]
    principals: list[dict[str, Any]] = [
        {"name": "operator", "type": "system", "home": "platform", "grants": grants}
    ]
    principals += [
        {"name": subject, "type": "agent", "home": f"realm:{NAMESPACE}/cell:{name}"}
        for name, subject in cells.items()
    ]
    for name, principal in zip(["operator", *cells], principals, strict=True):
        principal["token"] = _TOKEN.format(name)
        place = folder / "operator.token" if name == "operator" else folder / name / "token"
        place.write_text(principal["token"])
    path = folder / "tokens.new"
    path.write_text(json.dumps({"principals": principals}))
    path.chmod(0o600)
    path.rename(folder / "tokens.json")


def _say_ready(built: MindTeam) -> None:
    """Say of each pod what its kubelet would."""
    pods = wait_for(
        lambda: found if len(found := built.items("pods")) >= len(built.cells) else [],
        "a pod of each cell",
    )
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"running": {"startedAt": at}}
    for pod in pods:
        container = pod["spec"]["containers"][0]["name"]
        reported = {"name": container, "image": "x", "imageID": "", "ready": True}
        status = {
            "phase": "Running",
            "conditions": [{"type": t, "status": "True"} for t in ("Ready", "ContainersReady")],
            "containerStatuses": [{**reported, "restartCount": 0, "state": state}],
        }
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        built.kubectl("patch", "pod", pod["metadata"]["name"], *patch)
