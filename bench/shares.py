"""What a burst costs each process of a control plane, and which requests the API server answered.

All of them share the cores with the operator that is measured, so a write that causes work in etcd,
the API server and the controller manager costs more than the operator's own part of it.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from bench import metrics_reader
from kais_cluster.host.cluster import HostCluster

OPERATOR, RENDERING, CONTROLLERS, MEASURING = (
    *("operator", "rendering", "controller manager"),
    "bench",
)
_CLIENTS = {
    "kube-controller-manager": CONTROLLERS,
    "kube-apiserver": "API server",
    "kais-bench": MEASURING,
    "kubectl": MEASURING,
}
"""By the beginning of a User-Agent: the client; all others are the operator."""


@dataclass(frozen=True)
class Shares:
    """Processor seconds by process, and answered requests by client, verb and resource."""

    cpu_s: Mapping[str, float]
    requests: Counter[tuple[str, str, str]]

    def since(self, earlier: "Shares") -> "Shares":
        spent = {name: value - earlier.cpu_s.get(name, 0) for name, value in self.cpu_s.items()}
        return Shares(spent, self.requests - earlier.requests)


class _ObjectRef(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _AuditEvent(msgspec.Struct):
    stage: str
    verb: str
    userAgent: str = ""  # noqa: N815 - the field's name in the log
    objectRef: _ObjectRef | None = None  # noqa: N815


def read(cluster: HostCluster, operator: int) -> Shares:
    """Read the usage so far of the control plane, an operator, its children, and this process."""
    plane = {name: cluster.processes.pid(name) for name in cluster.processes.names()}
    cpu_s = {name: metrics_reader.cpu_s(pid) for name, pid in plane.items() if pid is not None}
    cpu_s[OPERATOR] = metrics_reader.cpu_s(operator)
    cpu_s[RENDERING] = metrics_reader.children_cpu_s(operator)
    cpu_s[MEASURING] = metrics_reader.cpu_s(os.getpid())
    return Shares(cpu_s, _requests(cluster))


def _requests(cluster: HostCluster) -> Counter[tuple[str, str, str]]:
    """Count the requests of the audit log and of its rotated parts, watches apart."""
    counts: Counter[tuple[str, str, str]] = Counter()
    decoder = msgspec.json.Decoder(_AuditEvent)
    for path in sorted(cluster.audit_log.parent.glob("audit*.log")):
        for line in path.read_bytes().splitlines():
            event = decoder.decode(line)
            if event.stage == "ResponseComplete" and event.verb != "watch" and event.objectRef:
                target = event.objectRef
                resource = "/".join(filter(None, (target.resource, target.subresource)))
                counts[_client(event.userAgent), event.verb, resource] += 1
    return counts


def _client(user_agent: str) -> str:
    prefix = user_agent.partition("/")[0]
    return _CLIENTS.get(prefix, OPERATOR)


HEAD = ("operator", "instances", "etcd", "API server", "controller manager", "itself", "all")
_PROCESSES = ("etcd", "kube-apiserver", "kube-controller-manager")


def cpu_row(shares: Shares, count: int) -> list[str]:
    """Processor milliseconds for one instance, by the columns of `HEAD` after the first two.

    `all` also has the measuring client, but not the knowledge service.
    """
    own = sum(shares.cpu_s.get(name, 0.0) for name in (OPERATOR, RENDERING))
    parts = (*(shares.cpu_s.get(name, 0.0) for name in _PROCESSES), own)
    return [f"{part / count * 1000:.0f}" for part in (*parts, sum(shares.cpu_s.values()))]


def request_row(shares: Shares, count: int, client: str, *, least: float = 0.05) -> tuple[str, str]:
    """The requests of a client for one instance: all, and each kind, the most frequent first."""
    counts = {key[1:]: number for key, number in shares.requests.most_common() if key[0] == client}
    parts = [
        f"{verb} {resource} {number / count:.1f}"
        for (verb, resource), number in counts.items()
        if number / count >= least
    ]
    return f"{sum(counts.values()) / count:.1f}", ", ".join(parts)
