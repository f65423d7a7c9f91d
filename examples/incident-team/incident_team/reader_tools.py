"""The tools that read a namespace: failing pods, deployments, and how a deployment changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from incident_team import deployments
from incident_team.deployments import Body, DeploymentApi
from namespace_doctor import diagnose
from namespace_doctor.kubernetes_api import NamespaceReader

MAX_PODS = 20
MAX_LINES = 50


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class ReaderTools:
    """The tools of the server `reader`. Each method that is a tool returns text for a model."""

    pods: NamespaceReader
    deployments: DeploymentApi
    now: Callable[[], datetime] = _now

    def explain_failing_pods(self) -> str:
        """Explain why pods of the namespace fail: images, crashes, probes, memory, scheduling."""
        examination = diagnose.examine(
            self.pods.pods(), self.pods.events(), now=self.now(), max_pods=MAX_PODS
        )
        lines = [f"{found.pod}: {found.statement}" for found in examination.diagnoses]
        if examination.omitted_pods:
            lines.append(f"{examination.omitted_pods} more pods fail")
        return "\n".join(lines) or f"none of {examination.examined_pods} pods fails"

    def list_deployments(self) -> str:
        """List the deployments of the namespace: replicas, images and memory limits."""
        return _lines(map(_deployment_line, self.deployments.all()), "no deployments")

    def rollout_history(self, deployment: str) -> str:
        """Show the revisions of a deployment, newest first: when, image and memory limit."""
        replica_sets = self.deployments.replica_sets(deployment)
        return _lines(map(_revision_line, replica_sets), f"no revisions of {deployment}")


def _lines(lines: Iterable[str], none: str) -> str:
    shown = list(lines)
    rest = [f"{len(shown) - MAX_LINES} more"] if len(shown) > MAX_LINES else []
    return "\n".join([*shown[:MAX_LINES], *rest]) or none


def _deployment_line(body: Body) -> str:
    available = body.get("status", {}).get("availableReplicas", 0)
    wanted = body["spec"].get("replicas", 1)
    name = body["metadata"]["name"]
    return f"{name}: {available} of {wanted} replicas available; {_containers(body)}"


def _revision_line(body: Body) -> str:
    created = body["metadata"]["creationTimestamp"]
    return f"revision {deployments.revision(body)}, first made {created}: {_containers(body)}"


def _containers(body: Body) -> str:
    return "; ".join(
        f"container {container['name']}: image {container['image']}, "
        f"memory limit {deployments.memory_limit(container)}"
        for container in deployments.containers(body)
    )
