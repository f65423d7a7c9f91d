"""Start etcd, kube-apiserver and kube-controller-manager.

The API server always writes an audit log of limited size, with the metadata of each finished
request. End-to-end tests read it to find which client wrote what.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, settings, subprocesses
from kais_cluster.host import files, ports
from kais_cluster.host.processes import Processes

_AUDIT_SIZE_MB = "100"  # arbitrary: days of an idle cluster, an hour of a busy one
_AUDIT_FILES = "3"


@dataclass(frozen=True)
class ControlPlane:
    """The control plane of one state directory."""

    host: settings.HostSettings
    processes: Processes

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.host.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Return the path of the API server's audit log."""
        return self.host.directory / "logs" / "audit.log"

    def environment(self) -> dict[str, str]:
        """Return the variables for clients of this cluster.

        The kubectl cache is separate, so that the cache of one cluster is never used for the next
        one at the same address.
        """
        directory = self.host.directory
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(directory / "kubectl-cache"),
            "PATH": subprocesses.search_path(self.host.binaries),
        }

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl as administrator and return its output.

        Raises:
            CommandFailed: It ended with an error or took too long.
        """
        command = [str(self.host.binaries / "kubectl"), *arguments]
        return subprocesses.run(command, env=self.environment(), stdin=stdin, timeout_s=timeout_s)

    def answers(self, *arguments: str) -> bool:
        """Return whether a kubectl command succeeds now."""
        try:
            self.kubectl(*arguments, "--request-timeout=5s", timeout_s=10)
        except errors.CommandFailed:
            return False
        return True

    def is_ready(self) -> bool:
        """Return whether the API server reports that it is ready."""
        return self.answers("get", "--raw", "/readyz")

    def start(self, address: str, port: int, *, flags: tuple[str, ...], deadline: float) -> None:
        """Start all three programs, and wait for the API server before the controller manager.

        Raises:
            StartFailed: A process ended, or the API server was not ready before the deadline.
        """
        etcd = ports.free_ports(2)
        self.start_program("etcd", _etcd_flags(self.host.directory / "etcd", etcd))
        (self.host.directory / "audit-policy.yaml").write_text(files.read("audit-policy.yaml"))
        self.start_program("kube-apiserver", [*self._api_flags(address, port, etcd[0]), *flags])
        self.processes.wait_for(
            "kube-apiserver", "answer from the API server", self.is_ready, deadline=deadline
        )
        self.start_program("kube-controller-manager", self._controller_flags())

    def start_program(self, name: str, flags: Sequence[object]) -> None:
        """Start one of our binaries with the variables of this cluster."""
        env = settings.environment() | self.environment()
        self.processes.start(self.host.binaries / name, flags, env=env)

    def _api_flags(self, address: str, port: int, etcd_port: int) -> list[str]:
        directory = self.host.directory
        pki = directory / "pki"
        return [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--bind-address={address}",
            f"--advertise-address={address}",
            f"--secure-port={port}",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            f"--service-cluster-ip-range={self.host.services}.0.0/16",
            "--allow-privileged",
            f"--audit-policy-file={directory}/audit-policy.yaml",
            f"--audit-log-path={self.audit_log}",
            f"--audit-log-maxsize={_AUDIT_SIZE_MB}",
            f"--audit-log-maxbackup={_AUDIT_FILES}",
        ]

    def _controller_flags(self) -> list[str]:
        pki = self.host.directory / "pki"
        return [
            f"--kubeconfig={pki}/controller-manager.conf",
            f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--cluster-signing-cert-file={pki}/ca.crt",
            f"--cluster-signing-key-file={pki}/ca.key",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--secure-port=0",
            # With the default of 20 requests per second it starts slowly.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]


def _etcd_flags(data: Path, ports: list[int]) -> list[str]:
    client, peer = (f"http://127.0.0.1:{port}" for port in ports)
    return [
        f"--data-dir={data}",
        "--unsafe-no-fsync",  # the data of a test cluster may be lost if the machine crashes
        "--log-level=warn",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]
