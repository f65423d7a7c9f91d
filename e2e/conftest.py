"""One cluster with kais installed for all journeys: the one that is up, or one of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.installed import Installed
from kais_cluster import clusters, demo


@pytest.fixture(scope="session")
def cluster() -> Iterator[Installed]:
    """Our images and charts in a cluster with a node; what the run started, it stops."""
    was_up = clusters.current().status().mode in {"node", "named"}
    try:
        provider = demo.prepare()
        env = provider.env()
        yield Installed(
            kubeconfig=provider.kubeconfig,
            kubectl_path=provider.binaries / "kubectl",
            cache=Path(env.get("KUBECACHEDIR", "/tmp/kais-e2e-kubectl")),  # noqa: S108 — kubectl's own cache
            audit_log=provider.audit_log,
        )
    finally:
        if not was_up:
            clusters.down()
