import json

import pytest

from kais import labels
from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

POD = "doctor-x2k4f-pod"


@pytest.fixture(autouse=True)
def instance(cluster):
    body = objects.instance(
        phase="Succeeded",
        outcome="Succeeded",
        revisionInUse=2,
        mission="doctor-x2k4f",
        formation="doctor-x2k4f",
        runId="run-1",
        conditions=[objects.condition("Ready", "True", "Succeeded", "the run succeeded")],
    )
    body["spec"]["parameters"] = {"who": "bob"}
    cluster.put(body)
    cluster.put(objects.ended())
    metadata = {"name": POD, "namespace": "demo"}
    metadata["labels"] = {labels.MISSION: "doctor-x2k4f", labels.CELL: "doctor-x2k4f-doctor-0"}
    spec = {"containers": [{"name": "work"}]}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.written[(POD, "work")] = ["looked at pods\n"]
    cluster.put(
        objects.made(
            "Cell",
            "doctor-x2k4f-doctor-0",
            {"mode": "Task", "formationRef": "doctor-x2k4f", "container": {"image": "doctor:1"}},
            phase="Completed",
            conditions=[objects.condition("Ready", "True", "Completed", "its work is done")],
        )
    )


def test_list_has_blueprint_revision_and_outcome(terminal):
    assert terminal.run("instance", "list") == 0
    assert terminal.out.splitlines() == [
        "NAME          BLUEPRINT  REVISION  STATUS     OUTCOME    READY  AGE",
        "doctor-x2k4f  doctor     2         Succeeded  Succeeded  True   2m",
    ]


def test_show_has_parameters_objects_run_and_conditions(terminal):
    assert terminal.run("instance", "show", "bpi/doctor-x2k4f") == 0
    for text in (
        "doctor-x2k4f in demo: Succeeded, outcome Succeeded\n",
        "  of Blueprint/demo/doctor, revision 2\n",
        '  who   "bob"\n',
        "  Formation/demo/doctor-x2k4f, Mission/demo/doctor-x2k4f\n",
        "Run: run-1\n",
        "Ready  True    Succeeded  the run succeeded",
    ):
        assert text in terminal.out


def test_an_instance_that_does_not_exist_is_refused_with_the_command_that_lists(terminal):
    assert terminal.run("instance", "show", "other") == ExitStatus.FAILED
    assert terminal.err == (
        "error: BlueprintInstance/demo/other does not exist; see `kais instance list`\n"
    )


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("Succeeded", ExitStatus.SUCCEEDED), ("TimedOut", ExitStatus.TIMED_OUT)],
)
def test_wait_ends_with_the_status_of_the_outcome(terminal, cluster, outcome, status):
    cluster.put(objects.instance(phase="Running"))
    cluster.put(objects.mission(phase="Running", attempt=1))
    cluster.script = [objects.ended(outcome)]
    assert terminal.run("instance", "wait", "doctor-x2k4f") == status
    assert f"doctor-x2k4f: {outcome}" in terminal.out


def test_logs_are_those_of_the_mission(terminal):
    assert terminal.run("instance", "logs", "doctor-x2k4f") == 0
    assert terminal.out == "looked at pods\n"


def test_logs_of_an_instance_without_a_mission_name_the_command_for_its_cells(terminal, cluster):
    cluster.put(objects.instance(phase="Running"))
    assert terminal.run("instance", "logs", "doctor-x2k4f") == ExitStatus.FAILED
    assert "has no mission, so it has no attempts" in terminal.err
    assert "`kais cell logs`" in terminal.err


def test_delete_deletes_the_instance_and_prints_its_name(terminal, cluster):
    assert terminal.run("instance", "delete", "doctor-x2k4f") == 0
    assert cluster.deleted == [("BlueprintInstance", "demo", "doctor-x2k4f")]
    assert terminal.out == "blueprintinstance.kais.io/doctor-x2k4f\n"
    assert terminal.err == "BlueprintInstance/demo/doctor-x2k4f is being deleted\n"


NO_NAMES = ["", " ", "doctor-x2k4f ", "blueprintinstance/", "..", "a/../b", "Doctor", "a" * 254]


@pytest.mark.parametrize("argument", NO_NAMES)
def test_delete_of_what_is_no_name_is_a_usage_error_and_sends_nothing(terminal, cluster, argument):
    status = terminal.run("instance", "delete", "doctor-x2k4f", argument)
    assert status == ExitStatus.USAGE
    assert repr(argument) in terminal.err
    assert "BlueprintInstance" in terminal.err
    assert cluster.used == set()


