"""One control plane without a node for the whole run, with our CRDs in it."""

import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from kais_cluster import errors, settings
from kais_cluster.host import cluster as host_cluster
from kais_cluster.host import component_builds, ephemeral
from tests.cluster.object_lister import ObjectLister
from tests.cluster.processes import Cluster, Operator, Process, Start, free_port
from tests.cluster.proxy import Proxy

CRDS = Path(__file__).parents[2] / "crds"


@dataclass(frozen=True)
class ControlPlane:
    """What tests know of the API server they run against."""

    host: host_cluster.HostCluster

    @property
    def kubeconfig(self) -> Path:
        return self.host.kubeconfig

    @property
    def server(self) -> str:
        return self.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")

    @cached_property
    def lister(self) -> ObjectLister:
        return ObjectLister(self.kubeconfig, self.kubeconfig.with_name("discovery.json"))

    @property
    def audit_log(self) -> Path:
        return self.host.audit_log

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run our kubectl; a refusal raises CommandFailed with the API server's words."""
        return self.host.kubectl(*arguments, stdin=stdin)

    def apply(self, manifest: str, *, namespace: str = "default") -> str:
        return self.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=manifest)

    def refusal(self, manifest: str, *, namespace: str = "default") -> str:
        """Apply a manifest that must be refused, and return the words of the refusal."""
        try:
            self.apply(manifest, namespace=namespace)
        except errors.CommandFailed as exc:
            return str(exc)
        pytest.fail("the API server accepted what it should refuse")


def wait_until_listed(plane: ControlPlane) -> None:
    """Wait for the first lists: right after a definition is stored they are refused."""
    kinds = ",".join(path.name.removesuffix(".yaml") for path in sorted(CRDS.glob("*.yaml")))
    deadline = time.monotonic() + 30
    while True:
        try:
            plane.kubectl("get", kinds, "--all-namespaces")
        except errors.CommandFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


@contextmanager
def started_control_plane() -> Iterator[ControlPlane]:
    """Start an API server, and wait until it serves our kinds."""
    with ephemeral.control_plane() as host:
        plane = ControlPlane(host)
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        wait = ("wait", "--for=condition=Established", "--timeout=60s")
        plane.kubectl(*wait, "-f", str(CRDS))
        wait_until_listed(plane)
        yield plane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Share one control plane among the test files of one process."""
    with started_control_plane() as plane:
        yield plane


@pytest.fixture(scope="session")
def helm() -> Path:
    component_builds.build(component_builds.by_name(["helm"]), settings.binaries_dir())
    return settings.binaries_dir() / "helm"


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """Make a namespace for one test."""
    name = f"t-{abs(hash(request.node.nodeid)):x}"[:20]
    control_plane.kubectl("create", "namespace", name)
    return name


@pytest.fixture(scope="module")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    port = free_port()
    arguments = ["kais-knowledge", "serve", "--db", str(folder / "k.db"), "--host", "127.0.0.1"]
    service = Process([*arguments, "--port", str(port), "--auth", "none"], {}, folder / "log")
    yield f"http://127.0.0.1:{port}"
    service.end()


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Cluster:
    name = f"shell-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", name)
    return Cluster(control_plane.kubectl, control_plane.lister, name)


@pytest.fixture
def start(
    control_plane: ControlPlane, cluster: Cluster, store_url: str, tmp_path: Path
) -> Iterator[Start]:
    """Start operators of the test's namespace; what still runs at the end is killed."""
    started: list[Operator] = []

    def start_one(
        *,
        name: str = "operator",
        kubeconfig: Path | None = None,
        home: str = "",
        **changed: str,
    ) -> Operator:
        arguments = {"namespaces": cluster.namespace, "store_url": store_url, **changed}
        operator = Operator(
            kubeconfig or control_plane.kubeconfig,
            namespace=home or cluster.namespace,
            log=tmp_path / f"{name}.log",
            **arguments,
        )
        started.append(operator)
        return operator

    yield start_one
    for operator in started:
        operator.kill()


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[Proxy]:
    """Run a proxy before the API server, which a test may cut."""
    server = urllib.parse.urlsplit(control_plane.server)
    proxy = Proxy(server.hostname or "", server.port or 0)
    yield proxy
    proxy.close()
