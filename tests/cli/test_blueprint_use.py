import json

import httpx
import pytest

from kais_cli.exit_status import ExitStatus
from kais_cli.ports import Change
from tests.cli import objects

USE = ("blueprint", "use", "doctor", "--set", "who=bob")
PULL = 'Failed to pull image "127.0.0.1:1/missing:1": connection refused'


@pytest.fixture(autouse=True)
def served(cluster, knowledge):
    for body in (
        objects.blueprint(), objects.revision(), objects.knowledge_pod(), objects.account(),
    ):  # fmt: skip
        cluster.put(body)
    cluster.script = [objects.ended()]
    knowledge.answers["GET /v1/facts"] = {"facts": []}


def run_facts(knowledge):
    receipt = {
        "id": "rc1", "query_hash": "h", "principal": "p", "scopes": [], "known_at": objects.AT,
        "ranker": "1", "analyser": "1", "facts": ["f1", "gone"], "scores": [2.0, 1.0],
    }  # fmt: skip
    own_source = {"type": "explicit_remember", "refs": [{"type": "run", "id": "run-1"}]}
    run = {
        "run_id": "run-1", "namespace": "demo", "scope": "realm:demo/formation:doctor",
        "opened_at": objects.AT, "outcome": "Succeeded", "remembered": ["f3"],
    }  # fmt: skip
    knowledge.answers |= {
        "GET /v1/receipts/rc1": receipt,
        "GET /v1/facts/f1": objects.fact("f1", "the registry\nis down"),
        "GET /v1/extractions/run-1": {"run_id": "run-1", "state": "done", "facts": ["f2"]},
        "GET /v1/facts/f2": objects.fact("f2", "pods fail on Mondays"),
        "GET /v1/runs/run-1": run,
        "GET /v1/facts/f3": objects.fact("f3", "bob knows", source=own_source),
    }


def test_a_piped_use_tells_its_way_in_lines(terminal, cluster):
    pulling = objects.condition("Started", "False", "ImagePullFailed", PULL)
    cluster.script = [
        objects.instance(phase="Pending"),
        objects.instance(phase="Running"),
        objects.mission(phase="Pending", conditions=[pulling]),
        objects.mission(phase="Running", attempt=1),
        objects.mission(phase="Running", attempt=2),
        objects.ended(attempt=2, result="all is well"),
    ]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert terminal.out.splitlines()[:6] == [
        "doctor-x2k4f created in demo from doctor, revision 2",
        f"Mission Started: ImagePullFailed: {PULL}",
        "attempt 1/3 started",
        "attempt 2/3 started",
        "doctor-x2k4f: Succeeded after 12s, attempt 2/3",
        "result:",
    ]
    assert "\x1b" not in terminal.out


def test_recalled_and_learnt_facts_are_printed_with_their_ids(terminal, cluster, knowledge):
    run_facts(knowledge)
    cluster.script = [objects.ended(knowledge={"receipt": "rc1", "injected": 1})]
    terminal.run(*USE)
    assert terminal.out.endswith(
        "recalled (receipt rc1): 1 fact\n"
        "  f1  mission_extraction 0.60  the registry is down\n"
        "learnt: 2 facts\n"
        "  f3  explicit_remember 0.60  bob knows\n"
        "  f2  mission_extraction 0.60  pods fail on Mondays\n"
    )


def test_a_result_in_json_is_laid_out(terminal, cluster):
    cluster.script = [objects.ended(result='{"pods": ["a"]}')]
    terminal.run(*USE)
    assert "result:\n  pods: a\n" in terminal.out


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("Succeeded", 0), ("Failed", 1), ("TimedOut", 3), ("InfrastructureFailed", 4),
        ("Cancelled", 5), ("BudgetExceeded", 6),
    ],
)  # fmt: skip
def test_the_exit_status_is_that_of_the_outcome(terminal, cluster, outcome, status):
    cluster.script = [objects.ended(outcome)]
    assert terminal.run(*USE) == status
    assert f"doctor-x2k4f: {outcome}" in terminal.out


def test_facts_that_come_late_are_waited_for(terminal, cluster, knowledge):
    pending = [objects.condition("KnowledgeExtracted", "False", "ExtractionPending")]
    cluster.script = [objects.ended(conditions=pending), None, None, objects.ended()]
    terminal.run(*USE)
    assert cluster.script[3] in cluster.list("Mission", "demo")


def test_facts_that_never_come_hold_nobody_up(terminal, cluster):
    pending = [objects.condition("KnowledgeExtracted", "False", "ExtractionPending")]
    cluster.script = [objects.ended(conditions=pending)]
    started_at = cluster.now
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert (cluster.now - started_at).total_seconds() < 25


def test_a_service_that_is_away_spoils_no_outcome(terminal, knowledge):
    refusal = httpx.Response(500, content=b"boom")
    knowledge.answers["GET /v1/runs/run-1"] = refusal
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert terminal.err.startswith(
        "warning: the facts of the run are not shown: the forwarded port "
    )
    assert terminal.err.endswith("GET /v1/runs/run-1: 500 'boom'\n")


