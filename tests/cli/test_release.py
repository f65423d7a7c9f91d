"""Which pod is shown a token of the realm: that of the release, whatever others bear its labels."""

import pytest

from kais_cli import errors, settings
from kais_cli.exit_status import ExitStatus
from tests.cli import objects


@pytest.fixture(autouse=True)
def account(cluster, knowledge):
    cluster.put(objects.account())
    knowledge.answers["GET /v1/facts"] = {"facts": []}


def decoy(**metadata):
    """A ready pod that comes first by name and bears the labels of the service."""
    body = objects.knowledge_pod()
    body["metadata"] |= {"namespace": "attacker", "name": "aaa"} | metadata
    return body


def sent_nothing(cluster, knowledge):
    return (cluster.tokens, cluster.forwarded, knowledge.requests) == ([], [], [])


def test_a_pod_with_the_labels_in_another_namespace_gets_nothing(terminal, cluster, knowledge):
    cluster.put(decoy())
    cluster.put(decoy(name="kais-knowledge-0"))
    cluster.put(objects.knowledge_pod())
    assert terminal.run("knowledge", "list") == 0, terminal.err
    assert cluster.forwarded == [("kais-system", "kais-knowledge-0", 8000)]


def test_a_pod_with_the_labels_gets_nothing_where_the_service_is_away(terminal, cluster, knowledge):
    cluster.put(decoy())
    assert terminal.run("knowledge", "list") == ExitStatus.UNREACHABLE
    assert "there is no Pod/kais-system/kais-knowledge-0" in terminal.err
    assert sent_nothing(cluster, knowledge)


@pytest.mark.parametrize(
    ("owners", "account_name", "message"),
    [
        ([], "kais-knowledge", "is not controlled by StatefulSet/kais-knowledge"),
        (
            [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "controller": True}],
            "kais-knowledge",
            "is controlled by ReplicaSet/x, not by StatefulSet/kais-knowledge",
        ),
        (
            [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "kais-knowledge"}],
            "kais-knowledge",
            "is not controlled by StatefulSet/kais-knowledge",
        ),
        (None, "default", "runs as ServiceAccount default, not as kais-knowledge"),
    ],
)
def test_a_pod_of_that_name_that_the_statefulset_did_not_make_gets_nothing(
    terminal, cluster, knowledge, owners, account_name, message
):
    pod = objects.knowledge_pod()
    if owners is not None:
        pod["metadata"]["ownerReferences"] = owners
    pod["spec"]["serviceAccountName"] = account_name
    cluster.put(pod)
    assert terminal.run("knowledge", "list") == ExitStatus.FAILED
    assert message in terminal.err
    assert terminal.err.endswith("; no token was sent to it\n")
    assert sent_nothing(cluster, knowledge)


def test_a_setting_selects_a_release_in_another_namespace(terminal, cluster):
    pod = objects.knowledge_pod()
    pod["metadata"] |= {"namespace": "elsewhere", "name": "team-knowledge-0"}
    pod["metadata"]["ownerReferences"][0]["name"] = "team-knowledge"
    pod["spec"]["serviceAccountName"] = "team-knowledge"
    cluster.put(pod)
    terminal.settings = settings.from_environment({"KAIS_RELEASE": "elsewhere/team"})
    assert terminal.run("knowledge", "list") == 0, terminal.err
    assert cluster.forwarded == [("elsewhere", "team-knowledge-0", 8000)]


@pytest.mark.parametrize("text", ["kais", "kais-system/", "a/b/c", "kais-system/Kais", "../../x"])
def test_a_release_that_is_no_namespace_and_name_is_a_usage_error(terminal, text):
    terminal.settings = settings.Settings(release=text)
    assert terminal.run("knowledge", "list") == ExitStatus.USAGE
    assert f'KAIS_RELEASE is "{text}"; it takes NAMESPACE/NAME' in terminal.err


def test_doctor_names_a_pod_that_only_bears_the_labels(terminal, cluster):
    cluster.put(decoy())
    terminal.run("doctor")
    assert (
        "warning  service   not of the release kais-system/kais, with the labels of its knowledge"
        " service: Pod/attacker/aaa; no token is sent there"
    ) in terminal.out


def test_doctor_says_why_a_pod_of_the_release_is_not_trusted(terminal, cluster, knowledge):
    pod = objects.knowledge_pod()
    pod["spec"]["serviceAccountName"] = "default"
    cluster.put(pod)
    assert terminal.run("doctor") == ExitStatus.FAILED
    assert "failed   store     Pod/kais-system/kais-knowledge-0 runs as ServiceAccount default" in (
        terminal.out
    )
    assert sent_nothing(cluster, knowledge)


def test_doctor_names_a_release_elsewhere_where_there_is_none_of_ours(terminal, cluster):
    body = objects.workload("Deployment", "operator")
    body["metadata"] |= {"namespace": "elsewhere", "name": "team-operator"}
    body["metadata"]["labels"]["app.kubernetes.io/instance"] = "team"
    cluster.put(body)
    assert terminal.run("doctor") == ExitStatus.FAILED
    assert "not installed: there is no Deployment/kais-system/kais-operator" in terminal.out
    assert (
        "→ there is a release elsewhere/team; if it is yours, set KAIS_RELEASE=elsewhere/team"
        in (terminal.out)
    )


def test_a_user_who_may_not_read_the_pod_is_given_the_role(terminal, cluster, monkeypatch):
    def refuse(kind, namespace, name):
        raise errors.Refused(f"get {kind}/{namespace}/{name}: pods is forbidden")

    monkeypatch.setattr(cluster, "get", refuse)
    assert terminal.run("knowledge", "list") == ExitStatus.FAILED
    assert terminal.err == (
        "error: get Pod/kais-system/kais-knowledge-0: pods is forbidden; the Role kais-people of"
        " kais-system, bound to you, allows it\n"
    )
