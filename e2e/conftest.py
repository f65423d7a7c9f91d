"""One cluster with kais installed for all journeys: the one that is up, or one of their own."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.support.installed import Installed
from kais_cluster import demo, operations

LOCK = Path(__file__).parents[1] / "build" / "e2e.lock"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keep processes that run test files beside each other from installing at the same time."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--use-cluster-as-is",
        action="store_true",
        help="the cluster is up with today's images and charts: install nothing",
    )


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Installed]:
    """Our images and charts in a cluster with a node; what the run started, it stops.

    With several processes the cluster must be up before them: `make e2e` sees to that.
    """
    provider = operations.current_cluster()
    is_provided = provider.status().mode in {"node", "named"}
    try:
        if not request.config.getoption("--use-cluster-as-is"):
            with one_at_a_time():
                provider = demo.prepare()
        env = provider.env()
        yield Installed(
            kubeconfig=provider.kubeconfig,
            kubectl_path=provider.binaries / "kubectl",
            cache=Path(env.get("KUBECACHEDIR", "/tmp/kais-e2e-kubectl")),  # noqa: S108 — kubectl's own cache
            audit_log=provider.audit_log,
        )
    finally:
        if not is_provided:
            operations.down()
