"""`kais doctor` on clusters in every state."""

import json
from importlib import metadata

import pytest

from kais import crds, labels
from kais.resources import kinds
from kais_cli import errors, settings
from kais_cli.cluster.install_defaults import Release
from kais_cli.doctor import permissions
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

VERSION = metadata.version("kais")


@pytest.fixture(autouse=True)
def installed(cluster, knowledge):
    for model in kinds.BY_NAME.values():
        body = crds.definition(model)
        body["metadata"]["namespace"] = "none"
        cluster.put(body)
    cluster.put(objects.workload("Deployment", "operator"))
    cluster.put(objects.workload("StatefulSet", "knowledge"))
    cluster.put(objects.lease())
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    knowledge.answers["GET /v1/whoami"] = {
        "name": "kais-user",
        "type": "human",
        "home": "realm:demo",
        "grants": [],
        "mode": "kubernetes",
        "store": {"id": "s1", "epoch": 1},
    }


def test_all_is_well(terminal):
    assert terminal.run("doctor") == 0, terminal.out
    assert terminal.out.splitlines() == [
        "ok       cluster   answers, Kubernetes v1.36.3",
        "ok       kinds     all 7 are there, with every field",
        "ok       operator  Deployment/kais-system/kais-operator: 1 of 1 ready",
        f"ok       operator  version {VERSION}",
        "ok       leader    kais-operator-abc holds the Lease until 2030-01-01T00:00:10Z",
        "ok       service   StatefulSet/kais-system/kais-knowledge: 1 of 1 ready",
        f"ok       service   version {VERSION}",
        "ok       outbox    empty: nothing waits for the service",
        "ok       store     answers; here you are kais-user, at home in realm:demo",
        "ok       objects   0 in demo, none of them stuck or failing",
        "ok       operator  the API server refused it nothing in demo within the hour",
        "ok       rights    you may do all that kais does in demo",
        "12 ok, 0 warnings, 0 failed",
    ]


def broken(terminal, text):
    status = terminal.run("doctor")
    assert text in terminal.out, terminal.out
    return status


def test_a_missing_kind_fails_with_the_chart_to_install(terminal, cluster):
    body = crds.definition(kinds.BY_NAME["Cell"])
    cluster._objects.pop(("CustomResourceDefinition", "none", body["metadata"]["name"]))
    assert broken(terminal, "not there: cells\n") == ExitStatus.FAILED
    assert "→ helm upgrade --install kais-crds charts/kais-crds -n kais-system" in terminal.out


def test_kinds_of_an_older_version_name_the_fields_they_lack(terminal, cluster):
    body = crds.definition(kinds.BY_NAME["BlueprintInstance"])
    body["metadata"]["namespace"] = "none"
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["suspend"]
    cluster.put(body)
    message = "of an older version, without blueprintinstances (suspend)"
    assert broken(terminal, message) == ExitStatus.FAILED


def test_an_operator_that_is_not_ready_fails_with_where_to_look(terminal, cluster):
    cluster.put(objects.workload("Deployment", "operator", ready=0))
    assert broken(terminal, "0 of 1 ready") == ExitStatus.FAILED
    assert "kubectl logs -n kais-system Deployment/kais-operator" in terminal.out


def test_a_service_that_is_scaled_to_nothing_fails_with_how_to_bring_it_back(terminal, cluster):
    body = objects.workload("StatefulSet", "knowledge", ready=0)
    body["spec"]["replicas"] = 0
    cluster.put(body)
    assert broken(terminal, "StatefulSet/kais-system/kais-knowledge: scaled to 0") == (
        ExitStatus.FAILED
    )
    assert "→ kubectl scale -n kais-system StatefulSet/kais-knowledge --replicas=1" in terminal.out


def test_another_version_is_a_warning(terminal, cluster):
    cluster.put(objects.workload("StatefulSet", "knowledge", version="0.0.1"))
    assert broken(terminal, f"version 0.0.1, this command is {VERSION}") == 0
    assert terminal.out.endswith("11 ok, 1 warning, 0 failed\n")


