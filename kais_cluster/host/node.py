"""Start a node for the control plane: containerd, scheduler, kubelet, kube-proxy and CoreDNS.

DNS needs no pod: CoreDNS runs on the host and listens on the bridge's address, which the kubelet
configures in the pods. The API server also listens there, so that pods can reach it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, subprocesses
from kais_cluster.host import control_plane, files, network, pause, ports
from kais_cluster.host import pki as host_pki

NODE_NAME = "kais-node"
API_PORT = 6443

_VOLUMES = 20  # arbitrary: volume claims in the life of a cluster; a released volume is not reused


@dataclass(frozen=True)
class Node:
    """The node of one state directory."""

    plane: control_plane.ControlPlane

    @property
    def address(self) -> str:
        """Return the address of the bridge, which is also the node's."""
        return f"{self.plane.host.network}.1"

    def start(self, certificates: host_pki.ClusterPki, *, deadline: float) -> None:
        """Start all programs in order, and wait until the node is ready and DNS answers.

        Raises:
            StartFailed: A process ended, or the deadline passed.
        """
        plane, processes, pki = self.plane, self.plane.processes, certificates.folder

        def wait(name: str, goal: str, is_done: Callable[[], bool]) -> None:
            processes.wait_for(name, goal, is_done, deadline=deadline)

        network.up(plane.host)
        host_pki.make_node(certificates, node=NODE_NAME, address=self.address)
        self._write_files()
        plane.start_program("containerd", ["-c", plane.host.directory / "containerd.toml"])
        plane.start(self.address, API_PORT, flags=_api_flags(pki), deadline=deadline)
        scheduler = [f"--kubeconfig={pki}/scheduler.conf", "--leader-elect=false"]
        plane.start_program("kube-scheduler", [*scheduler, "--secure-port=0"])
        wait("containerd", "pause image", self._load_pause)
        plane.start_program("kubelet", self._kubelet_flags(pki))
        proxy = plane.host.directory / "kube-proxy.yaml"
        plane.start_program("kube-proxy", [f"--config={proxy}"])
        plane.kubectl("apply", "-f", "-", stdin=self._objects())
        plane.start_program("coredns", ["-conf", plane.host.directory / "Corefile"])
        node = f"node/{NODE_NAME}"
        wait("kubelet", "Node object", lambda: plane.answers("get", node))
        ready = ("wait", "--for=condition=Ready", node, "--timeout=1s")
        wait("kubelet", "Ready node", lambda: plane.answers(*ready))
        wait("coredns", "answer from DNS", lambda: network.dns_answers(self.address))

    def load_image(self, archive: Path) -> None:
        """Import a `docker save` archive into the node's containerd.

        Raises:
            CommandFailed: containerd rejected it, or does not run.
        """
        host = self.plane.host
        socket = f"--address={host.directory}/containerd.sock"
        ctr = [host.binaries / "ctr", socket, "--namespace=k8s.io"]
        subprocesses.run([*ctr, "images", "import", archive])

    def _load_pause(self) -> bool:
        try:
            self.load_image(self.plane.host.binaries / "pause.tar")
        except errors.CommandFailed:
            return False
        return True

    def _kubelet_flags(self, pki: Path) -> list[str]:
        directory = self.plane.host.directory
        return [
            f"--config={directory}/kubelet.yaml",
            f"--kubeconfig={pki}/kubelet.conf",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={self.address}",
            f"--root-dir={directory}/kubelet",
            f"--cert-dir={pki}",
        ]

    def _write_files(self) -> None:
        host = self.plane.host
        for name in ("cni", "volumes", "kubelet"):
            (host.directory / name).mkdir(exist_ok=True)
        if not Path("/var/lib/kubelet").exists():  # a fixed path of device plugins
            (host.directory / "made-var-lib-kubelet").touch()
        health, metrics = ports.free_ports(2)
        values = {
            "directory": host.directory,
            "binaries": host.binaries,
            "network": host.network,
            "bridge": host.bridge,
            "address": self.address,
            "node": NODE_NAME,
            "pause": pause.IMAGE,
            "health_port": health,
            "metrics_port": metrics,
            "masquerade_all": str(not Path("/proc/sys/net/bridge").exists()).lower(),
        }
        for name in ("containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "Corefile"):
            (host.directory / name).write_text(files.read(name, **values))
        conflist = "10-kais.conflist"
        (host.directory / "cni" / conflist).write_text(files.read(conflist, **values))

    def _objects(self) -> str:
        """Return the manifests of the cluster's objects, and create the folders of its volumes."""
        directory = self.plane.host.directory
        texts = [files.read("objects.yaml")]
        for index in range(1, _VOLUMES + 1):
            number = f"{index:02}"
            folder = directory / "volumes" / number
            folder.mkdir()
            folder.chmod(0o777)  # pods of any user write to it
            texts.append(
                files.read("volume.yaml", number=number, directory=directory, node=NODE_NAME)
            )
        return "".join(texts)


def _api_flags(pki: Path) -> tuple[str, ...]:
    return (
        # for kubectl exec and logs: the API server reaches the kubelet by address
        "--kubelet-preferred-address-types=InternalIP",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
    )
