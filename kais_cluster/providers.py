"""The providers of clusters.

In this order: the cluster that KAIS_E2E_KUBECONFIG names; kind, if Docker answers; otherwise
processes of this host. A control plane without a node always runs on the host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kais_cluster import errors, settings, subprocesses
from kais_cluster.host import cluster, component_builds
from kais_cluster.kind import docker
from kais_cluster.kind.cluster import KindCluster
from kais_cluster.status import Status


class Provider(Protocol):
    """A cluster, whether it runs or not, and the programs to access it."""

    @property
    def name(self) -> str:
        """Return the name of this kind of cluster."""

    @property
    def kubeconfig(self) -> Path:
        """Return an administrator's kubeconfig."""

    @property
    def binaries(self) -> Path:
        """Return the folder of our kubectl and helm."""

    @property
    def audit_log(self) -> Path | None:
        """Return the path of the API server's audit log; None if we cannot read it."""

    def up(self, *, no_node: bool) -> None:
        """Start the cluster; if it runs already, report that and change nothing."""

    def down(self) -> None:
        """Remove the cluster and all its state."""

    def status(self) -> Status:
        """Return the present status of the cluster."""

    def env(self) -> Mapping[str, str]:
        """Return the variables for clients of the cluster: KUBECONFIG, KUBECACHEDIR, PATH."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl and return its output.

        Raises:
            CommandFailed: It ended with an error or took too long.
        """

    def load_image(self, archive: Path, *, name: str) -> None:
        """Load a `docker save` archive, so that pods can use the image."""


@dataclass(frozen=True)
class NamedCluster:
    """A cluster that another person runs; it is used, but never started or stopped."""

    kubeconfig: Path
    binaries: Path
    report: subprocesses.Reporter = subprocesses.print_line
    name: str = "kubeconfig"
    audit_log: Path | None = None

    def up(self, *, no_node: bool) -> None:
        """Check that the cluster answers, and build kubectl and helm if necessary.

        Raises:
            NotRunning: The cluster does not answer.
        """
        binaries = component_builds.by_name(["kubectl"] if no_node else ["kubectl", "helm"])
        component_builds.build(binaries, self.binaries, report=self.report)
        if not self.status().answers:
            raise errors.NotRunning(f"the cluster of {self.kubeconfig} does not answer")
        self.report(f"using the cluster of {self.kubeconfig}, as KAIS_E2E_KUBECONFIG names it")

    def down(self) -> None:
        """Change nothing, and report that: the cluster belongs to another person."""
        self.report(
            f"left alone: the cluster of {self.kubeconfig}, which KAIS_E2E_KUBECONFIG names"
        )

    def status(self) -> Status:
        """Return whether the cluster is ready."""
        try:
            self.kubectl("get", "--raw", "/readyz", timeout_s=10)
            nodes = self.kubectl("get", "nodes", timeout_s=10).strip()
        except errors.CommandFailed:
            return Status(self.name, "named", answers=False, kubeconfig=self.kubeconfig)
        return Status(self.name, "named", answers=True, kubeconfig=self.kubeconfig, nodes=nodes)

    def env(self) -> Mapping[str, str]:
        """Return the variables for clients of the cluster."""
        path = subprocesses.search_path(self.binaries)
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl against the cluster."""
        command = [self.binaries / "kubectl", *arguments]
        return subprocesses.run(command, env=self.env(), stdin=stdin, timeout_s=timeout_s)

    def load_image(self, archive: Path, *, name: str) -> None:
        """Reject the archive: a cluster of another person gets images only from its registry.

        Raises:
            ClusterError: Always.
        """
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
    """Return the provider of a cluster, chosen by the environment and this machine's programs.

    Raises:
        InvalidSetting: KAIS_E2E_KUBECONFIG names a file that does not exist.
    """
    if kubeconfig := settings.named_kubeconfig():
        if not kubeconfig.is_file():
            raise errors.InvalidSetting(
                f"KAIS_E2E_KUBECONFIG names {kubeconfig}, and there is no such file"
            )
        return NamedCluster(kubeconfig, settings.binaries_dir(), report)
    if not no_node and has_docker():
        return KindCluster(settings.kind_dir(), settings.binaries_dir(), report)
    return cluster.HostCluster(settings.host(no_node=no_node), report)