def test_a_run_that_takes_too_long_goes_on_without_us(terminal, cluster):
    cluster.script = [objects.mission(phase="Running", attempt=1)]
    assert terminal.run(*USE, "--timeout", "5s") == ExitStatus.TIMED_OUT
    assert "has not ended after 5 s and is still running" in terminal.err
    assert "`kais mission watch doctor-x2k4f -n demo`" in terminal.err


def test_ctrl_c_that_a_library_turns_into_its_own_error_is_an_interrupt(
    terminal, cluster, monkeypatch
):
    def watch(targets):
        terminal.is_interrupted = True
        raise RuntimeError("SchemaError: KeyboardInterrupt: ")

    monkeypatch.setattr(cluster, "watch", watch)
    assert terminal.run(*USE) == ExitStatus.INTERRUPTED
    assert terminal.err.startswith("error: Mission/demo/doctor-x2k4f continues; follow it again")


def test_a_run_whose_attempt_does_not_start_says_when_it_ends(terminal, cluster):
    pulling = objects.condition("Started", "False", "ImagePullFailed", PULL)
    started = {"attempt": 1, "startedAt": "2030-01-01T00:00:05Z", "conditions": [pulling]}
    cluster.script = [objects.mission(phase="Running", **started), objects.ended()]
    terminal.run(*USE)
    lines = terminal.out.splitlines()
    position = lines.index(f"Mission Started: ImagePullFailed: {PULL}")
    assert lines[position + 1] == (
        "the attempt waits until 2030-01-01 00:05:05 UTC for that, then the run ends"
    )


def test_an_interrupted_run_continues_and_the_message_says_how_to_follow_or_end_it(
    terminal, cluster, monkeypatch
):
    def watch(targets):
        yield Change(targets[-1], objects.mission(phase="Running", attempt=1))
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "watch", watch)
    assert terminal.run(*USE) == ExitStatus.INTERRUPTED
    assert terminal.err == (
        "error: Mission/demo/doctor-x2k4f continues; follow it again with `kais mission watch"
        " doctor-x2k4f -n demo`, or end it with `kais mission abort doctor-x2k4f -n demo`\n"
    )


def test_a_run_that_failed_names_the_reason_and_the_command_for_its_logs(terminal, cluster):
    message = "attempt 1 of 1 failed: the task ended with exit code 3: boom"
    cluster.script = [objects.ended("Failed", message=f"Failed: {message}")]
    assert terminal.run(*USE) == ExitStatus.FAILED
    assert f"\nreason: {message}\nlogs: kais mission logs doctor-x2k4f -n demo\n" in terminal.out


def test_reason_does_not_repeat_a_result_of_json(terminal, cluster):
    result = '{"verdict": "changes requested", "findings": 5}'
    message = "attempt 1 of 1 failed: the task ended with exit code 1"
    body = objects.ended("Failed", message=f"Failed: {message}: {result}", result=f"{result}\n")
    cluster.script = [body]
    assert terminal.run(*USE) == ExitStatus.FAILED
    assert f"\nreason: {message}\nlogs: " in terminal.out
    assert "\n  verdict: changes requested\n" in terminal.out