def test_a_lease_that_nobody_renews_fails(terminal, cluster):
    cluster.put(objects.lease("2029-12-31T23:58:00.000000Z"))
    message = "the Lease is stale: kais-operator-abc renewed it 120 s ago"
    assert broken(terminal, message) == ExitStatus.FAILED
    assert "→ kubectl logs -n kais-system -l app.kubernetes.io/" in terminal.out


@pytest.fixture
def operator_outside(cluster):
    body = objects.workload("Deployment", "operator", ready=0)
    body["spec"]["replicas"] = 0
    cluster.put(body)
    cluster.put(objects.lease(holder="laptop_7"))


@pytest.mark.usefixtures("operator_outside")
def test_an_operator_outside_the_cluster_that_renews_its_lease_is_well(terminal):
    assert terminal.run("doctor") == 0, terminal.out
    assert terminal.out.splitlines()[2:5] == [
        (
            "ok       operator  Deployment/kais-system/kais-operator: scaled to 0;"
            " laptop_7 holds the Lease until 2030-01-01T00:00:10Z"
        ),
        f"ok       chart     version {VERSION}",
        "ok       leader    laptop_7 holds the Lease until 2030-01-01T00:00:10Z",
    ]
    assert terminal.out.endswith("12 ok, 0 warnings, 0 failed\n")


def test_a_lease_that_has_run_out_and_is_not_stale_yet_is_a_warning(terminal, cluster):
    cluster.put(objects.lease("2029-12-31T23:59:45.000000Z"))
    assert terminal.run("doctor") == 0, terminal.out
    message = "kais-operator-abc held the Lease until 2030-01-01T00:00:00Z"
    assert terminal.out.splitlines()[4] == f"warning  leader    {message}"
    assert terminal.out.splitlines()[5].startswith(
        "                   → kubectl logs -n kais-system"
    )


@pytest.mark.usefixtures("operator_outside")
def test_a_lease_of_an_operator_outside_that_has_run_out_is_a_warning_wherever_it_is_named(
    terminal, cluster
):
    cluster.put(objects.lease("2029-12-31T23:59:35.000000Z", holder="laptop_7"))
    assert terminal.run("doctor") == 0, terminal.out
    advice = "                   → if laptop_7 runs outside the cluster, read its log"
    assert terminal.out.splitlines()[2:7] == [
        (
            "warning  operator  Deployment/kais-system/kais-operator: scaled to 0;"
            " laptop_7 held the Lease until 2029-12-31T23:59:50Z"
        ),
        advice,
        f"ok       chart     version {VERSION}",
        "warning  leader    laptop_7 held the Lease until 2029-12-31T23:59:50Z",
        advice,
    ]


@pytest.mark.parametrize(
    ("renewed", "state"),
    [("29.000000Z", ExitStatus.FAILED), ("30.000000Z", ExitStatus.SUCCEEDED)],
)
@pytest.mark.usefixtures("operator_outside")
def test_a_lease_of_an_operator_outside_the_cluster_is_stale_after_30_s(
    terminal, cluster, renewed, state
):
    cluster.put(objects.lease(f"2029-12-31T23:59:{renewed}", holder="laptop_7"))
    assert terminal.run("doctor") == state, terminal.out


@pytest.mark.usefixtures("operator_outside")
def test_a_stale_lease_of_an_operator_outside_the_cluster_fails_with_what_to_start(
    terminal, cluster
):
    cluster.put(objects.lease("2029-12-31T23:58:00.000000Z", holder="laptop_7"))
    assert terminal.run("doctor") == ExitStatus.FAILED
    scale = "kubectl scale -n kais-system Deployment/kais-operator --replicas=1"
    assert terminal.out.splitlines()[2:7] == [
        (
            "failed   operator  Deployment/kais-system/kais-operator: scaled to 0,"
            " and no operator outside the cluster renews the Lease"
        ),
        f"                   → start the operator outside the cluster, or run: {scale}",
        f"ok       chart     version {VERSION}",
        "failed   leader    the Lease is stale: laptop_7 renewed it 120 s ago",
        "                   → if laptop_7 runs outside the cluster, read its log",
    ]


