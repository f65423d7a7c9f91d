"""A cluster with a node as a Docker container, created by our pinned `kind`.

The node image is the one that the pinned kind names by digest. The audit log and the kubeconfig
are in one state directory; the user's kubeconfig is never changed.
"""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, subprocesses
from kais_cluster.host import component_builds
from kais_cluster.kind.docker import CommandRunner
from kais_cluster.status import Status

NAME = "kais"
"""The name of the cluster among those that kind manages on this machine."""

_NODE_READY = "180s"
_POLICY = Path(__file__).parent.parent / "host/files/audit-policy.yaml"
_IN_NODE = "/var/log/kais-audit"


@dataclass(frozen=True)
class KindCluster:
    """One kind cluster, whether it runs or not."""

    directory: Path
    binaries: Path
    report: subprocesses.Reporter = subprocesses.print_line
    run_command: CommandRunner = subprocesses.run
    name: str = "kind"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Return the API server's audit log; only root can read it."""
        return self.directory / "audit/audit.log"

    def up(self, *, no_node: bool) -> None:
        """Start the cluster, or report that it runs already; kind always creates a node.

        Raises:
            MissingTools: Go is missing, and kind is not built yet.
            StartFailed: kind failed; the message contains the end of its output.
        """
        binaries = component_builds.by_name(["kubectl", "helm", "kind"])
        component_builds.build(binaries, self.binaries, report=self.report)
        if self._exists() and self._answers():
            self.report(f"already up (kind), used as it is: {self.directory}")
            return
        if self._exists():
            self.report("deleting the kind cluster that an earlier run left behind")
            self._delete()
        self._create()

    def down(self) -> None:
        """Delete the cluster and its state directory."""
        if (self.binaries / "kind").exists() and self._exists():
            started = time.monotonic()
            self._delete()
            self.report(f"down in {time.monotonic() - started:.0f} s (kind): {self.directory}")
        shutil.rmtree(self.directory, ignore_errors=True)

    def status(self) -> Status:
        """Return the present status of the cluster."""
        if not (self.binaries / "kind").exists() or not self._exists():
            return Status(self.name, "down", answers=False, directory=self.directory)
        answers = self._answers()
        nodes = self.kubectl("get", "nodes", timeout_s=10).strip() if answers else ""
        return Status(
            self.name,
            "node",
            answers=answers,
            directory=self.directory,
            kubeconfig=self.kubeconfig,
            nodes=nodes,
        )

    def env(self) -> Mapping[str, str]:
        """Return the variables for clients of the cluster: KUBECONFIG, KUBECACHEDIR, PATH."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            "PATH": subprocesses.search_path(self.binaries),
        }

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl as administrator and return its output.

        Raises:
            CommandFailed: It ended with an error or took too long.
        """
        command = [self.binaries / "kubectl", *arguments]
        return self.run_command(command, env=self.env(), stdin=stdin, timeout_s=timeout_s)

    def load_image(self, archive: Path, *, name: str) -> None:
        """Load a `docker save` archive into the node.

        Raises:
            NotRunning: There is no cluster.
        """
        if not self._exists():
            raise errors.NotRunning(
                f"cannot load {name}: no kind cluster {NAME}; bring it up first"
            )
        self._kind("load", "image-archive", str(archive), "--name", NAME)

    def _create(self) -> None:
        started = time.monotonic()
        # What an earlier node has loaded, this one has not.
        shutil.rmtree(self.directory / "images", ignore_errors=True)
        audit = self.audit_log.parent
        audit.mkdir(parents=True, exist_ok=True)
        shutil.copy(_POLICY, audit / "policy.yaml")
        options = ["--name", NAME, "--kubeconfig", str(self.kubeconfig), "--wait", _NODE_READY]
        try:
            self._kind("create", "cluster", *options, "--config", "-", stdin=configuration(audit))
        except errors.CommandFailed as exc:
            raise errors.StartFailed(f"kind could not make the cluster {NAME}: {exc}") from exc
        self.report(f"up in {time.monotonic() - started:.0f} s (kind): {self.directory}")

    def _delete(self) -> None:
        self._kind("delete", "cluster", "--name", NAME, "--kubeconfig", str(self.kubeconfig))

    def _exists(self) -> bool:
        return NAME in self._kind("get", "clusters").split()

    def _answers(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz", timeout_s=10)
        except errors.CommandFailed:
            return False
        return True

    def _kind(self, *arguments: str, stdin: str | None = None) -> str:
        return self.run_command([self.binaries / "kind", *arguments], stdin=stdin)


def configuration(audit: Path) -> str:
    """Return kind's configuration: one node, and an audit log in a folder of this machine.

    The text is JSON, which is also YAML. Its structure follows kind's guide to auditing.
    """
    inside = {"hostPath": _IN_NODE, "mountPath": _IN_NODE, "pathType": "Directory"}
    api_server = {
        "extraArgs": {
            "audit-policy-file": f"{_IN_NODE}/policy.yaml",
            "audit-log-path": f"{_IN_NODE}/audit.log",
        },
        "extraVolumes": [{"name": "audit", "readOnly": False, **inside}],
    }
    patch = {"kind": "ClusterConfiguration", "apiServer": api_server}
    node = {
        "role": "control-plane",
        "kubeadmConfigPatches": [json.dumps(patch)],
        "extraMounts": [{"hostPath": str(audit), "containerPath": _IN_NODE}],
    }
    return json.dumps({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": [node]})
