"""`wait --for`, logs of one container, and one revision: with the semantics of kubectl."""

import io
from datetime import timedelta

import pytest

from kais import labels
from kais_cli import app, errors
from kais_cli.exit_status import ExitStatus
from kais_cli.ports import Waiting
from kais_cli.runs import awaited_state
from tests.cli import objects

NAME = "doctor-x2k4f"
REASON = 'jsonpath={.status.conditions[?(@.type=="Succeeded")].reason}'


def mission(*conditions, **status):
    return objects.mission(conditions=list(conditions), **status)


def succeeded(status, reason):
    return objects.condition("Succeeded", status, reason)


@pytest.fixture
def running(cluster):
    for body in (objects.instance(), objects.mission(phase="Running")):
        cluster.put(body)


@pytest.mark.parametrize(
    ("text", "reached", "missed"),
    [
        ("condition=Succeeded", mission(succeeded("True", "Finished")), mission()),
        ("condition=succeeded=false", mission(succeeded("False", "Failed")), mission()),
        (
            f"{REASON}=ApprovalRequired",
            mission(succeeded("Unknown", "ApprovalRequired")),
            mission(succeeded("Unknown", "Running")),
        ),
        ("jsonpath={.status.phase}='Running'", mission(phase="Running"), mission(phase="Pending")),
        ("jsonpath={.status.outcome}", mission(outcome="Failed"), mission()),
        ("jsonpath={.status.attempt}=2", mission(attempt=2), mission(attempt=1)),
        ("jsonpath=.status.phase=Running", mission(phase="Running"), mission(phase="Pending")),
        ("jsonpath=status.phase=Running", mission(phase="Running"), mission(phase="Pending")),
        ("jsonpath=.status.outcome", mission(outcome="Failed"), mission()),
        ("jsonpath={.status.message}", mission(message=""), mission()),
        ("jsonpath={.status.message}={done}", mission(message="{done}"), mission(message="x")),
        ("jsonpath={.status.message}=a==b", mission(message="a==b"), mission(message="a")),
        (
            'jsonpath={.status.conditions[?(@.reason=="}=")].status}=True',
            mission(succeeded("True", "}=")),
            mission(succeeded("True", "Finished")),
        ),
        (
            'jsonpath=.status.conditions[?(@.type!="Ready")].status=True',
            mission(succeeded("True", "Finished")),
            mission(succeeded("False", "Failed")),
        ),
        ("delete", None, mission()),
        ("Create", mission(), None),
    ],
)
def test_state_is_reached_by_one_object_and_not_by_the_other(text, reached, missed):
    state = awaited_state.parse(text)
    assert state.is_reached(reached)
    assert not state.is_reached(missed)


@pytest.mark.parametrize("text", ["jsonpath=.a==b", "jsonpath={.a==b}", "jsonpath={.a[}=x"])
def test_paths_that_cannot_be_read_are_refused(text):
    with pytest.raises(errors.UsageError, match="jsonpath: cannot read"):
        awaited_state.parse(text)


def test_condition_of_an_earlier_generation_does_not_count():
    body = mission(succeeded("True", "Finished") | {"observedGeneration": 1})
    state = awaited_state.parse("condition=Succeeded")
    assert state.is_reached(body)
    body["metadata"]["generation"] = 2
    assert not state.is_reached(body)


@pytest.mark.parametrize(
    "text",
    [
        "", "Succeeded", "deleted", "condition", "condition=", "condition==x", "condition=Ready=",
        "Condition=Ready", "jsonpath", "jsonpath=", "jsonpath={}=v", "JSONPATH={.a}=b",
        "jsonpath={.a}=", "jsonpath={.a}=''", "jsonpath={.a}==b", "jsonpath={.a}===b",
        "jsonpath={.m}=a=b", "jsonpath={.a}{.b}=x", "jsonpath=x{.a}=v", "jsonpath={.a}x",
        "jsonpath={.a", "jsonpath=.a}", "jsonpath={.a} =x", "jsonpath='{.a}'=x",
    ],
)  # fmt: skip
def test_other_forms_are_refused_with_those_of_kubectl(text):
    with pytest.raises(errors.UsageError, match="condition=TYPE=STATUS"):
        awaited_state.parse(text)


def test_wait_ends_when_the_condition_is_met(terminal, cluster, running):
    cluster.script = [mission(succeeded("Unknown", "ApprovalRequired"))]
    argument = f"{REASON}=ApprovalRequired"
    assert terminal.run("mission", "wait", NAME, "--for", argument) == ExitStatus.SUCCEEDED
    assert terminal.out == f"mission.kais.io/{NAME} condition met\n"


def test_wait_for_an_instance_writes_it_in_the_chosen_form(terminal, cluster, running):
    cluster.script = [objects.instance(outcome="Failed")]
    status = terminal.run(
        "instance", "wait", NAME, "--for=jsonpath={.status.outcome}", "-o", "name"
    )
    assert status == ExitStatus.SUCCEEDED
    assert terminal.out == f"blueprintinstance.kais.io/{NAME}\n"