@pytest.mark.usefixtures("operator_outside")
def test_an_operator_that_is_scaled_to_nothing_and_has_released_its_lease_fails(terminal, cluster):
    cluster.put(objects.lease(holder=""))
    message = "scaled to 0, and no operator outside the cluster renews the Lease"
    assert broken(terminal, message) == ExitStatus.FAILED
    assert "failed   leader    no operator holds Lease/kais-system/kais-operator" in terminal.out


def test_a_store_that_does_not_answer_fails(terminal, cluster):
    cluster._objects.pop(("Pod", "kais-system", "kais-knowledge-0"))
    assert (
        broken(terminal, "failed   store     there is no Pod/kais-system/kais-knowledge-0, ")
        == ExitStatus.FAILED
    )


def test_calls_that_wait_in_the_outbox_are_a_warning(terminal, cluster):
    result = {labels.ROLE: labels.ROLE_OUTBOX}
    metadata_ = {"name": "outbox-1", "namespace": "kais-system", "labels": result}
    cluster.put({"kind": "ConfigMap", "metadata": metadata_})
    assert broken(terminal, "1 deleted missions wait to be recorded (outbox-1)") == 0


def test_calls_that_the_service_refuses_are_a_warning_with_its_words(terminal, cluster):
    metadata_ = {
        "name": "outbox-1",
        "namespace": "kais-system",
        "labels": {labels.ROLE: labels.ROLE_OUTBOX},
        "annotations": {labels.REFUSED: "422: no such scope"},
    }
    cluster.put({"kind": "ConfigMap", "metadata": metadata_})
    message = "refuses the calls of 1 deleted objects (outbox-1: 422: no such scope)"
    assert broken(terminal, message) == 0
    advice = "kubectl annotate configmap outbox-1 -n kais-system kais.io/refused-"
    assert advice in terminal.out


def test_the_outbox_of_a_release_in_another_namespace_is_looked_at(terminal, cluster):
    body = objects.workload("Deployment", "operator")
    cluster._objects.pop(("Deployment", "kais-system", "kais-operator"))
    body["metadata"] |= {"namespace": "elsewhere", "name": "team-operator"}
    cluster.put(body)
    terminal.settings = settings.Settings(release="elsewhere/team")
    metadata_ = {
        "name": "outbox-1",
        "namespace": "elsewhere",
        "labels": {labels.ROLE: labels.ROLE_OUTBOX},
    }
    cluster.put({"kind": "ConfigMap", "metadata": metadata_})
    terminal.run("doctor")
    assert "1 deleted missions wait to be recorded (outbox-1)" in terminal.out


def test_an_object_that_the_operator_never_saw_is_a_warning(terminal, cluster):
    cluster.put(objects.instance("new"))
    assert broken(terminal, "not processed yet: BlueprintInstance/new") == 0


def test_an_object_that_cannot_go_is_a_warning(terminal, cluster):
    body = objects.ended()
    body["metadata"]["deletionTimestamp"] = "2029-12-31T23:50:00Z"
    cluster.put(body)
    assert (
        broken(terminal, "deleted more than 5 min ago and still present: Mission/doctor-x2k4f") == 0
    )


def refusal(name, *, reason="Forbidden", at="2029-12-31T23:50:00Z", component="kais-operator"):
    return {
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason}", "namespace": "demo"},
        "type": "Warning",
        "reason": reason,
        "message": f'missions.kais.io "{name}" is forbidden: cannot delete resource "missions"',
        "involvedObject": {"kind": "BlueprintInstance", "name": name},
        "reportingComponent": component,
        "lastTimestamp": at,
    }


