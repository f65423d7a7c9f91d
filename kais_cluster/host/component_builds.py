"""Build the pinned Kubernetes binaries, once per user.

Each binary has a stamp file, a digest of its module pins, its flags and the Go version. While the
stamp matches, nothing is built. Concurrent builds wait for each other, one binary at a time.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kais_cluster import errors, subprocesses
from kais_cluster.host import pause

MODULES = Path(__file__).parent / "modules"

_STRIP = "-s -w"
_VERSION_PACKAGE = "k8s.io/component-base/version"
_PLUGINS = "github.com/containernetworking/plugins/plugins"
_ANNOUNCED_BUILD_S = 60  # shorter builds need no announcement


@dataclasses.dataclass(frozen=True)
class Binary:
    """One program to build."""

    name: str
    module: str
    package: str
    cold_s: int
    """Seconds of a first build on two cores, with nothing in Go's build cache."""
    flags: tuple[str, ...] = ("-ldflags", _STRIP)
    cgo: bool = False


def kubernetes_version() -> str:
    """Return the pinned version of Kubernetes, such as `v1.36.3`."""
    return module_version("kubernetes", "k8s.io/kubernetes")


def module_version(folder: str, module: str) -> str:
    """Return the version of a Go module that the go.mod of a folder pins."""
    lines = (MODULES / folder / "go.mod").read_text().splitlines()
    requirements = (line.removeprefix("require").split() for line in lines)
    return next(words[1] for words in requirements if words[:1] == [module])


