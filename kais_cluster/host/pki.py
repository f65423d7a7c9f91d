"""Certificates and kubeconfigs of one cluster, made with openssl and signed by the cluster's CA."""

import base64
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import subprocesses

_DAYS = "365"
_KUBERNETES_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class ClusterPki:
    """The key folder of one cluster, and the server in its kubeconfigs."""

    folder: Path
    server: str

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def make_authority(self) -> None:
        """Create the CA and the key pair for ServiceAccount tokens."""
        openssl = subprocesses.require_program("openssl", package="openssl")
        usage = "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"
        request = [openssl, "req", "-x509", *_key_options(self.path("ca.key"))]
        subject = ["-subj", "/CN=kais-host-cluster-ca", "-days", _DAYS, "-addext", usage]
        subprocesses.run([*request, *subject, "-out", self.path("ca.crt")])
        subprocesses.run([openssl, "genrsa", "-out", self.path("sa.key"), "2048"])
        subprocesses.run(
            [openssl, "rsa", "-in", self.path("sa.key"), "-pubout", "-out", self.path("sa.pub")]
        )

    def make_certificate(self, name: str, subject: str, *, alternatives: str = "") -> None:
        """Create NAME.crt and NAME.key; Kubernetes derives user and groups from the subject."""
        openssl = subprocesses.require_program("openssl", package="openssl")
        request, extensions = self.path(f"{name}.csr"), self.path(f"{name}.ext")
        subprocesses.run(
            [
                openssl,
                "req",
                *_key_options(self.path(f"{name}.key")),
                "-subj",
                subject,
                "-out",
                request,
            ]
        )
        lines = ["keyUsage=digitalSignature", "extendedKeyUsage=serverAuth,clientAuth"]
        lines += [f"subjectAltName={alternatives}"] if alternatives else []
        extensions.write_text("\n".join(lines) + "\n")
        authority = ["-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key")]
        sign = [openssl, "x509", "-req", "-in", request, *authority, "-days", _DAYS]
        serial = ["-set_serial", f"0x{secrets.token_hex(8)}", "-extfile", extensions]
        subprocesses.run([*sign, *serial, "-out", self.path(f"{name}.crt")])
        request.unlink()
        extensions.unlink()

    def make_kubeconfig(self, path: Path, name: str) -> None:
        """Write a kubeconfig that authenticates with the existing certificate `name`."""
        cluster = {"server": self.server, "certificate-authority-data": self._data("ca.crt")}
        user = {
            "client-certificate-data": self._data(f"{name}.crt"),
            "client-key-data": self._data(f"{name}.key"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kais", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "kais", "context": {"cluster": "kais", "user": "user"}}],
            "current-context": "kais",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML

    def _data(self, name: str) -> str:
        return base64.b64encode(self.path(name).read_bytes()).decode()


def make_control_plane(keys: ClusterPki, *, kubeconfig: Path, address: str, services: str) -> None:
    """Create the keys and certificates of a control plane, and the administrator's kubeconfig."""
    keys.make_authority()
    names = [f"DNS:{name}" for name in ("localhost", *_KUBERNETES_NAMES)]
    names += [f"IP:{ip}" for ip in dict.fromkeys(("127.0.0.1", address, f"{services}.0.1"))]
    keys.make_certificate("apiserver", "/CN=kube-apiserver", alternatives=",".join(names))
    keys.make_certificate("admin", "/O=system:masters/CN=kubernetes-admin")
    keys.make_kubeconfig(kubeconfig, "admin")
    _client(keys, "controller-manager", "/CN=system:kube-controller-manager")


def make_node(keys: ClusterPki, *, node: str, address: str) -> None:
    """Create the additional certificates and kubeconfigs of a node."""
    keys.make_certificate(
        "kubelet",
        f"/O=system:nodes/CN=system:node:{node}",
        alternatives=f"DNS:{node},IP:{address}",
    )
    keys.make_kubeconfig(keys.path("kubelet.conf"), "kubelet")
    keys.make_certificate("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    _client(keys, "scheduler", "/CN=system:kube-scheduler")
    _client(keys, "proxy", "/CN=system:kube-proxy")
    _client(keys, "coredns", "/CN=system:coredns")


def _client(keys: ClusterPki, name: str, subject: str) -> None:
    keys.make_certificate(name, subject)
    keys.make_kubeconfig(keys.path(f"{name}.conf"), name)


def _key_options(path: Path) -> list[object]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path]
