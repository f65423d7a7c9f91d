"""Operator and knowledge service as the processes they are, and a stand-in for the kubelet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kais_cluster.host import ports
from tests.cluster.object_lister import ObjectLister

T = TypeVar("T")
PATIENCE_S = 150.0
"""How long to wait for what the product promises no time for, on a machine that is very busy."""
SCRIPTS = Path(sys.executable).parent


def free_port() -> int:
    return ports.free_ports(1)[0]


def wait_for(read: Callable[[], T], *, subject: str, within_s: float = PATIENCE_S) -> T:
    """Look every 0.2 s until there is something; AssertionError with `subject` when time is up."""
    deadline = time.monotonic() + within_s
    while True:
        value = read()
        if value:
            return value
        is_in_time = time.monotonic() < deadline
        assert is_in_time, f"not within {within_s:.0f} s: {subject}; last: {value!r}"
        time.sleep(0.2)


class Process:
    """A program of ours, with its output in a file."""

    def __init__(self, arguments: list[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(SCRIPTS / arguments[0]), *arguments[1:]],
                env={**os.environ, **env},  # noqa: TID251 (a child gets ours and its settings)
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def status(self, *, within_s: float = 30.0) -> int:
        """Wait until it ends by itself, and give its exit status."""
        return self._process.wait(within_s)

    def end(self, *, within_s: float = 30.0) -> int:
        """Ask it to end, and give its exit status."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Operator(Process):
    """One `kais-operator`, or another program; in namespace mode unless `namespaces` is empty."""

    def __init__(  # noqa: PLR0913 (one name per setting)
        self,
        kubeconfig: Path,
        *,
        namespace: str,
        namespaces: str,
        store_url: str,
        log: Path,
        program: tuple[str, ...] = ("kais-operator",),
        python_path: str = "",
        renderer_socket: str = "",
    ) -> None:
        self.port = free_port()
        env = {
            "KUBECONFIG": str(kubeconfig),
            "KAIS_OPERATOR_NAMESPACE": namespace,
            "KAIS_WATCH_NAMESPACES": namespaces,
            "KAIS_KNOWLEDGE_URL": store_url,
            "KAIS_METRICS_HOST": "127.0.0.1",
            "KAIS_METRICS_PORT": str(self.port),
        }
        if python_path:
            env["PYTHONPATH"] = python_path
        if renderer_socket:
            env["KAIS_RENDERER_SOCKET"] = renderer_socket
        super().__init__([*program], env, log)

    def ask(self, path: str) -> tuple[int, str]:
        """Ask one of its routes; (0, "") while it does not listen."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()
        except OSError:
            return 0, ""

    def leads(self) -> bool:
        return self.log.exists() and self.log.read_text().count(
            "leading as"
        ) > self.log.read_text().count("lost Lease")

    def wait_ready(self, *, within_s: float = PATIENCE_S) -> None:
        """Wait until it leads and trusts its watches; one that does not is killed.

        Raises:
            AssertionError: It ended or is not ready in time; says why, with the end of its log.
        """

        def ready_or_ended() -> bool:
            return self._process.poll() is not None or (
                self.leads() and self.ask("/readyz")[0] == 200
            )

        try:
            wait_for(ready_or_ended, subject="the operator is ready", within_s=within_s)
            assert self._process.poll() is None, "the operator ended"
        except AssertionError as exc:
            status, answer = self._process.poll(), self.ask("/readyz")
            self.kill()
            log = self.log.read_text()[-8000:]
            raise AssertionError(f"{exc}; exit status {status}; /readyz {answer}:\n{log}") from exc

    def metric(self, name: str) -> float:
        """Sum the samples of a metric."""
        lines = [line for line in self.ask("/metrics")[1].splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


Start = Callable[..., Operator]
"""Starts an operator of the test's namespace; see the fixture `start`."""


class Cluster:
    """kubectl and lists in one namespace, and what a kubelet would say."""

    def __init__(self, kubectl: Callable[..., str], lister: ObjectLister, namespace: str) -> None:
        self._kubectl = kubectl
        self._lister = lister
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._kubectl("--namespace", self.namespace, *arguments, stdin=stdin)

    def apply(self, *bodies: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def items(self, kind: str, *, labels: str = "") -> list[dict[str, Any]]:
        return self._lister.items(kind, self.namespace, labels=labels)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        items = [item for item in self.items(kind) if item["metadata"]["name"] == name]
        return items[0] if items else None

    def status(self, kind: str, name: str) -> dict[str, Any]:
        body = self.get(kind, name)
        return (body or {}).get("status") or {}

    def condition(self, kind: str, name: str, type_: str) -> dict[str, Any]:
        conditions = self.status(kind, name).get("conditions") or []
        return next((c for c in conditions if c["type"] == type_), {})

    def versions(self, *kinds: str) -> dict[str, str]:
        """Give the resourceVersion of every object of some kinds."""
        return {
            f"{kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for kind in kinds
            for item in self.items(kind)
        }

    def bodies(self, *kinds: str) -> dict[str, dict[str, Any]]:
        """Give every object of some kinds, without the marks of who wrote which field."""
        result = {
            f"{kind}/{item['metadata']['name']}": item
            for kind in kinds
            for item in self.items(kind)
        }
        for item in result.values():
            item["metadata"].pop("managedFields", None)
        return result

    def finish_pod(
        self, pod: dict[str, Any], *, exit_code: int, message: str, is_evicted: bool = False
    ) -> None:
        """Say of a pod what the kubelet says when its one container has ended."""
        phase = "Succeeded" if exit_code == 0 else "Failed"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended = {"exitCode": exit_code, "reason": "Ended", "message": message}
        ended |= {"startedAt": at, "finishedAt": at}
        statuses = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
            for container in pod["spec"]["containers"]
        ]
        status: dict[str, Any] = {
            "phase": phase,
            "startTime": at,
            "containerStatuses": statuses,
        }
        if is_evicted:
            disrupted = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
            }
            status["conditions"] = [disrupted]
        self.kubectl(
            "patch",
            "pod",
            pod["metadata"]["name"],
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": status}),
        )
