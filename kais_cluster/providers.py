"""Where a cluster comes from.

In this order: one that KAIS_E2E_KUBECONFIG names on purpose; kind, where Docker answers; else the
host's own processes. A control plane without a node is always the host's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kais_cluster import errors, settings, subprocesses
from kais_cluster.host import build, cluster
from kais_cluster.kind import docker
from kais_cluster.kind.cluster import KindCluster
from kais_cluster.status import Status


class Provider(Protocol):
    """A cluster, up or not, with the programs that talk to it."""

    @property
    def name(self) -> str:
        """Return the word for this kind of cluster."""

    @property
    def kubeconfig(self) -> Path:
        """Return an administrator's kubeconfig."""

    @property
    def binaries(self) -> Path:
        """Return the folder of our own kubectl and helm."""

    @property
    def audit_log(self) -> Path | None:
        """Return the API server's audit log, where we can read it."""

    def up(self, *, no_node: bool) -> None:
        """Bring it up; on a cluster that is up, say so and change nothing."""

    def down(self) -> None:
        """Remove it with all its state."""

    def status(self) -> Status:
        """Observe it at this moment."""

    def env(self) -> Mapping[str, str]:
        """Return the variables for programs that talk to it: KUBECONFIG, KUBECACHEDIR, PATH."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl and return what it prints; raises CommandFailed."""

    def load_image(self, archive: Path, *, name: str) -> None:
        """Make an image available to its pods from a `docker save` archive."""


@dataclass(frozen=True)
class NamedCluster:
    """A cluster that someone else runs; it is used, never started or stopped."""

    kubeconfig: Path
    binaries: Path
    report: subprocesses.Reporter = subprocesses.print_line
    name: str = "kubeconfig"
    audit_log: Path | None = None

    def up(self, *, no_node: bool) -> None:
        """Check that it answers, and have kubectl and helm at hand.

        Raises:
            NotRunning: it does not answer.
        """
        binaries = build.by_name(["kubectl"] if no_node else ["kubectl", "helm"])
        build.build(binaries, self.binaries, report=self.report)
        if not self.status().answers:
            raise errors.NotRunning(f"the cluster of {self.kubeconfig} does not answer")
        self.report(f"using the cluster of {self.kubeconfig}, as KAIS_E2E_KUBECONFIG names it")

    def down(self) -> None:
        """Leave it alone."""
        self.report(
            f"left alone: the cluster of {self.kubeconfig}, which KAIS_E2E_KUBECONFIG names"
        )

    def status(self) -> Status:
        """Ask it whether it is ready."""
        try:
            self.kubectl("get", "--raw", "/readyz", timeout_s=10)
            nodes = self.kubectl("get", "nodes", timeout_s=10).strip()
        except errors.CommandFailed:
            return Status(self.name, "named", answers=False, kubeconfig=self.kubeconfig)
        return Status(self.name, "named", answers=True, kubeconfig=self.kubeconfig, nodes=nodes)

    def env(self) -> Mapping[str, str]:
        """Return the variables for programs that talk to it."""
        path = f"{self.binaries}:{subprocesses.search_path()}"
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl against it."""
        command = [self.binaries / "kubectl", *arguments]
        return subprocesses.run(command, env=self.env(), stdin=stdin, timeout_s=timeout_s)

    def load_image(self, archive: Path, *, name: str) -> None:
        """Refuse: a cluster of someone else's takes images from its registry only."""
        raise errors.ClusterError(
            f"cannot load {name} ({archive}) into the cluster of {self.kubeconfig}: push it to a"
            " registry that cluster reads, and name it in the chart's values"
        )


def choose(
    *,
    no_node: bool = False,
    report: subprocesses.Reporter = subprocesses.print_line,
    has_docker: Callable[[], bool] = docker.is_available,
) -> Provider:
    """Choose the provider of a cluster by the environment and by what this machine has."""
    if kubeconfig := settings.named_kubeconfig():
        return NamedCluster(kubeconfig, settings.binaries_dir(), report)
    if not no_node and has_docker():
        return KindCluster(settings.kind_dir(), settings.binaries_dir(), report)
    return cluster.HostCluster(settings.host(no_node=no_node), report)