def _kubernetes(name: str, cold_s: int) -> Binary:
    version = kubernetes_version()
    minor = version.split(".")[1]
    values = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    linker = " ".join([_STRIP, *(f"-X {_VERSION_PACKAGE}.{k}={v}" for k, v in values.items())])
    return Binary(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", cold_s, ("-ldflags", linker))


def _containerd(name: str, cold_s: int) -> Binary:
    package = f"github.com/containerd/containerd/v2/cmd/{name}"
    return Binary(name, "containerd", package, cold_s, ("-tags", "no_btrfs", "-ldflags", _STRIP))


def control_plane_binaries() -> list[Binary]:
    """Return the binaries of a cluster without a node."""
    return [
        Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", 52),
        _kubernetes("kube-apiserver", 233),
        _kubernetes("kube-controller-manager", 60),
        _kubernetes("kubectl", 25),
    ]


def node_binaries() -> list[Binary]:
    """Return the binaries of a cluster with a node, the control plane first."""
    seccomp = ("-tags", "seccomp", "-ldflags", _STRIP)
    return [
        *control_plane_binaries(),
        *(_kubernetes(*it) for it in (("kube-scheduler", 5), ("kubelet", 15), ("kube-proxy", 7))),
        *(
            _containerd(*it)
            for it in (("containerd", 130), ("containerd-shim-runc-v2", 5), ("ctr", 8))
        ),
        # Pods request seccomp by default, and runc gets it from libseccomp through cgo.
        Binary("runc", "runc", "github.com/opencontainers/runc", 12, seccomp, cgo=True),
        Binary("bridge", "cni", f"{_PLUGINS}/main/bridge", 4),
        Binary("loopback", "cni", f"{_PLUGINS}/main/loopback", 1),
        Binary("host-local", "cni", f"{_PLUGINS}/ipam/host-local", 1),
        Binary("portmap", "cni", f"{_PLUGINS}/meta/portmap", 1),
        Binary("coredns", "coredns", "github.com/coredns/coredns", 145),
        Binary("helm", "helm", "helm.sh/helm/v4/cmd/helm", 196),
        Binary("pause", "pause", ".", 1),
    ]


def extra_binaries() -> list[Binary]:
    """Return the binaries that are built only on request.

    kwok simulates running pods; kind runs a cluster in Docker; litestream replicates a database;
    crane, cosign and syft publish a release.
    """
    syft = f"{_STRIP} -X main.version={module_version('syft', 'github.com/anchore/syft')}"
    return [
        Binary("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 143),
        Binary("kind", "kind", "sigs.k8s.io/kind", 10),
        Binary("litestream", "litestream", "github.com/benbjohnson/litestream/cmd/litestream", 125),
        Binary("crane", "crane", "github.com/google/go-containerregistry/cmd/crane", 15),
        Binary("cosign", "cosign", "github.com/sigstore/cosign/v3/cmd/cosign", 200),
        Binary("syft", "syft", "github.com/anchore/syft/cmd/syft", 200, ("-ldflags", syft)),
    ]


def by_name(names: Sequence[str]) -> list[Binary]:
    """Return binaries by name.

    Raises:
        MissingTools: There is no such binary.
    """
    binaries = {binary.name: binary for binary in [*node_binaries(), *extra_binaries()]}
    if unknown := [name for name in names if name not in binaries]:
        raise errors.MissingTools(
            f"no such binary: {', '.join(unknown)}; known: {', '.join(binaries)}"
        )
    return [binaries[name] for name in names]


def build(
    binaries: Sequence[Binary],
    folder: Path,
    *,
    report: subprocesses.Reporter = subprocesses.print_line,
) -> None:
    """Build the outdated binaries into a folder, with a line of progress for each.

    Raises:
        MissingTools: Go is not installed, and a binary does not exist yet.
        CommandFailed: Go could not build a binary; the message names it.
    """
    (folder / ".stamps").mkdir(parents=True, exist_ok=True)
    go = subprocesses.find_go()
    if not go:
        if any(not (folder / binary.name).exists() for binary in binaries):
            raise errors.MissingTools("Go not found; install 1.26 or newer from https://go.dev/dl")
        return
    go_version = subprocesses.run([go, "version"], cwd=folder)
    stale = [it for it in binaries if not is_current(it, folder, go_version=go_version)]
    if stale:
        _announce(stale, folder, report=report)
    for number, binary in enumerate(stale, start=1):
        with lock(folder / ".stamps" / f"{binary.name}.lock"):
            if is_current(binary, folder, go_version=go_version):
                outcome = "built beside us"
            else:
                outcome = _build_one(binary, folder, go=go, go_version=go_version)
        report(f"  [{number:>2}/{len(stale)}] {binary.name:<24} {outcome}{_rest(stale[number:])}")


def stamp(binary: Binary, *, go_version: str) -> str:
    """Return a digest of everything that determines the result of a build."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        source = MODULES / binary.module / name
        digest.update(source.read_bytes() if source.exists() else b"")
    flags = " ".join(binary.flags)
    digest.update(f"{binary.package} {flags} {int(binary.cgo)}\n{go_version}".encode())
    return digest.hexdigest()


def is_current(binary: Binary, folder: Path, *, go_version: str) -> bool:
    """Return whether a binary exists and was built from the current pins."""
    recorded = folder / ".stamps" / binary.name
    if not (folder / binary.name).exists() or not recorded.exists():
        return False
    return recorded.read_text().strip() == stamp(binary, go_version=go_version)


def _announce(stale: Sequence[Binary], folder: Path, *, report: subprocesses.Reporter) -> None:
    seconds = sum(binary.cold_s for binary in stale)
    subject = f"{len(stale)} binaries" if len(stale) > 1 else stale[0].name
    if seconds >= _ANNOUNCED_BUILD_S:
        minutes = round(seconds / 60)
        report(
            f"building {subject} into {folder}: a first build takes about {minutes} minutes"
            " on 2 cores"
        )
    else:
        report(f"building {subject} into {folder}")


def _rest(binaries: Sequence[Binary]) -> str:
    """Return the name of the next build and the time left; empty if the time is short."""
    seconds = sum(binary.cold_s for binary in binaries)
    if seconds < _ANNOUNCED_BUILD_S:
        return ""
    return f"; next {binaries[0].name}, about {-(-seconds // 60)} minutes left"


def _build_one(binary: Binary, folder: Path, *, go: str, go_version: str) -> str:
    started = time.monotonic()
    module = MODULES / binary.module
    new = folder / f".{binary.name}.new"
    command = [go, "build", "-buildvcs=false", *binary.flags, "-o", str(new), binary.package]
    try:
        subprocesses.run(command, cwd=module, env={"CGO_ENABLED": str(int(binary.cgo))})
    except errors.CommandFailed as exc:
        raise errors.CommandFailed(f"could not build {binary.name} in {module}: {exc}") from exc
    new.replace(folder / binary.name)
    if binary.name == "pause":
        pause.write_archive(folder / "pause", folder / "pause.tar")
    recorded = stamp(binary, go_version=go_version)
    (folder / ".stamps" / binary.name).write_text(recorded + "\n")
    return f"built in {time.monotonic() - started:.0f} s"


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a file lock; the kernel releases it when this process ends, even after a crash."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