def test_wait_that_times_out_says_for_what(terminal, cluster, running):
    arguments = ("mission", "wait", NAME, "--for", "delete", "--timeout", "10s")
    assert terminal.run(*arguments) == ExitStatus.TIMED_OUT
    assert f"Mission/demo/{NAME} did not meet --for=delete within 10 s" in terminal.err


def test_object_that_is_deleted_ends_the_wait_for_something_else(terminal, cluster, running):
    cluster.script = [("Mission", NAME)]
    assert terminal.run("mission", "wait", NAME, "--for", "condition=Succeeded") == 1
    assert "was deleted before it met --for=condition=Succeeded" in terminal.err


def test_wait_for_the_deletion_is_met_by_it(terminal, cluster, running):
    cluster.script = [("Mission", NAME)]
    assert terminal.run("mission", "wait", NAME, "--for=delete") == ExitStatus.SUCCEEDED
    assert terminal.out == f"mission.kais.io/{NAME} condition met\n"


def test_wait_for_the_deletion_of_what_is_deleted_is_met(terminal):
    assert terminal.run("mission", "wait", "gone", "--for=delete") == ExitStatus.SUCCEEDED
    assert terminal.run("mission", "wait", "gone", "--for=condition=Succeeded") == 1
    assert "Mission/demo/gone does not exist" in terminal.err


@pytest.fixture
def deleted_after_read(cluster, running, monkeypatch):
    read = cluster.get

    def get(kind, namespace, name):
        body = read(kind, namespace, name)
        cluster.delete(kind, namespace, name)
        return body

    monkeypatch.setattr(cluster, "get", get)


def test_wait_sees_that_its_object_was_deleted_before_the_watch_began(terminal, deleted_after_read):
    assert terminal.run("mission", "wait", NAME, "--for=delete") == ExitStatus.SUCCEEDED
    assert terminal.out == f"mission.kais.io/{NAME} condition met\n"


def test_wait_for_a_condition_reports_a_deletion_before_the_watch_began(
    terminal, deleted_after_read
):
    assert terminal.run("mission", "wait", NAME, "--for=condition=Succeeded") == 1
    assert "was deleted before it met --for=condition=Succeeded" in terminal.err


def test_wait_for_the_creation_is_met_by_it(terminal, cluster):
    cluster.script = [None, objects.mission()]
    assert terminal.run("mission", "wait", NAME, "--for=create") == ExitStatus.SUCCEEDED
    assert terminal.out == f"mission.kais.io/{NAME} condition met\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_wait_for_the_deletion_has_no_object_to_write(terminal, form):
    arguments = ("mission", "wait", "gone", "--for=delete", "-o", form)
    assert terminal.run(*arguments) == ExitStatus.USAGE
    assert terminal.err == f"error: --for=delete has no object to write; leave out -o {form}\n"


def test_wait_for_a_state_is_about_the_current_run(terminal, running):
    arguments = ("mission", "wait", NAME, "--run", "1", "--for", "condition=Succeeded")
    assert terminal.run(*arguments) == ExitStatus.USAGE
    assert "--for" in terminal.err


def test_logs_have_the_options_of_kubectl(terminal, cluster, logged):
    arguments = ("-c", "task", "--since", "90s", "--tail", "5", "--timestamps", "-p")
    assert terminal.run("mission", "logs", NAME, *arguments) == 0
    options = cluster.log_options
    assert (options.since, options.tail) == (timedelta(seconds=90), 5)
    assert (options.previous, options.timestamps, options.follow) == (True, True, False)


