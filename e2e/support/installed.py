"""A cluster with kais installed, as a person at a terminal has it: kubectl, kais, the audit log."""

import builtins
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.support.waiting import wait_until
from knowledge_client import KnowledgeClient

Body = dict[str, Any]
KAIS_NAMESPACE = "kais-system"
OPERATOR = "app.kubernetes.io/component=operator"
KNOWLEDGE = "app.kubernetes.io/component=knowledge"


@dataclass(frozen=True)
class Installed:
    """Where the cluster is. All calls go through the provider's own kubectl."""

    kubeconfig: Path
    kubectl_path: Path
    cache: Path
    audit_log: Path | None

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.cache),
            "NO_COLOR": "1",
        }

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        completed = subprocess.run(
            [str(self.kubectl_path), *arguments],
            input=stdin,
            text=True,
            capture_output=True,
            env=self.environment,
            timeout=180,
            check=False,
        )
        if check and completed.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {completed.stderr}")
        return completed.stdout if check else completed.stdout + completed.stderr

    def kais(self, *arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("kais")), *arguments],
            text=True,
            capture_output=True,
            env=self.environment,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def get(self, kind: str, name: str, namespace: str) -> Body | None:
        output = self.kubectl(
            "get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found"
        )
        return json.loads(output) if output.strip() else None

    def list(self, kind: str, namespace: str, labels: str = "") -> list[Body]:
        selector = ["-l", labels] if labels else []
        output = self.kubectl("get", kind, "-n", namespace, "-o", "json", *selector)
        return list(json.loads(output)["items"])

    def apply(self, *bodies: Body | str) -> str:
        text = "\n---\n".join(b if isinstance(b, str) else json.dumps(b) for b in bodies)
        return self.kubectl("apply", "-f", "-", stdin=text)

    def fresh_namespace(self, prefix: str) -> Iterator[str]:
        """A namespace that no earlier run used: the store remembers realms by their name."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        self.kubectl("create", "namespace", name)
        yield name
        self.kubectl("delete", "namespace", name, "--wait=false")

    def finished_mission(self, name: str, namespace: str, timeout_s: float = 120) -> Body:
        """Wait until a mission has an outcome, is recorded and its facts are extracted."""

        def settled(body: Body | None) -> bool:
            mission_conditions = conditions(body)
            return (
                bool((body or {}).get("status", {}).get("outcome"))
                and mission_conditions.get("Recorded", {}).get("status") == "True"
                and mission_conditions.get("KnowledgeExtracted", {}).get("status") == "True"
            )

        body = wait_until(
            lambda: self.get("mission", name, namespace),
            settled,
            description=f"settled mission {namespace}/{name}",
            timeout_s=timeout_s,
        )
        assert body is not None
        return body

    @contextmanager
    def store(self, namespace: str) -> Iterator[KnowledgeClient]:
        """The store as a person of this namespace may see it, over a port-forward of kubectl's."""
        token = self.kubectl(
            "create", "token", "kais-user", "-n", namespace, "--audience", "kais-knowledge"
        ).strip()
        with self.forwarded() as url, KnowledgeClient(url=url, token=token) as client:
            yield client

    @contextmanager
    def forwarded(self) -> Iterator[str]:
        service = self.list("service", KAIS_NAMESPACE, KNOWLEDGE)[0]["metadata"]["name"]
        forward = subprocess.Popen(
            [
                str(self.kubectl_path),
                "port-forward",
                "-n",
                KAIS_NAMESPACE,
                f"svc/{service}",
                ":8000",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
        try:
            assert forward.stdout is not None
            line = forward.stdout.readline()
            assert "Forwarding from" in line, line
            yield f"http://127.0.0.1:{line.split(':')[1].split()[0]}"
        finally:
            forward.terminate()
            forward.wait(10)
            assert forward.stdout is not None
            forward.stdout.close()

    def kill(self, labels: str) -> None:
        """End the container of a component by SIGKILL, found by its id in /proc.

        The container has the name of the component; others of the pod, such as the renderer of the
        operator, go on.

        Only a test marked `alone` may do that, for other tests need the component too.
        The kubelet restarts it at once the first time, and later after a pause that doubles with
        every kill. A pod in such a pause is deleted, so that its controller makes another.
        """
        assert "PYTEST_XDIST_WORKER" not in os.environ, (
            "mark this test `alone`: others run beside it"
        )
        (pod,) = [p for p in self._kais_pods(labels) if p["status"]["phase"] == "Running"]
        name = labels.partition("=")[2]
        (statuses_before,) = _statuses_of(pod, name)
        container = statuses_before["containerID"].split("//")[1]
        pids = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _is_in(entry, container)
        ]
        assert pids, f"no process of container {container}"
        for pid in pids:
            with suppress(ProcessLookupError):  # workers end with the process that started them
                os.kill(pid, 9)

        def is_another(status: Body) -> bool:
            return bool(
                status.get("containerID") != statuses_before["containerID"] and status["ready"]
            )

        def look() -> str:
            states = [s for p in self._kais_pods(labels) for s in _statuses_of(p, name)]
            if [is_another(status) for status in states] == [True]:
                return "ready"
            waiting = {status["state"].get("waiting", {}).get("reason") for status in states}
            return "pauses" if "CrashLoopBackOff" in waiting else "starts"

        description = f"restarted and ready {labels}"
        if (
            wait_until(look, lambda state: state in {"ready", "pauses"}, description=description)
            == "pauses"
        ):
            self.kubectl("delete", "pod", pod["metadata"]["name"], "-n", KAIS_NAMESPACE)
            wait_until(look, lambda state: state == "ready", description=description)

    def _kais_pods(self, labels: str) -> builtins.list[Body]:
        return self.list("pod", KAIS_NAMESPACE, labels)


def _statuses_of(pod: Body, container: str) -> list[Body]:
    """Return the status of a container; empty before its pod has any."""
    statuses = pod["status"].get("containerStatuses", ())
    return [status for status in statuses if status["name"] == container]


def _is_in(process: Path, container: str) -> bool:
    try:
        return container in (process / "cgroup").read_text()
    except OSError:  # the process ended while we looked
        return False


def conditions(body: Body | None) -> dict[str, Body]:
    """The conditions of an object by their type."""
    return {c["type"]: c for c in (body or {}).get("status", {}).get("conditions", [])}
