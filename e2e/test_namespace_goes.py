"""A namespace with running pods goes, whatever the store says: 60 s and the pods' own grace."""

import contextlib
import json
import secrets
import time
from collections.abc import Iterator

import pytest

from e2e.support import audit, manifests
from e2e.support.installed import KAIS_NAMESPACE, KNOWLEDGE, Installed
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e

GRACE_S = 30  # Kubernetes' default; a Python program as process 1 does not end on SIGTERM
WAIT = "import time; time.sleep(3600)"


@contextlib.contextmanager
def away(cluster: Installed) -> Iterator[None]:
    """Scale the service to 0 for the block."""
    (store_set,) = cluster.list("statefulset", KAIS_NAMESPACE, KNOWLEDGE)
    target = f"statefulset/{store_set['metadata']['name']}"
    namespace_option = ("-n", KAIS_NAMESPACE)
    cluster.kubectl("scale", target, *namespace_option, "--replicas=0")
    cluster.kubectl(
        "wait", "pod", "-l", KNOWLEDGE, *namespace_option, "--for=delete", "--timeout=60s"
    )
    try:
        yield
    finally:
        cluster.kubectl("scale", target, *namespace_option, "--replicas=1")
        cluster.kubectl("rollout", "status", target, *namespace_option, "--timeout=90s")


@contextlib.contextmanager
def refusing(cluster: Installed) -> Iterator[None]:
    """The service answers and takes nothing: it may not ask whose a token is."""
    name = ("clusterrolebinding", "kais-knowledge")
    body = json.loads(cluster.kubectl("get", *name, "-o", "json"))
    with audit.refusals_expected(cluster):
        cluster.kubectl("delete", *name)
        # What it learnt of tokens lasts a while; a new process knows none.
        cluster.kill(KNOWLEDGE)
        try:
            yield
        finally:
            metadata = {key: body["metadata"][key] for key in ("name", "labels", "annotations")}
            cluster.apply({**body, "metadata": metadata})
            account = f"--as=system:serviceaccount:{KAIS_NAMESPACE}:kais-knowledge"
            may = ("auth", "can-i", "create", "tokenreviews.authentication.k8s.io", account)
            wait_until(
                lambda: cluster.kubectl(*may, check=False).split()[0],
                lambda answer: answer == "yes",
                description="right to ask whose a token is",
            )


@contextlib.contextmanager
def there(_: Installed) -> Iterator[None]:
    """The service works."""
    yield


STORES = {"there": there, "away": away, "refuses": refusing}


@pytest.mark.parametrize(
    "store", [pytest.param(name, marks=[pytest.mark.alone] * (name != "there")) for name in STORES]
)
def test_a_namespace_with_running_pods_goes_within_a_minute_and_their_grace(
    cluster: Installed, store: str
) -> None:
    namespace = f"going-{secrets.token_hex(3)}"
    cluster.kubectl("create", "namespace", namespace)
    cluster.apply(manifests.formation("busy", namespace, WAIT))
    cluster.apply(manifests.mission("busy", namespace))
    cell = {
        "mode": "Service",
        "container": {"image": manifests.PYTHON_IMAGE, "command": ["python", "-c", WAIT]},
    }
    service = {"apiVersion": "kais.io/v1", "kind": "Cell", "spec": cell}
    cluster.apply({**service, "metadata": {"name": "serving", "namespace": namespace}})
    wait_until(
        lambda: [pod["status"]["phase"] for pod in cluster.list("pod", namespace)],
        lambda phases: phases == ["Running", "Running"],
        description="two running pods",
    )
    wait_until(
        lambda: cluster.get("mission", "busy", namespace),
        lambda body: (body or {}).get("metadata", {}).get("finalizers") == ["kais.io/finalizer"],
        description="a mission that is held",
    )
    with STORES[store](cluster):
        start = time.monotonic()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
        wait_until(
            lambda: cluster.kubectl("get", "ns", namespace, "--ignore-not-found"),
            lambda output: not output.strip(),
            description=f"end of namespace {namespace}",
            timeout_s=60 + GRACE_S,
        )
        assert time.monotonic() - start < 60 + GRACE_S