@pytest.fixture
def logged(cluster):
    job = {labels.MISSION: NAME, "batch.kubernetes.io/job-name": f"{NAME}-a1"}
    metadata = {"name": "pod", "namespace": "demo", "labels": job}
    spec = {"initContainers": [{"name": "task"}], "containers": [{"name": "check-0"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    for body in (objects.instance(mission=NAME), objects.mission(), pod):
        cluster.put(body)
    cluster.written = {("pod", "task"): ["work\n"], ("pod", "check-0"): ["check\n"]}


def test_logs_of_one_container_leave_out_the_others(terminal, logged):
    assert terminal.run("instance", "logs", NAME, "-c", "check-0") == 0
    assert terminal.out == "check\n"


def test_unknown_container_is_refused_with_those_that_exist(terminal, logged):
    assert terminal.run("mission", "logs", NAME, "-c", "main") == ExitStatus.USAGE
    assert "no such container; the pods have task, check-0" in terminal.err


def test_previous_logs_leave_out_containers_that_have_not_run_before(terminal, cluster, logged):
    del cluster.written["pod", "task"]
    assert terminal.run("mission", "logs", NAME, "-p") == ExitStatus.SUCCEEDED
    assert terminal.out == "check\n"
    assert "task in pod has not run before" in terminal.err


def test_previous_logs_of_containers_of_which_none_has_run_before_are_refused(
    terminal, cluster, logged
):
    cluster.written = {}
    assert terminal.run("mission", "logs", NAME, "-p") == ExitStatus.FAILED
    assert "error: no container of pod has run before; leave out --previous" in terminal.err


def test_followed_lines_reach_a_pipe_before_the_container_ends(terminal, cluster, logged):
    pipe = io.BytesIO()
    in_pipe = []

    def pieces():
        for piece in ("one\n", "two\n"):
            yield piece
            in_pipe.append(pipe.getvalue())

    cluster.written = {("pod", "task"): pieces()}
    environment = terminal.environment(stdout=io.TextIOWrapper(pipe), stderr=io.StringIO())
    assert app.main(("mission", "logs", NAME, "-f"), environment) == ExitStatus.SUCCEEDED
    assert in_pipe == [b"one\n", b"one\ntwo\n"]


def test_what_a_followed_container_waits_for_is_a_note_and_no_output(terminal, cluster, logged):
    waiting = Waiting("task in Pod/demo/pod waits to start: Unschedulable: no room")
    cluster.written["pod", "task"] = [waiting, "work\n"]
    assert terminal.run("mission", "logs", NAME, "-f", "-c", "task") == ExitStatus.SUCCEEDED
    assert terminal.out == "work\n"
    assert terminal.err == f"{waiting.message}\n"


def test_a_followed_container_that_started_and_wrote_nothing_has_an_empty_log(
    terminal, cluster, logged
):
    waiting = {"name": "task", "state": {"waiting": {"reason": "ContainerCreating"}}}
    created = cluster.get("Pod", "demo", "pod") | {"status": {"containerStatuses": [waiting]}}
    cluster.put(created)

    def ends_without_a_line():
        state = {"terminated": {"exitCode": 0}}
        status = {"phase": "Succeeded", "containerStatuses": [{"name": "task", "state": state}]}
        cluster.put(created | {"status": status})
        yield from ()

    cluster.written["pod", "task"] = ends_without_a_line()
    assert terminal.run("mission", "logs", NAME, "-f", "-c", "task") == ExitStatus.SUCCEEDED
    assert terminal.err == "the log of pod is empty\n"


def test_a_followed_check_that_cannot_start_is_noted_after_the_log_of_the_work(
    terminal, cluster, logged
):
    cluster.not_started["pod", "check-0"] = "the pod has ended: task failed with exit code 3"
    assert terminal.run("mission", "logs", NAME, "-f") == ExitStatus.SUCCEEDED
    assert terminal.out == "work\n"
    assert terminal.err.endswith("\nthe pod has ended: task failed with exit code 3\n")


def test_followed_pods_of_which_no_container_starts_are_an_error(terminal, cluster, logged):
    for container in ("task", "check-0"):
        cluster.not_started["pod", container] = "the pod was deleted"
    assert terminal.run("mission", "logs", NAME, "-f") == ExitStatus.FAILED
    assert "the pod was deleted\nerror: no container of pod has started; " in terminal.err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("1.5h", 5400), ("500ms", 0.5), (".5m1s", 31), ("1m1us", 60.000001)],
)
def test_since_takes_the_durations_of_go(terminal, cluster, logged, text, seconds):
    assert terminal.run("mission", "logs", NAME, "--since", text) == ExitStatus.SUCCEEDED
    assert cluster.log_options.since == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["0", "0s", "0h0ms"])
def test_since_zero_is_the_whole_log(terminal, cluster, logged, text):
    assert terminal.run("mission", "logs", NAME, "--since", text) == ExitStatus.SUCCEEDED
    assert cluster.log_options.since is None


@pytest.mark.parametrize("text", ["", "5", "-5m", ".s", "1d", "99999999999h"])
def test_since_refuses_what_is_no_period(terminal, logged, text):
    assert terminal.run("mission", "logs", NAME, f"--since={text}") == ExitStatus.USAGE
    assert f'--since must be a duration such as 90s, 1.5h or 500ms, got "{text}"' in terminal.err


@pytest.mark.parametrize(("option", "words"), [("--since=soon", "--since"), ("-pf", "--previous")])
def test_log_options_that_cannot_hold_are_refused(terminal, logged, option, words):
    assert terminal.run("mission", "logs", NAME, option) == ExitStatus.USAGE
    assert words in terminal.err


def test_history_shows_the_template_of_one_revision(terminal, cluster):
    cluster.put(objects.blueprint())
    cluster.put(objects.revision(number=1))
    assert terminal.run("blueprint", "history", "doctor", "--revision", "1") == 0
    assert terminal.out.startswith("doctor, revision 1: ")
    assert "\n  formation:\n" in terminal.out
    assert terminal.run("blueprint", "history", "doctor", "--revision", "1", "-o", "name") == 0
    assert "blueprintrevision.kais.io/doctor" in terminal.out
    assert terminal.run("blueprint", "history", "doctor", "--revision", "9") == 1
    assert "has no revision 9" in terminal.err
