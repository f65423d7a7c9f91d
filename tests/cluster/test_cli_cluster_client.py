import itertools
import tempfile

import pytest

from kais_cli import errors
from kais_cli.cluster import kubernetes_cluster
from kais_cli.ports import Target
from tests.cli import objects

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(control_plane):
    opened = kubernetes_cluster.KubernetesCluster(str(control_plane.kubeconfig))
    yield opened
    opened.close()


def use(namespace, name="doctor-x2k4f"):
    body = objects.instance(name)
    body["metadata"] = {"name": name, "namespace": namespace}
    return body


def test_what_is_created_can_be_read_and_names_its_writer(cluster, namespace):
    created = cluster.create(use(namespace))
    assert {entry["manager"] for entry in created["metadata"]["managedFields"]} == {"kais-cli"}
    assert cluster.get("BlueprintInstance", namespace, "doctor-x2k4f") == created
    assert [b["metadata"]["name"] for b in cluster.list("BlueprintInstance", namespace)] == [
        "doctor-x2k4f"
    ]


def test_logging_in_leaves_no_key_in_the_folder_of_temporary_files(
    control_plane, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kubernetes_cluster.KubernetesCluster(str(control_plane.kubeconfig)).close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_none(cluster, namespace):
    assert cluster.get("Mission", namespace, "nothing") is None
    assert cluster.list("Mission", namespace) == []
    assert cluster.token(namespace, "nobody", "kais-knowledge") is None


def test_the_name_of_the_user_is_the_one_that_the_server_knows(cluster, control_plane):
    path = "jsonpath={.status.userInfo.username}"
    assert cluster.user_name() == control_plane.kubectl("auth", "whoami", "-o", path)


def test_a_name_that_is_taken_is_refused_in_the_servers_words(cluster, namespace):
    cluster.create(use(namespace))
    with pytest.raises(errors.Refused, match=r"create BlueprintInstance/.*already exists"):
        cluster.create(use(namespace))


def test_a_watch_gives_what_is_there_then_changes_and_the_end(cluster, control_plane, namespace):
    cluster.create(use(namespace))
    target = Target("BlueprintInstance", namespace, "doctor-x2k4f")
    later_target = Target("Mission", namespace, "doctor-x2k4f")
    watch = cluster.watch([target, later_target])
    generated = (change for change in itertools.islice(watch, 30) if change is not None)

    assert next(generated).body["metadata"]["name"] == "doctor-x2k4f"
    suspend = ("--type=merge", "-p", '{"spec": {"suspend": true}}')
    control_plane.kubectl("patch", "bpi", "doctor-x2k4f", "-n", namespace, *suspend)
    assert next(generated).body["spec"]["suspend"] is True
    mission = objects.mission()
    mission["metadata"] = {"name": "doctor-x2k4f", "namespace": namespace}
    cluster.create(mission)
    assert next(generated).target == later_target
    control_plane.kubectl("delete", "bpi", "doctor-x2k4f", "-n", namespace)
    assert next(change for change in generated if change.body is None).target == target
    watch.close()


def test_a_token_is_for_the_account_and_audience_that_were_asked_for(
    cluster, control_plane, namespace
):
    control_plane.kubectl("create", "serviceaccount", "kais-user", "-n", namespace)
    token = cluster.token(namespace, "kais-user", "kais-knowledge")
    assert token is not None
    assert token.count(".") == 2


def test_an_address_where_nobody_answers_is_named_with_its_kubeconfig(control_plane, tmp_path):
    elsewhere = tmp_path / "kubeconfig"
    text = control_plane.kubeconfig.read_text()
    elsewhere.write_text(text.replace(control_plane.server, "https://127.0.0.1:1"))
    cluster = kubernetes_cluster.KubernetesCluster(str(elsewhere))
    with pytest.raises(errors.Unreachable, match=r"API server https://127\.0\.0\.1:1") as failure:
        cluster.list("Mission", "default")
    assert f"in {elsewhere}, does not answer" in str(failure.value)
    cluster.close()
