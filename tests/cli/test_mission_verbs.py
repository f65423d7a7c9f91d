"""What steers a mission: retry, abort, approve, reject; and its logs."""

import json

import pytest

from kais import labels
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

NAME = "doctor-x2k4f"


def put(cluster, body, *, owner=None, review=None):
    if owner:
        reference = {
            "apiVersion": "kais.io/v1",
            "kind": "BlueprintInstance",
            "name": owner,
            "uid": "u",
            "controller": True,
        }
        body["metadata"]["ownerReferences"] = [reference]
    if review:
        criteria = {"enabled": True, "reviewer": "lead", "criteria": "is it clear?"}
        body["spec"]["completion"] = {"review": criteria}
        body.setdefault("status", {})["review"] = {"status": review}
    cluster.put(body)


def annotations(cluster, kind="Mission", name=NAME):
    return cluster.get(kind, "demo", name)["metadata"].get("annotations", {})


def test_retry_of_a_mission_that_goes_on_is_refused(terminal, cluster):
    put(cluster, objects.mission(phase="Running", attempt=1))
    assert terminal.run("mission", "retry", NAME) == ExitStatus.FAILED
    assert terminal.err == (
        f"error: Mission/demo/{NAME} has not ended; wait for it,"
        f" or end it with `kais mission abort {NAME}`\n"
    )


def test_retry_asks_the_instance_that_owns_the_mission(terminal, cluster):
    put(cluster, objects.ended("Failed"), owner=NAME)
    cluster.put(objects.instance())
    assert terminal.run("mission", "retry", NAME, "--no-wait") == 0
    assert annotations(cluster, "BlueprintInstance") == {labels.RERUN: "x2k4f"}
    assert annotations(cluster) == {}
    assert terminal.out == f"blueprintinstance.kais.io/{NAME}\n"


def test_retry_follows_the_new_run_and_not_the_one_that_ended(terminal, cluster, knowledge):
    put(cluster, objects.ended("Failed"))
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    cluster.script = [objects.ended("Failed"), objects.ended("Succeeded", runId="run-2")]
    assert terminal.run("mission", "retry", NAME) == ExitStatus.SUCCEEDED
    assert f"{NAME}: Succeeded" in terminal.out


def test_retry_of_an_updated_use_follows_the_mission_that_is_made_anew(
    terminal, cluster, knowledge
):
    put(cluster, objects.ended("Failed", runId="run-1"), owner=NAME)
    cluster.put(objects.instance(runId="run-1", outcome="Failed"))
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    cluster.script = [
        ("Mission", NAME),
        objects.instance(runId="run-2"),
        objects.mission(phase="Running", attempt=1, runId="run-2"),
        objects.ended("Succeeded", runId="run-2"),
    ]
    assert terminal.run("mission", "retry", NAME) == ExitStatus.SUCCEEDED
    assert f"{NAME}: Succeeded" in terminal.out
    assert "deleted" not in terminal.out + terminal.err


def test_retry_shows_what_the_api_server_refuses_the_use(terminal, cluster):
    put(cluster, objects.ended("Failed", runId="run-1"), owner=NAME)
    cluster.put(objects.instance(runId="run-1", outcome="Failed"))
    message = 'missions.kais.io "x" is forbidden: cannot delete resource "missions"'
    applied = objects.condition("Applied", "False", "ApplyFailed", message)
    cluster.script = [objects.instance(runId="run-2", conditions=[applied]), None]
    assert terminal.run("mission", "retry", NAME, "--timeout", "1s") == ExitStatus.TIMED_OUT
    assert f"BlueprintInstance Applied: ApplyFailed: {message}" in terminal.out + terminal.err


def test_retry_ends_when_the_use_is_deleted(terminal, cluster):
    put(cluster, objects.ended("Failed", runId="run-1"), owner=NAME)
    cluster.put(objects.instance(runId="run-1", outcome="Failed"))
    cluster.script = [("Mission", NAME), ("BlueprintInstance", NAME)]
    assert terminal.run("mission", "retry", NAME) == ExitStatus.CANCELLED


def test_abort_writes_the_reason(terminal, cluster):
    put(cluster, objects.mission(phase="Running", attempt=1))
    assert terminal.run("mission", "abort", NAME, "--reason", "wrong namespace") == 0
    assert annotations(cluster) == {labels.ABORT: "wrong namespace"}
    assert terminal.err == f"Mission/demo/{NAME} is being ended: wrong namespace\n"


def test_abort_of_an_ended_mission_is_refused(terminal, cluster):
    put(cluster, objects.ended())
    assert terminal.run("mission", "abort", NAME) == ExitStatus.FAILED
    assert terminal.err == f"error: Mission/demo/{NAME} has ended already: Succeeded\n"


