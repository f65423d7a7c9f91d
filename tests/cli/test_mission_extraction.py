"""`kais mission extract`: comparing what a model draws from a run with what was stored."""

import pytest

from knowledge_service.extraction import model_client
from tests.cli import objects

REPLAY = {
    "run_id": "r1",
    "model": "small",
    "facts": [
        {"content": "postgres listens on 6432", "kind": "fact", "confidence": 0.7,
         "comparison": "stored"},
        {"content": "the migration needs DATABASE_URL", "kind": "fact", "confidence": 0.6,
         "comparison": "new"},
        {"content": "the sky is green", "kind": "fact", "confidence": 0, "comparison": "left_out",
         "reason": "its episodes do not have most of its words"},
    ],
    "missing": ["the error OOMKilled recurs"],
    "input_tokens": 800, "output_tokens": 120, "cost": 0.00128,
}  # fmt: skip


def test_replayed_extraction_is_compared_with_what_was_stored(terminal, cluster, knowledge):
    cluster.put(objects.mission(runId="r1", outcome="Succeeded"))
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    knowledge.answers["POST /v1/extractions:replay"] = REPLAY
    assert terminal.run("mission", "extract", "doctor-x2k4f", "--replay", "--model", "small") == 0
    assert terminal.out.splitlines() == [
        "small on run r1; nothing was stored",
        "  = postgres listens on 6432",
        "  + the migration needs DATABASE_URL",
        "  x the sky is green  (its episodes do not have most of its words)",
        "  - the error OOMKilled recurs",
        "= stored, + new, - stored and not drawn again, x would be left out",
        "The calls took 800 input and 120 output tokens, and cost 0.0013 US dollars.",
    ]
    assert knowledge.sent() == {"run_id": "r1", "namespace": "demo", "model": "small"}
    # Two calls, each with a repair, of which each may stay silent until just before its end.
    longest_call_s = model_client.DEADLINE_S + model_client.TIMEOUT_S
    assert knowledge.requests[-1].extensions["timeout"]["read"] == 4 * longest_call_s == 720


def test_each_fact_of_a_replay_is_one_line(terminal, cluster, knowledge):
    cluster.put(objects.mission(runId="r1", outcome="Succeeded"))
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    forged = "the sky\n  = is\x1b[31m green"
    fact = REPLAY["facts"][2] | {"content": forged}
    knowledge.answers["POST /v1/extractions:replay"] = REPLAY | {
        "facts": [fact], "missing": [forged], "unverified": forged,
    }  # fmt: skip
    assert terminal.run("mission", "extract", "doctor-x2k4f", "--replay", "--model", "small") == 0
    line = "the sky = is\\u001b[31m green"
    assert terminal.out.splitlines()[1:4] == [
        f"  x {line}  (its episodes do not have most of its words)",
        f"  - {line}",
        f"Not verified by the model: {line}.",
    ]


def test_replay_says_why_facts_were_not_verified(terminal, cluster, knowledge):
    cluster.put(objects.mission(runId="r1", outcome="Succeeded"))
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    problem = "the endpoint of the model small answers 429"
    knowledge.answers["POST /v1/extractions:replay"] = REPLAY | {"unverified": problem}
    assert terminal.run("mission", "extract", "doctor-x2k4f", "--replay", "--model", "small") == 0
    assert f"Not verified by the model: {problem}." in terminal.out.splitlines()


def test_extraction_without_replay_is_refused(terminal, cluster):
    cluster.put(objects.mission(runId="r1", outcome="Succeeded"))
    assert terminal.run("mission", "extract", "doctor-x2k4f", "--model", "small") == 2
    assert "use --replay to compare models" in terminal.err


def test_run_that_has_not_ended_has_no_record_to_replay(terminal, cluster):
    cluster.put(objects.mission(runId="r1", outcome=None))
    assert terminal.run("mission", "extract", "doctor-x2k4f", "--replay", "--model", "m") != 0
    assert "has not ended, so there is no record to read" in terminal.err


@pytest.mark.parametrize("arguments", [("--as", "admin"), ()], ids=["option", "variable"])
def test_an_administrator_of_the_release_replays_a_run(
    terminal, cluster, knowledge, monkeypatch, arguments
):
    if not arguments:
        monkeypatch.setenv("KAIS_KNOWLEDGE_AS", "admin")
    cluster.put(objects.mission(runId="r1", outcome="Succeeded"))
    cluster.put(objects.knowledge_pod())
    admin = {"name": "kais-knowledge-admin", "namespace": "kais-system"}
    cluster.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": admin})
    knowledge.answers["POST /v1/extractions:replay"] = REPLAY
    replay = ("mission", "extract", "doctor-x2k4f", "--replay", "--model", "small")
    assert terminal.run(*replay, *arguments) == 0, terminal.err
    assert cluster.tokens == [("kais-system", "kais-knowledge-admin", "kais-knowledge")]