def test_what_the_operator_was_refused_fails_with_the_api_servers_message(terminal, cluster):
    cluster.put(refusal("use"))
    message = 'refused it on BlueprintInstance/use: missions.kais.io "use" is forbidden'
    assert broken(terminal, message) == ExitStatus.FAILED
    assert "→ if it lacks a right, helm upgrade kais charts/kais" in terminal.out


def test_an_event_that_lacks_optional_fields_ends_no_check(terminal, cluster):
    source = {"component": labels.MANAGER_CHILDREN}
    for name, fields in {"a": {}, "b": {"reason": labels.EVENT_FORBIDDEN}}.items():
        metadata = {"name": name, "namespace": "demo"}
        body = {"kind": "Event", "metadata": metadata, "involvedObject": {}, "source": source}
        cluster.put(body | fields)
    assert terminal.run("doctor") == 0, terminal.err
    assert "refused it nothing in demo" in terminal.out


def test_a_refusal_that_ended_is_no_finding(terminal, cluster):
    cluster.put(refusal("use"))
    cluster.put(refusal("use", reason="Allowed", at="2029-12-31T23:55:00Z"))
    cluster.put(refusal("other", component="somebody"))
    assert broken(terminal, "the API server refused it nothing in demo within the hour") == 0


def test_many_refusals_name_three_objects_and_count_the_others(terminal, cluster):
    for number in range(5):
        cluster.put(refusal(f"use-{number}"))
    assert broken(terminal, "and on 2 more objects") == ExitStatus.FAILED
    assert terminal.out.count("the API server refused it on") == 3


def failing(kind, name, reason, since, message="words"):
    summary = "Succeeded" if kind == "Mission" else "Ready"
    wrong = objects.condition(summary, "False", reason, message) | {"lastTransitionTime": since}
    return objects.made(kind, name, {}, observedGeneration=1, conditions=[wrong])


def test_objects_of_all_namespaces_are_checked_on_request(terminal, cluster):
    elsewhere = failing("Mission", "nightly", "TaskFailed", objects.AT)
    elsewhere["metadata"]["namespace"] = "night"
    cluster.put(elsewhere)
    forbidden = refusal("use")
    forbidden["metadata"]["namespace"] = "night"
    cluster.put(forbidden)
    terminal.run("doctor")
    assert "TaskFailed" not in terminal.out
    assert terminal.run("doctor", "-A") == ExitStatus.FAILED
    assert "TaskFailed: 1 Mission; Mission/night/nightly for" in terminal.out
    assert "→ kubectl describe mission nightly -n night" in terminal.out
    assert "refused it on BlueprintInstance/night/use" in terminal.out
    assert "you may do all that kais does in demo" in terminal.out


def test_failing_objects_are_counted_by_reason_and_the_longest_is_named(terminal, cluster):
    for number in range(19):
        since = f"2029-12-31T20:{59 - number:02}:00Z"
        cluster.put(failing("Blueprint", f"b{number}", "NoGoodRevision", since))
    for number in range(3):
        cluster.put(failing("Cell", f"c{number}", "NotYetSupported", objects.AT))
    cluster.put(failing("Formation", "f", "ApplyFailed", objects.AT, "quota\n" + "x" * 300))
    cluster.put(failing("Mission", "m", "TaskFailed", objects.AT))
    cluster.put(failing("BlueprintInstance", "m", "TaskFailed", objects.AT))
    assert terminal.run("doctor") == 0
    lines = [line for line in terminal.out.splitlines() if " objects " in line]
    assert lines == [
        "warning  objects   NoGoodRevision: 19 Blueprints; the longest Blueprint/b18 for 3h: words",
        "warning  objects   NotYetSupported: 3 Cells; the longest Cell/c0 for 2m: words",
        (
            "warning  objects   TaskFailed: 1 BlueprintInstance and 1 Mission; the longest"
            " BlueprintInstance/m for 2m: words"
        ),
        f"warning  objects   ApplyFailed: 1 Formation; Formation/f for 2m: quota {'x' * 193}…",
    ]
    assert "→ kubectl describe blueprint b18 -n demo" in terminal.out


