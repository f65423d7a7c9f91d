import json

import pytest
import yaml

from kais.resources.mission import Mission
from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.runs import earlier_runs
from tests.cli import objects


@pytest.fixture(autouse=True)
def finished(cluster, knowledge):
    checks = [{"name": "report", "status": "Passed", "message": "found"}]
    history = [{"attempt": 1, "startedAt": objects.AT, "result": "exit code 0"}]
    cluster.put(
        objects.ended(
            result="ok",
            checks=checks,
            history=history,
            knowledge={"receipt": "rc1", "injected": 2, "extracted": 3},
            display={"facts": "2 in, 3 out", "cost": "$0.31"},
            conditions=[
                objects.condition("Succeeded", "True", "Finished"),
                objects.condition("KnowledgeExtracted", "True", "Extracted"),
            ],
        )
    )
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())


def test_list_has_what_kubectl_shows(terminal):
    assert terminal.run("mission", "list") == 0
    assert terminal.out.splitlines() == [
        "NAME          STATUS     OUTCOME    REASON    ATTEMPT  FACTS        COST   AGE",
        "doctor-x2k4f  Succeeded  Succeeded  Finished  1/3      2 in, 3 out  $0.31  2m",
    ]


def test_a_mission_that_waits_says_why_in_the_list(terminal, cluster):
    waiting = objects.condition("Succeeded", "Unknown", "FormationNotFound")
    cluster.put(objects.mission(phase="Pending", conditions=[waiting]))
    assert terminal.run("mission", "list") == 0
    row = terminal.out.splitlines()[1]
    assert row.split() == ["doctor-x2k4f", "Pending", "-", "FormationNotFound", "-", "-", "-", "2m"]


def test_show_has_all_that_came_of_it(terminal):
    assert terminal.run("mission", "show", "doctor-x2k4f") == 0
    for text in (
        "doctor-x2k4f in demo: Succeeded, outcome Succeeded",
        "Objective:\n  look for bob",
        "Run: run-1, in doctor-x2k4f",
        "exit code 0",
        "report  Passed  found",
        "Result:\n  ok",
        "Knowledge: 2 facts recalled (receipt rc1), 3 extracted, 0 stored by cells",
        "KnowledgeExtracted  True    Extracted  words",
    ):
        assert text in terminal.out


def test_show_tells_the_times_of_attempts_in_utc(terminal, cluster):
    times = {"startedAt": "2026-05-31T10:00:00+02:00", "finishedAt": "2026-05-31T08:00:05Z"}
    cluster.put(objects.mission(history=[{"attempt": 1, "result": "exit code 0", **times}]))
    terminal.run("mission", "show", "doctor-x2k4f")
    assert "  ATTEMPT  STARTED (UTC)        FINISHED (UTC)       RESULT\n" in terminal.out
    assert "  1        2026-05-31 08:00:00  2026-05-31 08:00:05  exit code 0\n" in terminal.out


def test_show_has_usage_and_files_of_a_mind(terminal, cluster):
    files = [{"name": "a.md", "sizeBytes": 120, "path": "/workspace/shared/a.md"}]
    usage = {"turns": 1, "toolCalls": 2, "tokens": {"input": 10, "output": 3}}
    cluster.put(objects.ended(**usage, artifacts=files, display={"cost": "$0.01"}))
    terminal.run("mission", "show", "doctor-x2k4f")
    assert "Agent: 1 turn, 2 tool calls, 10 tokens in, 3 out, $0.01\n" in terminal.out
    assert "  /workspace/shared/a.md  120" in terminal.out


def test_show_names_the_part_of_the_cost_that_is_estimated(terminal, cluster):
    usage = {"turns": 1, "toolCalls": 0, "cost": 0.25, "estimatedCost": 0.2}
    cluster.put(objects.ended(**usage, display={"cost": "~$0.2500"}))
    terminal.run("mission", "show", "doctor-x2k4f")
    assert "Agent: 1 turn, 0 tool calls, ~$0.2500 ($0.2000 of it estimated)\n" in terminal.out