def test_delete_takes_several_names_and_deletes_none_if_one_is_missing(terminal, cluster):
    cluster.put(objects.instance("second"))
    names = ("doctor-x2k4f", "bpi/second")
    assert terminal.run("instance", "delete", *names, "third") == ExitStatus.FAILED
    assert "BlueprintInstance/demo/third does not exist" in terminal.err
    assert cluster.deleted == []
    assert terminal.run("instance", "delete", *names) == 0
    assert [name for *_, name in cluster.deleted] == ["doctor-x2k4f", "second"]
    assert terminal.out.splitlines() == [
        "blueprintinstance.kais.io/doctor-x2k4f",
        "blueprintinstance.kais.io/second",
    ]


def test_cells_are_listed_with_their_formation(terminal):
    assert terminal.run("cell", "list") == 0
    assert terminal.out.splitlines() == [
        "NAME                   FORMATION     MODE  STATUS     READY  AGE",
        "doctor-x2k4f-doctor-0  doctor-x2k4f  Task  Completed  True   2m",
    ]


def test_a_cell_shows_its_state_and_conditions(terminal):
    assert terminal.run("cell", "show", "cl/doctor-x2k4f-doctor-0") == 0
    assert terminal.out.startswith("doctor-x2k4f-doctor-0 in demo: Task, Completed\n")
    assert "Ready  True    Completed  its work is done" in terminal.out


def test_mind_without_a_mode_is_a_service(terminal, cluster):
    mind = {"provider": "openai", "model": "m", "systemPrompt": "Work."}
    cluster.put(objects.made("Cell", "lead", {"mind": mind}))
    terminal.run("cell", "list")
    (row,) = [line for line in terminal.out.splitlines() if line.startswith("lead ")]
    assert "Service" in row
    terminal.run("cell", "show", "lead")
    assert "lead in demo: Service, " in terminal.out


def test_logs_of_a_cell_are_those_of_its_pods(terminal):
    assert terminal.run("cell", "logs", "doctor-x2k4f-doctor-0") == 0
    assert terminal.out == "looked at pods\n"


def refused_cell(message: str):
    refusal = objects.condition("Applied", "False", "SpawnRefused", message)
    return objects.made(
        "Cell", "helper", {"mode": "Task", "container": {"image": "helper:1"}}, conditions=[refusal]
    )


def test_approval_of_a_cell_names_who_approves(terminal, cluster):
    cluster.put(refused_cell("cells that Cell/demo/lead creates need approval"))
    assert terminal.run("cell", "approve", "cell/helper") == 0
    written = cluster.get("Cell", "demo", "helper")["metadata"]["annotations"]
    assert written == {labels.APPROVED: "true", labels.APPROVED_BY: cluster.user_name()}
    assert f"Cell/demo/helper: approved by {cluster.user_name()}" in terminal.err
    assert terminal.out == "cell.kais.io/helper\n"


def test_approval_on_trial_changes_nothing(terminal, cluster):
    cluster.put(refused_cell("cells that Cell/demo/lead creates need approval"))
    assert terminal.run("cell", "approve", "helper", "--dry-run") == 0
    assert terminal.err == (
        f"Cell/demo/helper: approved by {cluster.user_name()} (dry run, nothing changed)\n"
    )
    assert labels.APPROVED not in (
        cluster.get("Cell", "demo", "helper")["metadata"].get("annotations") or {}
    )


def test_a_cell_that_waits_for_no_approval_is_refused(terminal):
    assert terminal.run("cell", "approve", "doctor-x2k4f-doctor-0") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Cell/demo/doctor-x2k4f-doctor-0 waits for no approval; see"
        " `kais cell show doctor-x2k4f-doctor-0 -n demo`\n"
    )


def test_approval_where_no_policy_is_in_force_says_what_to_do_instead(terminal, cluster):
    message = "need approval; add helper to kais.io/approved-cells of ServiceAccount/demo/lead"
    cluster.put(refused_cell(message))
    assert terminal.run("cell", "approve", "helper") == ExitStatus.FAILED
    assert message in terminal.err


@pytest.mark.parametrize(
    "arguments", [("instance", "logs", "doctor-x2k4f"), ("cell", "logs", "doctor-x2k4f-doctor-0")]
)
def test_an_empty_log_says_so(terminal, cluster, arguments):
    cluster.written.clear()
    assert terminal.run(*arguments) == 0
    assert terminal.out == ""
    assert terminal.err == f"the log of {POD} is empty\n"


NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
NO_ROOM = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/3 nodes are available",
}  # fmt: skip
NOT_STARTED = {
    "no image": (
        {"containerStatuses": [{"name": "work", "state": NO_IMAGE}]},
        "work does not start: ImagePullBackOff: no such image",
    ),
    "no node has room": ({"conditions": [NO_ROOM]}, "Unschedulable: 0/3 nodes are available"),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
        "the pod has ended: Evicted: low on memory",
    ),
}


@pytest.mark.parametrize(("pod_status", "reason"), NOT_STARTED.values(), ids=NOT_STARTED)
def test_a_container_that_has_not_started_is_not_said_to_have_an_empty_log(
    terminal, cluster, pod_status, reason
):
    cluster.written.clear()
    cluster.put(cluster.get("Pod", "demo", POD) | {"status": pod_status})
    assert terminal.run("instance", "logs", "doctor-x2k4f") == 0
    assert terminal.err == f"work in Pod/demo/{POD} has no log, it has not started: {reason}\n"


@pytest.mark.parametrize("state", [{"running": {}}, {"terminated": {"exitCode": 0}}], ids=list)
def test_a_container_that_has_started_and_written_nothing_has_an_empty_log(
    terminal, cluster, state
):
    cluster.written.clear()
    status = {"phase": "Failed", "containerStatuses": [{"name": "work", "state": state}]}
    cluster.put(cluster.get("Pod", "demo", POD) | {"status": status})
    assert terminal.run("instance", "logs", "doctor-x2k4f") == 0
    assert terminal.err == f"the log of {POD} is empty\n"


def test_a_cell_without_pods_says_so(terminal, cluster):
    cluster.delete("Pod", "demo", POD)
    assert terminal.run("cell", "logs", "doctor-x2k4f-doctor-0") == ExitStatus.FAILED
    assert terminal.err.startswith("error: Cell/demo/doctor-x2k4f-doctor-0 has no pod:")


def test_version_shows_all_components_and_which_differ(terminal, cluster):
    cluster.put(objects.workload("Deployment", "operator"))
    cluster.put(objects.workload("StatefulSet", "knowledge", version="0.0.9"))
    assert terminal.run("version", "-o", "json") == 0
    versions = json.loads(terminal.out)
    assert versions == {
        "client": objects.VERSION,
        "kubernetes": "v1.36.3",
        "kinds": "not installed",
        "operator": objects.VERSION,
        "service": "0.0.9",
    }
    assert terminal.err == (
        f"warning: not of version {objects.VERSION}: kinds, service;"
        " see `kais doctor` for what to upgrade\n"
    )


ZERO = "unknown: Deployment/kais-system/kais-operator has 0 replicas; laptop_7"


@pytest.mark.parametrize(
    ("lease", "operator"),
    [
        (objects.lease(holder="laptop_7"), f"{ZERO} holds the Lease until 2030-01-01T00:00:10Z"),
        (
            objects.lease("2029-12-31T23:59:35.000000Z", holder="laptop_7"),
            f"{ZERO} held the Lease until 2029-12-31T23:59:50Z",
        ),
        (objects.lease("2029-12-31T23:58:00.000000Z", holder="laptop_7"), "not running"),
        (None, "not running"),
    ],
)
def test_label_of_an_operator_that_is_scaled_to_0_is_the_version_of_the_chart(
    terminal, cluster, lease, operator
):
    body = objects.workload("Deployment", "operator", version="0.0.9")
    body["spec"]["replicas"] = 0
    cluster.put(body)
    if lease is not None:
        cluster.put(lease)
    assert terminal.run("version", "-o", "json") == 0
    versions = json.loads(terminal.out)
    assert (versions["operator"], versions["chart"]) == (operator, "0.0.9")
    assert terminal.err.startswith(
        f"warning: not of version {objects.VERSION}: kinds, chart, service;"
    )


def test_kinds_of_others_do_not_count_as_kinds_of_an_older_version(terminal, cluster):
    metadata = {"name": "gateways.example.com"}
    cluster.put(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
        }
    )
    assert terminal.run("version", "-o", "json") == 0
    assert json.loads(terminal.out)["kinds"] == "not installed"


def test_version_of_the_client_needs_no_cluster(terminal):
    assert terminal.run("version", "--client") == 0
    assert terminal.out.splitlines() == ["COMPONENT  VERSION", f"client     {objects.VERSION}"]
    assert terminal.asked == []


def test_an_unreachable_cluster_does_not_hide_the_version_of_the_client(terminal, cluster):

    cluster.failure = errors.Unreachable("the API server does not answer")
    assert terminal.run("version") == ExitStatus.UNREACHABLE
    assert f"client     {objects.VERSION}" in terminal.out
