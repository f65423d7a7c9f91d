"""An installation that names its namespaces: real pods, with Roles for the operator alone."""

import json
from collections.abc import Iterator

import pytest

from e2e.support import manifests
from e2e.support.installed import KAIS_NAMESPACE, OPERATOR, Installed
from e2e.support.waiting import until
from kais_cluster import charts, images, operations

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
    source, provider = images.checkout(), operations.current_cluster()
    values = {"namespaces": [namespace], "knowledge": {"tokenReviews": {"create": False}}}
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
    until(
        lambda: cluster.list("pod", KAIS_NAMESPACE, OPERATOR),
        lambda pods: len(pods) == 1,
        what="one pod of the operator",
    )


def can(cluster: Installed, verb: str, resource: str, *where: str) -> bool:
    account = f"system:serviceaccount:{KAIS_NAMESPACE}:kais-operator"
    asked = ("auth", "can-i", verb, resource, f"--as={account}", *where)
    return cluster.kubectl(*asked, check=False).split()[-1] == "yes"


@pytest.mark.usefixtures("_installed_for_it")
def test_a_use_runs_where_the_operator_has_a_role_and_nowhere_else(
    cluster: Installed, namespace: str, elsewhere: str
) -> None:
    _operators_settle(cluster)
    made = json.loads(cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "json"))
    ours = [item["metadata"]["name"] for item in made["items"] if "kais" in json.dumps(item)]
    assert ours == ["kais-knowledge"], "what the administrator bound"
    assert can(cluster, "create", "jobs", "-n", namespace)
    assert not can(cluster, "create", "jobs", "-n", elsewhere)
    assert not can(cluster, "list", "pods", "-A")
    for place in (namespace, elsewhere):
        cluster.apply(manifests.blueprint("waiting", place))
    done = cluster.kais("blueprint", "use", "waiting", "-n", namespace, "--name", "one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one: Succeeded" in done.stdout
    settled = cluster.finished_mission("one", namespace)
    assert settled["status"]["outcome"] == "Succeeded"
    counted = until(
        lambda: cluster.get("blueprint", "waiting", namespace),
        lambda body: (body or {}).get("status", {}).get("succeeded") == 1,
        what="the Blueprint counts its use",
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
    until(
        lambda: cluster.get("blueprint", "waiting", elsewhere),
        lambda body: bool((body or {}).get("status", {}).get("servedRevision")),
        what="a revision of a Blueprint in another namespace",
    )