def test_show_gives_the_object_as_json(terminal):
    terminal.run("mission", "show", "doctor-x2k4f", "-o", "json")
    assert json.loads(terminal.out)["status"]["outcome"] == "Succeeded"


@pytest.mark.parametrize("command", ["show", "watch"])
def test_a_mission_that_does_not_exist_says_where_to_look(terminal, command):
    assert terminal.run("mission", command, "nurse") == ExitStatus.FAILED
    assert terminal.err == "error: Mission/demo/nurse does not exist; see `kais mission list`\n"


def test_watching_an_ended_mission_reports_it_at_once(terminal, cluster):
    cluster.put(objects.ended("Failed", result="no pods"))
    assert terminal.run("mission", "watch", "doctor-x2k4f") == ExitStatus.FAILED
    assert "doctor-x2k4f: Failed after 12s, attempt 1/3\nresult:\n  no pods\n" in terminal.out


def test_watching_prints_what_the_api_server_refuses_the_pod(terminal, cluster):
    message = 'Job x-a1 has no pod: Error creating: pods "x-a1-…" is forbidden: exceeded quota: q'
    refused = objects.condition("Started", "False", "PodNotCreated", message)
    cluster.put(objects.mission(phase="Running", attempt=1))
    cluster.script = [
        objects.mission(phase="Running", attempt=1, conditions=[refused]),
        objects.ended("InfrastructureFailed"),
    ]
    terminal.run("mission", "watch", "doctor-x2k4f")
    assert f"Mission Started: PodNotCreated: {message}" in terminal.out + terminal.err


def test_watching_goes_on_until_the_end(terminal, cluster):
    cluster.put(objects.mission(phase="Running", attempt=1))
    cluster.script = [None, objects.ended("TimedOut")]
    assert terminal.run("mission", "watch", "doctor-x2k4f") == ExitStatus.TIMED_OUT
    assert terminal.out.startswith("attempt 1/3 started\ndoctor-x2k4f: TimedOut")


def test_show_prints_a_result_that_is_nested_too_deeply_as_it_is(terminal, cluster):
    result = "[" * 4000
    cluster.put(objects.ended(result=result))
    assert terminal.run("mission", "show", "doctor-x2k4f") == 0
    assert f"  {result}" in terminal.out


EARLIER = {"attempt": 2, "result": "Failed: exit code 3", "runId": "run-0"}


@pytest.fixture
def rerun(cluster):
    cluster.put(objects.ended(history=[EARLIER, {"attempt": 1, "result": "exit code 0"}]))


def test_show_numbers_the_runs_if_there_are_several(terminal, rerun):
    assert terminal.run("mission", "show", "doctor-x2k4f") == 0
    assert "  RUN  ATTEMPT  STARTED (UTC)  FINISHED (UTC)  RESULT\n" in terminal.out
    assert "  1    2        -              -               Failed: exit code 3\n" in terminal.out
    assert "  2    1        -              -               exit code 0\n" in terminal.out


def test_wait_for_the_current_run_ends_with_its_outcome(terminal):
    assert terminal.run("mission", "wait", "doctor-x2k4f") == ExitStatus.SUCCEEDED


@pytest.fixture
def timed_out(knowledge, rerun):
    """The earlier run, as the ledger has it."""
    knowledge.answers["GET /v1/runs/run-0"] = {
        "run_id": "run-0", "namespace": "demo", "scope": "realm:demo", "outcome": "TimedOut",
        "opened_at": objects.AT, "attempts": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)], ids=["json", "yaml"]
)
def test_wait_for_an_earlier_run_has_the_fields_of_a_followed_run_for_programs(
    terminal, timed_out, form, load
):
    arguments = ("mission", "wait", "doctor-x2k4f", "-o", form)
    assert terminal.run(*arguments) == ExitStatus.SUCCEEDED
    followed = load(terminal.out)
    assert terminal.run(*arguments, "--run", "1") == ExitStatus.TIMED_OUT
    outcome = load(terminal.out)
    assert list(outcome) == list(followed)
    assert {name: value for name, value in outcome.items() if value is not None} == {
        "name": "doctor-x2k4f", "outcome": "TimedOut", "runId": "run-0", "attempt": 2,
    }  # fmt: skip