def test_a_name_that_is_taken_is_answered_with_what_has_it(terminal, cluster):
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    (created,) = cluster.created
    created["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
    cluster.put(created)
    assert terminal.run(*USE, "--name", created["metadata"]["name"]) == ExitStatus.FAILED
    assert terminal.err == (
        "error: BlueprintInstance/demo/doctor-x2k4f exists already, created 2030-01-01 00:00 UTC,"
        " without an outcome yet; `kais instance delete doctor-x2k4f -n demo` deletes it and keeps"
        " its facts, or leave --name out\n"
    )


def test_silence_names_the_operator(terminal, cluster):
    cluster.script = []
    terminal.run(*USE, "--timeout", "40s")
    assert "no progress for 30 s; check that the operator runs" in terminal.out


def test_a_timeout_that_is_none_is_a_usage_error_before_anything_is_created(terminal, cluster):
    assert terminal.run(*USE, "--timeout", "soon") == ExitStatus.USAGE
    assert cluster.created == []


def test_a_name_that_is_taken_is_refused(terminal, cluster):
    cluster.put(objects.instance("mine"))
    assert terminal.run(*USE, "--name", "mine") == ExitStatus.FAILED
    assert "BlueprintInstance/demo/mine exists already" in terminal.err


def test_a_template_that_fails_ends_the_wait_with_its_words(terminal, cluster):
    failed = objects.condition("Rendered", "False", "RenderFailed", "mission.objective: no")
    cluster.script = [objects.instance(phase="Failed", conditions=[failed])]
    assert terminal.run(*USE) == ExitStatus.FAILED
    assert "BlueprintInstance Rendered: RenderFailed: mission.objective: no" in terminal.out
    assert "cannot run as it is" in terminal.out


def test_a_use_without_a_mission_ends_when_its_cells_are_ready(terminal, cluster):
    conditions = [
        objects.condition("CellsReady", "True", "CellsReady"),
        objects.condition("MissionFinished", "False", "NoMission"),
    ]
    cluster.script = [objects.instance(phase="Running", conditions=conditions)]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert "doctor-x2k4f: ready, without a mission" in terminal.out


def test_a_use_that_is_deleted_meanwhile_counts_as_cancelled(terminal, cluster):
    cluster.script = [
        objects.instance(phase="Pending"),
        ("BlueprintInstance", "doctor-x2k4f"),
    ]
    assert terminal.run(*USE) == ExitStatus.CANCELLED
    assert "deleted while it was followed" in terminal.out


def test_json_is_one_document_and_progress_is_beside_it(terminal, cluster, knowledge):
    run_facts(knowledge)
    cluster.script = [
        objects.mission(phase="Running", attempt=1),
        objects.ended(result="ok", knowledge={"receipt": "rc1"}),
    ]
    terminal.run(*USE, "-o", "json")
    report = json.loads(terminal.out)
    assert (report["outcome"], report["result"], report["runId"]) == ("Succeeded", "ok", "run-1")
    assert [fact["id"] for fact in report["knowledge"]["learnt"]] == ["f3", "f2"]
    assert "attempt 1/3 started" in terminal.err


USAGE = {"turns": 4, "toolCalls": 1, "tokens": {"input": 2900, "output": 180}, "cost": 0.00362}


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (
            {**USAGE, "display": {"cost": "$0.0036"}},
            "agent: 4 turns, 1 tool call, 2,900 tokens in, 180 out, $0.0036\n",
        ),
        (
            {"turns": 1, "display": {"cost": "?"}},
            "agent: 1 turn, 0 tool calls, cost unknown\n",
        ),
    ],
    ids=["a known price", "no known price"],
)
def test_a_run_of_a_mind_ends_with_what_its_model_used(terminal, cluster, status, line):
    cluster.script = [objects.ended(result="ok", **status)]
    terminal.run(*USE)
    assert line in terminal.out


def test_json_has_what_the_model_of_a_run_used(terminal, cluster):
    cluster.script = [objects.ended(result="ok", **USAGE)]
    terminal.run(*USE, "-o", "json")
    assert json.loads(terminal.out)["usage"] == USAGE


def test_names_alone_are_for_pipes(terminal):
    terminal.run(*USE, "-o", "name")
    assert terminal.out == "mission.kais.io/doctor-x2k4f\n"


def test_a_terminal_shows_a_live_line(terminal, cluster):
    terminal.is_terminal = True
    cluster.script = [objects.mission(phase="Running", attempt=1), None, objects.ended()]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert "Running, attempt 1/3, " in terminal.out
    assert "doctor-x2k4f: Succeeded" in terminal.out


def test_on_a_terminal_the_report_is_wrapped_to_its_width(terminal, cluster, knowledge):
    run_facts(knowledge)
    terminal.is_terminal = True
    terminal.width = 40
    result = '{"summary": "two of the six pods in namespace demo fail"}'
    cluster.script = [objects.ended(result=result, knowledge={"receipt": "rc1", "injected": 1})]
    terminal.run(*USE)
    assert terminal.out.endswith(
        "doctor-x2k4f: Succeeded after 12s, attempt 1/3\n"
        "\n"
        "result:\n"
        "  summary: two of the six pods in\n"
        "    namespace demo fail\n"
        "\n"
        "recalled (receipt rc1): 1 fact\n"
        "  f1  mission_extraction 0.60\n"
        "    the registry is down\n"
        "\n"
        "learnt: 2 facts\n"
        "  f3  explicit_remember 0.60\n"
        "    bob knows\n"
        "  f2  mission_extraction 0.60\n"
        "    pods fail on Mondays\n"
    )


def test_the_run_and_its_extraction_are_those_of_the_namespace(terminal, cluster, knowledge):
    run_facts(knowledge)
    cluster.script = [objects.ended(knowledge={"receipt": "rc1", "injected": 1})]
    terminal.run(*USE)
    assert "bob knows" in terminal.out
    for path in ("/v1/runs/", "/v1/extractions/"):
        (request,) = [item for item in knowledge.requests if item.url.path.startswith(path)]
        assert request.url.params["namespace"] == "demo"


def test_nothing_that_a_cell_says_steers_the_terminal(terminal, cluster, knowledge):
    run_facts(knowledge)
    hostile = "gone\x1b[2J\x9b2J"
    knowledge.answers["GET /v1/facts/f2"] = objects.fact("f2", hostile)
    pulling = objects.condition("Started", "False", "ImagePullFailed", hostile)
    cluster.script = [
        objects.mission(phase="Pending", conditions=[pulling]),
        objects.ended(result=hostile),
    ]
    terminal.run(*USE)
    assert terminal.out.count("gone\\u001b[2J\\u009b2J") == 3
    assert not {"\x1b", "\x9b"} & set(terminal.out)
    terminal.run(*USE, "--name", "again", "-o", "json")
    assert "\x9b" not in terminal.out
