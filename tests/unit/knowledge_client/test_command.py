import io
import json

import httpx
import pytest

from knowledge_client import __main__ as command

FACT = {
    "id": "f1", "scope": "realm:demo", "kind": "fact", "content": "the image\nis missing",
    "confidence": 0.5, "source": {"type": "mission_extraction"}, "rank": 1, "score": 2.0,
    "recorded_at": "2025-11-21T10:00:00Z",
}  # fmt: skip


@pytest.fixture(autouse=True)
def pod(monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_SERVICE_URL", "http://k")
    monkeypatch.delenv("KNOWLEDGE_TOKEN_FILE", raising=False)
    monkeypatch.setenv("KAIS_RUN_ID", "run-1")
    monkeypatch.setenv("KAIS_ATTEMPT", "2")
    monkeypatch.setenv("KAIS_MISSION", "doctor-x1")
    monkeypatch.setenv("CELL_NAMESPACE", "demo")


def run(answer, *arguments, status=200):
    sent = []

    def service(request):
        sent.append(json.loads(request.content))
        return httpx.Response(status, json=answer)

    stream, err = io.StringIO(), io.StringIO()
    code = command.main(
        arguments, stdout=stream, stderr=err, transport=httpx.MockTransport(service)
    )
    return code, stream.getvalue(), err.getvalue(), sent


def recalled(*facts):
    return {
        "receipt": "r1", "facts": facts, "scopes": ["realm:demo"], "ranker": "1",
        "known_at": "2025-11-21T10:00:00Z",
    }  # fmt: skip


def test_recall_prints_a_line_a_fact_and_names_the_run():
    code, output, err, sent = run(recalled(FACT), "recall", "image", "--limit", "3")

    assert (code, err) == (0, "")
    assert output == (
        "[f1 confidence=0.50 source=mission_extraction date=2025-11-21] the image is missing\n"
    )
    assert (sent[0]["run"], sent[0]["attempt"], sent[0]["limit"]) == ("run-1", 2, 3)


def test_recall_as_json_is_the_whole_answer():
    _, output, _, _ = run(recalled(FACT), "recall", "image", "-o", "json")

    assert json.loads(output)["receipt"] == "r1"


def test_recall_of_nothing_says_so():
    assert run(recalled(), "recall", "image")[1] == "no facts match\n"


def test_remember_prints_the_id_and_sends_where_it_comes_from():
    answer = {"fact_id": "f9", "status": "created"}
    code, output, _, sent = run(
        answer, "remember", "a fact", "--tag", "a", "--tag", "b", "--kind", "pitfall"
    )

    assert (code, output) == (0, "f9\n")
    assert sent[0]["tags"] == ["a", "b"]
    assert sent[0]["confidence"] == 0.7
    assert sent[0]["source"] == {
        "type": "explicit_remember",
        "refs": [{"type": "run", "id": "run-1"}, {"type": "mission", "id": "demo/doctor-x1"}],
    }
    assert sent[0]["run"] == "run-1"
    assert "scope" not in sent[0] or sent[0]["scope"] is None


def test_remember_mine_names_the_cells_own_scope():
    answer = {"fact_id": "f9", "status": "created"}
    code, _, _, sent = run(answer, "remember", "I reviewed the parser.", "--mine")

    assert (code, sent[0]["scope"]) == (0, "mine")


def test_an_episode_belongs_to_run_and_attempt():
    _, output, _, sent = run(
        {"accepted": 1, "duplicates": 0}, "episode", "error", "boom", "--signature", "S"
    )

    assert output == "recorded\n"
    assert sent[0]["run_id"] == "run-1"
    (episode,) = sent[0]["episodes"]
    assert (episode["attempt"], episode["type"]) == (2, "error")
    assert (episode["content"], episode["error_signature"]) == ("boom", "S")


def test_an_episode_outside_a_run_is_refused(monkeypatch):
    monkeypatch.delenv("KAIS_RUN_ID")
    code, _, err, _ = run({}, "episode", "error", "boom")

    assert code == 1
    assert "set KAIS_RUN_ID" in err


def test_correct_sends_the_reason():
    code, output, _, sent = run({"fact_id": "f1"}, "correct", "f1", "--reason", "moved")

    assert (code, output) == (0, "f1\n")
    assert sent[0] == {"reason": "moved"}


def test_a_refusal_is_one_line_and_status_1():
    answer = {"title": "t", "status": 404, "code": "not-found", "detail": "no such fact"}
    code, output, err, _ = run(answer, "correct", "f1", "--reason", "x", status=404)

    assert (code, output) == (1, "")
    assert err == "error: POST /v1/facts/f1:correct: 404 not-found: no such fact\n"


def test_a_value_out_of_bounds_is_status_2_and_named():
    code, _, err, sent = run({}, "remember", "x", "--confidence", "3")

    assert (code, sent) == (2, [])
    assert err.startswith("error: confidence: ")
    assert err.count("\n") == 1