def test_wait_for_an_earlier_run_writes_only_the_name_if_asked_for_that(terminal, timed_out):
    arguments = ("mission", "wait", "doctor-x2k4f", "--run", "1", "-o", "name")
    assert terminal.run(*arguments) == ExitStatus.TIMED_OUT
    assert terminal.out == "mission.kais.io/doctor-x2k4f\n"


def test_wait_for_an_earlier_run_reads_its_outcome_from_the_ledger(terminal, timed_out):
    assert terminal.run("mission", "wait", "doctor-x2k4f", "--run", "1") == ExitStatus.TIMED_OUT
    assert terminal.out == "doctor-x2k4f, run run-0: TimedOut\n"


def test_facts_of_a_running_agent_are_those_of_its_receipt(terminal, cluster):
    cluster.put(objects.ended(knowledge={"receipt": "rc1", "extracted": 0, "remembered": 1}))
    assert terminal.run("mission", "show", "doctor-x2k4f") == 0
    assert (
        "Knowledge: recalled what `kais receipt show rc1 -n demo` lists, 0 extracted, 1 stored by"
        " cells\n"
    ) in terminal.out


def test_logs_of_an_earlier_run_are_its_record(terminal, knowledge, rerun):
    episodes = [
        {"seq": 1, "run_id": "run-0", "actor": "a", "attempt": 1, "type": "error",
         "content": "disk full", "at": objects.AT},
        {"seq": 2, "run_id": "run-0", "actor": "a", "attempt": 2, "type": "check",
         "content": "exit code 3", "at": objects.AT},
    ]  # fmt: skip
    knowledge.answers["GET /v1/runs/run-0/episodes"] = {"episodes": episodes}
    assert terminal.run("mission", "logs", "doctor-x2k4f", "--run", "1") == 0
    assert "attempt 1  error\n  disk full\n" in terminal.out
    assert "the pods of the run run-0 are deleted; this is its record" in terminal.err
    assert terminal.run("mission", "logs", "doctor-x2k4f", "--run", "1", "--attempt", "2") == 0
    assert "disk full" not in terminal.out
    assert "exit code 3" in terminal.out


@pytest.mark.parametrize(
    "option", ["-c=task", "-f", "--since=5m", "-p", "--tail=5", "--timestamps"]
)
def test_options_of_containers_are_refused_for_the_record_of_an_earlier_run(
    terminal, rerun, option
):
    status = terminal.run("mission", "logs", "doctor-x2k4f", "--run", "1", *option.split("="))
    assert status == ExitStatus.USAGE
    assert "--run 1 prints the whole record of an earlier run; leave out -c, -f" in terminal.err


@pytest.mark.parametrize("number", [5, 0, -2])
def test_a_run_that_does_not_exist_is_answered_with_those_that_do(terminal, rerun, number):
    status = terminal.run("mission", "logs", "doctor-x2k4f", "--run", str(number))
    assert status == ExitStatus.FAILED
    message = f"has no run {number}; it has 1 to 2, and 2 is the current one, or -1 to -1 back"
    assert message in terminal.err


def test_a_negative_number_counts_back_from_the_current_run_however_many_are_listed():
    history = [EARLIER | {"runId": f"run-{number}"} for number in range(20, 30)]
    mission = Mission.from_dict(objects.ended(history=history))
    assert earlier_runs.earlier_run(mission, -1) == "run-29"
    assert earlier_runs.earlier_run(mission, -10) == "run-20"
    assert earlier_runs.earlier_run(mission, 11) is None