def mission_with(name, reason, message):
    summary = objects.condition("Succeeded", "Unknown", reason, message)
    return objects.made("Mission", name, {}, observedGeneration=1, conditions=[summary])


def test_a_run_that_goes_on_is_not_failing(terminal, cluster):
    cluster.put(failing("BlueprintInstance", "m", "Running", objects.AT))
    cluster.put(mission_with("m", "Running", "attempt 1 of 3 is running"))
    terminal.run("doctor")
    assert "ok       objects   2 in demo, none of them stuck or failing" in terminal.out


def test_a_mission_that_is_held_up_is_counted_once(terminal, cluster):
    cluster.put(failing("BlueprintInstance", "m", "Running", objects.AT))
    cluster.put(mission_with("m", "ImagePullFailed", "no such image"))
    terminal.run("doctor")
    assert terminal.out.count(" objects ") == 1
    assert "ImagePullFailed: 1 Mission; Mission/m for 2m: no such image" in terminal.out


def test_an_object_without_a_false_summary_is_not_counted(terminal, cluster):
    running = [objects.condition("Ready", "Unknown", "Running")]
    running += [objects.condition("CellsReady", "False", "WaitingForCells")]
    cluster.put(objects.made("Formation", "f", {}, observedGeneration=1, conditions=running))
    terminal.run("doctor")
    assert "ok       objects   1 in demo, none of them stuck or failing" in terminal.out


def test_doctor_writes_nothing_where_there_is_no_account(terminal, cluster):
    cluster._objects.pop(("ServiceAccount", "demo", "kais-user"))
    assert terminal.run("doctor") == 0
    assert "ok       store     not asked: there is no ServiceAccount/demo/kais-user yet" in (
        terminal.out
    )
    assert (cluster.created, cluster.patched) == ([], [])


def test_missing_rights_name_the_role(terminal, cluster):
    cluster.forbidden = {("create", "blueprintinstances"), ("create", "pods/portforward")}
    assert (
        broken(terminal, "you may not use blueprints: no right to create blueprintinstances") == 0
    )
    assert "→ ask for the role edit" in terminal.out
    assert "→ ask for the Role kais-people of kais-system" in terminal.out


@pytest.mark.parametrize(
    ("user", "subject", "name"),
    [
        ("ana@harbour.example", "--user=ana@harbour.example", "ana@harbour.example"),
        ("system:serviceaccount:ci:robot", "--serviceaccount=ci:robot", "robot"),
    ],
)
def test_user_without_rights_gets_one_line_for_each_namespace(
    terminal, cluster, monkeypatch, user, subject, name
):
    cluster.user = user
    cluster.forbidden = {
        (verb, permission.resource)
        for permission in (*permissions.IN_NAMESPACE, *permissions.of_release(Release()))
        for verb in permission.verbs
    }

    def refuse(kind, namespace=None, *_arguments, **_options):
        raise errors.Refused(f"list {kind} in {namespace}: forbidden: User {user} cannot list it")

    monkeypatch.setattr(cluster, "list", refuse)
    terminal.run("doctor", "-o", "json")
    warnings = [each for each in json.loads(terminal.out) if each["level"] == "warning"]
    assert [(each["subject"], each["words"].partition(":")[0]) for each in warnings] == [
        ("rights", "not checked, because you may not read it"),
        ("rights", "you lack rights in demo"),
        ("rights", "you may not reach the knowledge service in kais-system"),
    ]
    assert "kinds (list CustomResourceDefinition in None)" in warnings[0]["words"]
    assert "get, list, watch blueprints, blueprintrevisions, " in warnings[1]["words"]
    assert "; patch blueprints, formations, missions, blueprintinstances" in warnings[1]["words"]
    command = "kubectl create rolebinding"
    edit, people = "-n demo --clusterrole=edit", "-n kais-system --role=kais-people"
    assert [each["advice"].partition(": ")[2] for each in warnings[1:]] == [
        f"{command} {name}-edit {edit} {subject}",
        f"{command} {name}-kais-people {people} {subject}",
    ]


