"""The Role of the chart for people: what it allows, and what is said without it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kais_cli import errors
from kais_cli.cluster import kubernetes_cluster
from kais_cli.cluster.install_defaults import Release
from kais_cli.doctor import permissions
from tests.cluster.conftest import ControlPlane
from tests.cluster.test_namespaced_rights import Body, rendered

pytestmark = pytest.mark.cluster

SUBJECT = "people.subjects[0].kind=ServiceAccount,people.subjects[0].name=developer"


@pytest.fixture
def role(helm: Path, namespace: str) -> list[Body]:
    """The Role and its binding, as Helm renders them for a ServiceAccount."""
    subject = f"{SUBJECT},people.subjects[0].namespace={namespace}"
    bodies = rendered(helm, subject, namespace=namespace)
    return [body for body in bodies if body["metadata"]["name"] == "kais-people"]


@pytest.fixture
def developer(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Path:
    """A kubeconfig of a user without rights, and a pod of the service's name without a node."""
    control_plane.kubectl("create", "serviceaccount", "developer", "-n", namespace)
    spec = {"serviceAccountName": "developer", "containers": [{"name": "x", "image": "x"}]}
    for name in ("kais-knowledge-0", "another"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        control_plane.apply(json.dumps(pod), namespace=namespace)
    config = json.loads(control_plane.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = control_plane.kubectl("create", "token", "developer", "-n", namespace).strip()
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path = tmp_path / "developer.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def listed(bodies: list[Body]) -> Body:
    return {"apiVersion": "v1", "kind": "List", "items": bodies}


def test_the_role_allows_the_way_to_the_service_and_no_other_pod(
    control_plane: ControlPlane, namespace: str, role: list[Body], developer: Path
):
    control_plane.apply(json.dumps(listed(role)), namespace=namespace)
    cluster = kubernetes_cluster.KubernetesCluster(str(developer))
    pod = cluster.get("Pod", namespace, "kais-knowledge-0")
    assert pod is not None
    with (
        pytest.raises(errors.CliError) as failure,
        cluster.forward(namespace, "kais-knowledge-0", 8000),
    ):
        pytest.fail("a pod without a node takes no connection")
    assert "forbidden" not in str(failure.value), "the API server looked for the pod's node"
    for right in permissions.of_release(Release(namespace)):
        for verb in right.verbs:
            request = {"namespace": namespace, "name": right.name}
            assert cluster.is_allowed(verb, right.resource, **request), (verb, right.resource)
    with pytest.raises(errors.Refused, match="forbidden"):
        cluster.get("Pod", namespace, "another")
    with (
        pytest.raises(errors.Refused, match="forbidden"),
        cluster.forward(namespace, "another", 8000),
    ):
        pytest.fail("the role names one pod")
    cluster.close()


def test_the_admin_role_asks_for_the_administrators_token_and_no_other(
    control_plane: ControlPlane, helm: Path, namespace: str, developer: Path
):
    subject = "knowledge.administrators[0]"
    values = (
        f"{subject}.kind=ServiceAccount,{subject}.name=developer,{subject}.namespace={namespace}"
    )
    bodies = rendered(helm, values, namespace=namespace)
    admin = [body for body in bodies if body["metadata"]["name"] == "kais-knowledge-admin"]
    assert sorted(body["kind"] for body in admin) == ["Role", "RoleBinding", "ServiceAccount"]
    control_plane.apply(json.dumps(listed(admin)), namespace=namespace)
    cluster = kubernetes_cluster.KubernetesCluster(str(developer))
    assert cluster.login_token()
    assert cluster.token(namespace, "kais-knowledge-admin", "kais-knowledge")
    with pytest.raises(errors.Refused, match="forbidden"):
        cluster.token(namespace, "developer", "kais-knowledge")
    assert cluster.get("Pod", namespace, "kais-knowledge-0") is not None
    cluster.close()


def test_without_get_on_portforward_the_refusal_is_said_at_once(
    control_plane: ControlPlane, namespace: str, role: list[Body], developer: Path
):
    rule = next(r for b in role for r in b.get("rules", ()) if r["resources"][0].endswith("ward"))
    rule["verbs"].remove("get")
    control_plane.apply(json.dumps(listed(role)), namespace=namespace)
    cluster = kubernetes_cluster.KubernetesCluster(str(developer))
    message = "forbidden; it requires the verbs get and create on pods/portforward"
    started = time.monotonic()
    with (
        pytest.raises(errors.Refused, match=message),
        cluster.forward(namespace, "kais-knowledge-0", 8000),
    ):
        pytest.fail("it may not")
    assert time.monotonic() - started < 30
    assert not cluster.is_allowed(
        "get", "pods/portforward", namespace=namespace, name="kais-knowledge-0"
    )
    cluster.close()