@pytest.mark.parametrize(
    ("review", "line"),
    [
        (
            {"status": "Pending"},
            (
                "Pending; answer with `kais mission approve doctor-x2k4f -n demo` or"
                " `kais mission reject doctor-x2k4f -n demo --feedback TEXT`"
            ),
        ),
        (
            {"status": "Approved", "by": "ada@harbour.example", "feedback": "well done"},
            "Approved by ada@harbour.example: well done",
        ),
        ({"status": "Rejected"}, "Rejected (the reviewer is not on record)"),
    ],
)
def test_a_mission_shows_its_review_and_who_gave_the_verdict(terminal, cluster, review, line):
    cluster.put(objects.mission(phase="Running", attempt=1, review=review))
    name = objects.mission()["metadata"]["name"]
    assert terminal.run("mission", "show", name) == 0
    assert f"\nReview: {line}" in terminal.out


MIND = {"provider": "openai", "model": "m", "systemPrompt": "Work."}


@pytest.fixture(params=["formation", "cell"])
def agent_mission(request, cluster):
    """A failed mission of an agent that keeps running; returns the name of its cell."""
    body = objects.ended("Failed", message="Failed: the agent gave up")
    template = {"name": "lead", "replicas": 2, "spec": {"mind": MIND}}
    formation = {"cells": [template], "topology": {"type": "star", "hub": "lead"}}
    cluster.put(objects.made("Formation", "doctor-x2k4f", formation))
    if request.param == "cell":
        name, body["spec"] = "writer", {"cellRef": "writer", "objective": "look for bob"}
    else:
        name, body["spec"]["entrypoint"] = "doctor-x2k4f-lead-1", {"cell": "lead-1"}
    cluster.put(objects.made("Cell", name, {"mind": MIND}))
    cluster.put(body)
    return name


def test_report_of_a_failed_mission_of_an_agent_names_the_command_for_its_cell(
    terminal, agent_mission
):
    assert terminal.run("mission", "watch", "doctor-x2k4f") == ExitStatus.FAILED
    assert f"\nlogs: kais cell logs {agent_mission} -n demo\n" in terminal.out


@pytest.mark.parametrize("kind", ["mission", "instance"])
def test_logs_of_a_mission_of_an_agent_are_refused_with_the_command_for_its_cell(
    terminal, cluster, agent_mission, kind
):
    cluster.put(objects.instance(mission="doctor-x2k4f"))
    assert terminal.run(kind, "logs", "doctor-x2k4f") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Mission/demo/doctor-x2k4f has no pods of its own: it runs in those of"
        f" Cell/demo/{agent_mission}, which keeps running; see `kais cell logs {agent_mission}"
        " -n demo`\n"
    )


@pytest.mark.parametrize("spec", [{"mode": "Task", "mind": MIND}, {"container": {"image": "x:1"}}])
def test_mission_of_a_cell_that_works_as_a_task_has_logs_of_its_own(
    terminal, cluster, agent_mission, spec
):
    cluster.put(objects.made("Cell", agent_mission, spec))
    assert terminal.run("mission", "watch", "doctor-x2k4f") == ExitStatus.FAILED
    assert "\nlogs: kais mission logs doctor-x2k4f -n demo\n" in terminal.out


def test_report_of_a_mission_whose_cell_may_not_be_read_is_still_written(
    terminal, cluster, agent_mission, monkeypatch
):
    real = cluster.get

    def get(kind, *arguments):
        if kind == "Cell":
            raise errors.Refused("get Cell: forbidden")
        return real(kind, *arguments)

    monkeypatch.setattr(cluster, "get", get)
    assert terminal.run("mission", "watch", "doctor-x2k4f") == ExitStatus.FAILED
    assert "\nlogs: kais mission logs doctor-x2k4f -n demo\n" in terminal.out
