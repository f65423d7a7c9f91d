"""One host cluster: up, down and status of one state directory.

`up` changes nothing if the cluster runs in the requested mode; otherwise it first stops what runs
in the directory, or was left there. `down` stops only processes that are recorded in, or run for,
this directory. The file `mode` exists from the start of a cluster to its end, the file `ready` once
it has started.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, settings, subprocesses
from kais_cluster.host import (
    component_builds,
    control_plane,
    network,
    node,
    node_cleanup,
    pki,
    ports,
)
from kais_cluster.host.processes import Processes
from kais_cluster.status import ProcessStatus, Status

NODE, NO_NODE = "node", "no-node"
"""The modes: a control plane with a node, or alone; without a node no pods run."""

_STOP_FIRST = ("kubelet", "kube-proxy", "coredns", "kube-scheduler", "kube-controller-manager")
"""Clients of the API server; a kubelet would also restart the containers that are stopped next."""


@dataclass(frozen=True)
class HostCluster:
    """A real Kubernetes as plain processes, with all its state in one directory."""

    settings: settings.HostSettings
    report: subprocesses.Reporter = subprocesses.print_line
    name: str = "host"

    @property
    def directory(self) -> Path:
        """Return the state directory."""
        return self.settings.directory

    @property
    def binaries(self) -> Path:
        """Return the folder of the programs that were built, with kubectl and helm."""
        return self.settings.binaries

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.plane.kubeconfig

    @property
    def audit_log(self) -> Path:
        """Return the path of the API server's audit log."""
        return self.plane.audit_log

    @property
    def processes(self) -> Processes:
        """Return the processes recorded in the state directory."""
        return Processes(self.directory)

    @property
    def plane(self) -> control_plane.ControlPlane:
        """Return the control plane of the directory; it need not run."""
        return control_plane.ControlPlane(self.settings, self.processes)

    @property
    def mode(self) -> str:
        """Return the mode of the directory: `node`, `no-node`, or an empty string without one."""
        try:
            return (self.directory / "mode").read_text().strip()
        except OSError:
            return ""

    def up(self, *, no_node: bool) -> None:
        """Start the cluster, or report that it runs already; builds missing programs first.

        `no_node` starts the control plane alone. One node fits on a machine: a second start waits
        for one that is under way, and fails if the node of another directory is running then.

        Raises:
            MissingTools: A program or permission is missing.
            StartFailed: A part did not start; its logs stay in the state directory.
        """
        if no_node:
            self._up(NO_NODE)
            return
        if os.geteuid() != 0:
            raise errors.MissingTools("a node needs root; without it: kais cluster up --no-node")
        self._build(NODE)  # before the lock: building takes minutes
        with component_builds.lock(self.binaries / ".stamps" / "node.lock"):
            self._up(NODE)

    def _up(self, mode: str) -> None:
        if self.mode == mode and self.is_up():
            self.report(f"already up ({mode}), used as it is: {self.directory}")
            return
        if mode == NODE:
            self._claim_machine()
        self._build(mode)
        self._clear()
        started = time.monotonic()
        self._make_directory(mode)
        if mode == NODE:
            self.settings.owner_file.write_text(f"{self.directory}\n")
        try:
            self._start(mode, deadline=started + self.settings.wait_s)
        except errors.ClusterError as exc:
            raise errors.StartFailed(
                f"the cluster in {self.directory} did not start: {exc}"
            ) from exc
        (self.directory / "ready").touch()
        self.report(f"up in {time.monotonic() - started:.0f} s ({mode}): {self.directory}")

    def down(self) -> None:
        """Stop the cluster and remove its state, including logs and volumes."""
        if not self.mode:
            for name in node_cleanup.stop_orphans(self.settings):
                self.report(f"stopped {name}, which an earlier run left behind")
            return
        started = time.monotonic()
        self.processes.stop(_STOP_FIRST)
        if self.mode == NODE:
            node_cleanup.stop_containers(self.settings)
            self.processes.stop(["containerd"])
            node_cleanup.stop_containers(self.settings)  # those that were being created
        # The API server needs etcd and its address to shut down gracefully.
        self.processes.stop(["kube-apiserver"])
        self.processes.stop(["etcd"])
        node_cleanup.stop_orphans(self.settings)
        if self.mode == NODE:
            node_cleanup.unmount_below(self.directory)
            network.down(self.settings)
            node_cleanup.remove_node_files(self.settings)
            if self._owner() == self.directory:
                self.settings.owner_file.unlink(missing_ok=True)
        node_cleanup.remove_tree(self.directory)
        self.report(f"down in {time.monotonic() - started:.0f} s: {self.directory}")

    def is_up(self) -> bool:
        """Return whether all processes run and the API server is ready."""
        names = self.processes.names()
        are_alive = bool(names) and all(self.processes.pid(name) for name in names)
        return are_alive and (self.directory / "ready").exists() and self.plane.is_ready()

    def status(self) -> Status:
        """Return the status of the cluster and of each recorded process."""
        names = self.processes.names()
        answers = bool(names) and self.plane.is_ready()
        nodes = ""
        if answers and self.mode == NODE:
            with contextlib.suppress(errors.CommandFailed):  # the API server ended since the check
                nodes = self.plane.kubectl("get", "nodes").strip()
        return Status(
            provider=self.name,
            mode=self.mode or "down",
            answers=answers,
            directory=self.directory,
            kubeconfig=self.plane.kubeconfig if self.mode else None,
            processes=tuple(ProcessStatus(name, self.processes.pid(name)) for name in names),
            nodes=nodes,
        )

    def env(self) -> Mapping[str, str]:
        """Return the variables for clients of the cluster: KUBECONFIG, KUBECACHEDIR, PATH."""
        return self.plane.environment()

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run our kubectl as administrator and return its output.

        Raises:
            CommandFailed: It ended with an error or took too long.
        """
        return self.plane.kubectl(*arguments, stdin=stdin, timeout_s=timeout_s)

    def load_image(self, archive: Path, *, name: str) -> None:
        """Load a `docker save` archive into the node.

        Raises:
            NotRunning: There is no node.
        """
        if self.mode != NODE:
            raise errors.NotRunning(
                f"cannot load {name}: no cluster with a node in {self.directory}; bring it up first"
            )
        node.Node(self.plane).load_image(archive)

    def _build(self, mode: str) -> None:
        binaries = (
            component_builds.node_binaries()
            if mode == NODE
            else component_builds.control_plane_binaries()
        )
        component_builds.build(binaries, self.settings.binaries, report=self.report)

    def _claim_machine(self) -> None:
        """Clean up a node of another directory that no longer runs, because one fits on a machine.

        Raises:
            StartFailed: The node of another directory is running; the message names the directory.
        """
        owner = self._owner()
        if owner is None or owner == self.directory or not (owner / "mode").exists():
            return
        owner_cluster = HostCluster(
            settings.HostSettings(
                owner, self.settings.binaries, owner_file=self.settings.owner_file
            ),
            self.report,
        )
        if owner_cluster.is_up():
            raise errors.StartFailed(
                f"this machine already runs a node from {owner}, and only one fits: stop it with"
                f" KAIS_CLUSTER_DIR={owner} kais cluster down"
            )
        self.report(f"stopping what an earlier run left behind in {owner}")
        owner_cluster.down()

    def _clear(self) -> None:
        """Stop what runs in the directory, or was left there, and remove it."""
        if self.is_up():
            self.report(
                f"stopping the {self.mode} cluster in {self.directory}: a directory has one cluster"
            )
        elif self.mode:
            self.report(f"stopping what an earlier run left behind in {self.directory}")
        self.down()

    def _owner(self) -> Path | None:
        """Return the state directory that claimed the node of this machine, if any."""
        try:
            return Path(self.settings.owner_file.read_text().strip())
        except OSError:
            return None

    def _make_directory(self, mode: str) -> None:
        for name in ("", "pids", "logs", "pki"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o711)
        (self.directory / "pki").chmod(0o700)
        (self.directory / "mode").write_text(f"{mode}\n")

    def _start(self, mode: str, *, deadline: float) -> None:
        plane = self.plane
        has_node = mode == NODE
        address = f"{self.settings.network}.1" if has_node else "127.0.0.1"
        port = node.API_PORT if has_node else ports.free_ports(1)[0]
        certificates = pki.ClusterPki(self.directory / "pki", f"https://{address}:{port}")
        pki.make_control_plane(
            certificates,
            kubeconfig=plane.kubeconfig,
            address=address,
            services=self.settings.services,
        )
        if has_node:
            node.Node(plane).start(certificates, deadline=deadline)
        else:
            # Endpoints cannot have a loopback address, and there are no pods that would use them.
            flags = ("--endpoint-reconciler-type=none",)
            plane.start(address, port, flags=flags, deadline=deadline)
        self.processes.wait_for(
            "kube-controller-manager",
            "default ServiceAccount",
            lambda: plane.answers("get", "serviceaccount", "default"),
            deadline=deadline,
        )
