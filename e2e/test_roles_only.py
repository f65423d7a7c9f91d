"""An installation that names its namespaces: real pods, with Roles for the operator alone."""

import json
from collections.abc import Iterator

import pytest

from e2e.support import audit, manifests
from e2e.support.installed import KAIS_NAMESPACE, OPERATOR, Installed
from e2e.support.waiting import wait_until
from kais_cluster import charts, image_catalog, operations

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


@pytest.fixture
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("roles-only")


@pytest.fixture
def elsewhere(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("elsewhere")


@pytest.fixture
def _installed_for_it(cluster: Installed, namespace: str) -> Iterator[None]:
    """Install it as docs/reference/chart.md says to one who may make no ClusterRole."""
    source, provider = image_catalog.checkout(), operations.current_cluster()
    values = {"namespaces": [namespace], "knowledge": {"tokenReviews": {"create": False}}}
    with audit.refusals_expected(cluster):
        charts.install(source, provider, values=values)
        account = f"--serviceaccount={KAIS_NAMESPACE}:kais-knowledge"
        reviews = ("clusterrolebinding", "kais-knowledge")
        cluster.kubectl("create", *reviews, "--clusterrole=system:auth-delegator", account)
        yield
        cluster.kubectl("delete", *reviews)
        charts.install(source, provider)
        _operators_settle(cluster)


def _operators_settle(cluster: Installed) -> None:
    """Wait until one operator is left: two of them would answer for each other."""
    wait_until(
        lambda: cluster.list("pod", KAIS_NAMESPACE, OPERATOR),
        lambda pods: len(pods) == 1,
        description="one pod of the operator",
    )


def can(cluster: Installed, verb: str, resource: str, *options: str) -> bool:
    account = f"system:serviceaccount:{KAIS_NAMESPACE}:kais-operator"
    question = ("auth", "can-i", verb, resource, f"--as={account}", *options)
    return cluster.kubectl(*question, check=False).split()[-1] == "yes"


@pytest.mark.usefixtures("_installed_for_it")
def test_a_use_runs_where_the_operator_has_a_role_and_nowhere_else(
    cluster: Installed, namespace: str, elsewhere: str
) -> None:
    _operators_settle(cluster)
    cluster_roles = json.loads(
        cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "json")
    )
    kais_roles = [
        item["metadata"]["name"] for item in cluster_roles["items"] if "kais" in json.dumps(item)
    ]
    assert kais_roles == ["kais-knowledge"], "what the administrator bound"
    assert can(cluster, "create", "jobs", "-n", namespace)
    assert not can(cluster, "create", "jobs", "-n", elsewhere)
    assert not can(cluster, "list", "pods", "-A")
    for target_namespace in (namespace, elsewhere):
        cluster.apply(manifests.blueprint("waiting", target_namespace))
    completed = cluster.kais("blueprint", "use", "waiting", "-n", namespace, "--name", "one")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "one: Succeeded" in completed.stdout
    settled = cluster.finished_mission("one", namespace)
    assert settled["status"]["outcome"] == "Succeeded"
    counted = wait_until(
        lambda: cluster.get("blueprint", "waiting", namespace),
        lambda body: (body or {}).get("status", {}).get("succeeded") == 1,
        description="the Blueprint counts its use",
    )
    assert counted is not None
    untouched = cluster.get("blueprint", "waiting", elsewhere)
    assert untouched is not None
    assert "status" not in untouched, "the operator has no business there"
    log = cluster.kubectl("logs", "-n", KAIS_NAMESPACE, "-l", OPERATOR, "--tail=-1")
    assert "forbidden" not in log.lower()


def test_the_chart_put_in_anew_watches_the_whole_cluster_again(
    cluster: Installed, elsewhere: str
) -> None:
    assert can(cluster, "list", "pods", "-A")
    cluster.apply(manifests.blueprint("waiting", elsewhere))
    wait_until(
        lambda: cluster.get("blueprint", "waiting", elsewhere),
        lambda body: bool((body or {}).get("status", {}).get("servedRevision")),
        description="a revision of a Blueprint in another namespace",
    )