def test_user_who_may_only_read_is_not_asked_for_the_role_view(terminal, cluster):
    cluster.forbidden = {
        (verb, permission.resource)
        for permission in permissions.IN_NAMESPACE
        for verb in permission.verbs
        if verb in ("create", "patch")
    }
    terminal.run("doctor")
    assert "--clusterrole=edit" in terminal.out
    assert "--clusterrole=view" not in terminal.out


def fail_list(cluster, monkeypatch, failing_kind, failure):
    """Let lists of one kind fail."""
    real = cluster.list

    def listing(kind, *arguments, **options):
        if kind == failing_kind:
            raise failure
        return real(kind, *arguments, **options)

    monkeypatch.setattr(cluster, "list", listing)


def test_what_may_not_be_read_is_said_and_the_rest_is_checked(terminal, cluster, monkeypatch):
    fail_list(
        cluster,
        monkeypatch,
        "CustomResourceDefinition",
        errors.Refused("list customresourcedefinitions: forbidden"),
    )
    assert broken(terminal, "warning  kinds     not checked: list customresourcedefin") == 0
    assert "→ request the right to read it" in terminal.out


def test_advice_for_a_kind_that_is_not_served_is_to_install_it(terminal, cluster, monkeypatch):
    fail_list(
        cluster,
        monkeypatch,
        "CustomResourceDefinition",
        errors.UnknownKind("list missions: the cluster does not know this kind"),
    )
    assert broken(terminal, "warning  kinds     not checked: list missions: the cluster") == 0
    assert "→ helm upgrade --install kais-crds" in terminal.out
    assert "request the right" not in terminal.out


@pytest.mark.parametrize(
    ("kind", "subject"),
    [("Event", "operator"), ("Pod", "service"), ("Mission", "objects"), ("ConfigMap", "outbox")],
)
def test_a_request_that_fails_is_a_finding_and_the_rest_is_checked(
    terminal, cluster, monkeypatch, kind, subject
):
    message = "the API server answers 504; try again later"
    fail_list(cluster, monkeypatch, kind, errors.Unreachable(message))
    status = broken(terminal, f"failed   {subject:<9} not checked: {message}\n")
    assert status == ExitStatus.FAILED
    assert "→ run kais doctor again" in terminal.out
    assert "ok       cluster   answers, Kubernetes v1.36.3\n" in terminal.out
    assert "ok       rights    you may do all that kais does in demo\n" in terminal.out


def test_an_object_that_nests_too_deeply_is_one_finding_and_the_rest_is_checked(
    terminal, cluster, monkeypatch
):
    fail_list(
        cluster,
        monkeypatch,
        "Blueprint",
        errors.TooDeep("list blueprints in demo: an object nests too deeply to be read"),
    )
    assert broken(terminal, "warning  objects   not checked: list blueprints in demo: an obj") == 0
    assert "in the log of the operator: it names the object" in terminal.out
    assert "request the right" not in terminal.out
    assert "ok       rights" in terminal.out


def test_an_unreachable_cluster_is_status_7(terminal, cluster):
    cluster.failure = errors.Unreachable("the API server does not answer")
    assert terminal.run("doctor") == ExitStatus.UNREACHABLE


def test_findings_for_programs(terminal):
    terminal.run("doctor", "-o", "json")
    assert json.loads(terminal.out)[0] == {
        "level": "ok",
        "subject": "cluster",
        "words": "answers, Kubernetes v1.36.3",
        "advice": "",
    }