@pytest.mark.parametrize(("verb", "participle"), [("approve", "approved"), ("reject", "rejected")])
def test_a_verdict_names_the_run_and_the_attempt_that_wait(terminal, cluster, verb, participle):
    put(cluster, objects.mission(phase="Running", attempt=2, runId="run-3"), review="Pending")
    assert terminal.run("mission", verb, NAME, "--feedback", "say $(HOME) why") == 0
    document = json.loads(annotations(cluster)[labels.REVIEW])
    verdict = {"attempt": 2, "verdict": verb, "feedback": "say $(HOME) why"}
    assert document == {**verdict, "run": "run-3"}
    assert annotations(cluster)[labels.REVIEWED_BY] == "ada@harbour.example"
    assert terminal.err == f"Mission/demo/{NAME}: attempt 2 {participle}\n"


def test_a_verdict_that_nobody_waits_for_is_refused(terminal, cluster):
    put(cluster, objects.mission(phase="Running", attempt=1))
    assert terminal.run("mission", "approve", NAME) == ExitStatus.FAILED
    assert terminal.err.startswith(f"error: Mission/demo/{NAME} has no review")


def test_reject_without_words_is_a_usage_error(terminal, cluster):
    put(cluster, objects.mission(phase="Running", attempt=1), review="Pending")
    assert terminal.run("mission", "reject", NAME) == ExitStatus.USAGE
    assert terminal.err == "error: --feedback is required: describe what to improve\n"
    assert annotations(cluster) == {}


def test_dry_run_of_a_verb_changes_nothing(terminal, cluster):
    put(cluster, objects.mission(phase="Running", attempt=1))
    terminal.run("mission", "abort", NAME, "--dry-run")
    assert cluster.patched[0][3] is True
    assert annotations(cluster) == {}


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("abort", "is being ended: aborted"),
        ("approve", ": attempt 1 approved"),
        ("reject --feedback shorter", ": attempt 1 rejected"),
    ],
)
def test_dry_run_of_a_verb_says_that_nothing_changed(terminal, cluster, verb, message):
    put(cluster, objects.mission(phase="Running", attempt=1), review="Pending")
    assert terminal.run("mission", *verb.split(), NAME, "--dry-run") == ExitStatus.SUCCEEDED
    assert terminal.err.endswith(f"{message} (dry run, nothing changed)\n")


def test_dry_run_of_a_retry_says_that_nothing_changed(terminal, cluster):
    put(cluster, objects.ended("Failed"))
    assert terminal.run("mission", "retry", NAME, "--dry-run") == ExitStatus.SUCCEEDED
    assert terminal.err == (
        f"Mission/demo/{NAME} runs again: {labels.RERUN}=x2k4f (dry run, nothing changed)\n"
    )


def pod(attempt, *, checks=()):
    spec = {"containers": [{"name": "task"}]}
    if checks:
        spec = {"initContainers": [{"name": "task"}], "containers": [{"name": c} for c in checks]}
    result = {
        labels.MISSION: NAME,
        "batch.kubernetes.io/job-name": f"{NAME}-a{attempt}",
    }
    metadata = {"name": f"{NAME}-a{attempt}-p", "namespace": "demo", "labels": result}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_logs_are_those_of_the_latest_attempt(terminal, cluster):
    put(cluster, objects.ended())
    for attempt in (1, 2):
        cluster.put(pod(attempt))
        cluster.written[f"{NAME}-a{attempt}-p", "task"] = [f"attempt {attempt}\n", "done"]
    assert terminal.run("mission", "logs", NAME) == 0
    assert terminal.out == "attempt 2\ndone\n"


def test_logs_show_the_work_and_then_each_check(terminal, cluster):
    put(cluster, objects.ended())
    cluster.put(pod(1, checks=["check-tests"]))
    cluster.written[f"{NAME}-a1-p", "task"] = ["work\n"]
    cluster.written[f"{NAME}-a1-p", "check-tests"] = ["2 passed\x1b[31m\n"]
    terminal.run("mission", "logs", NAME, "--attempt", "1")
    assert terminal.out == "work\n2 passed\\u001b[31m\n"
    assert terminal.err == f"== {NAME}-a1-p, task\n== {NAME}-a1-p, check-tests\n"


def test_logs_without_pods_say_where_the_result_is(terminal, cluster):
    put(cluster, objects.ended())
    assert terminal.run("mission", "logs", NAME) == ExitStatus.FAILED
    assert f"its result is in `kais mission show {NAME}`" in terminal.err
