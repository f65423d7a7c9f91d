"""The team's program: developers over real HTTP, the lead that asks them, what is remembered."""

import functools
import json
import threading

import pytest

from code_review_team import __main__ as program
from code_review_team import aspects, developer, lead, memory
from code_review_team.findings import SourceFile
from knowledge_client import errors, models

BAD = SourceFile(
    "app/orders.py",
    "from os import *\n"
    "PASSWORD = 'hunter2'\n"
    "def total(orders=[]):\n"
    "    try:\n"
    "        return eval('+'.join(orders))\n"
    "    except ValueError:\n"
    "        pass\n",
)
GOOD = SourceFile("app/sums.py", 'def add(a, b):\n    """Add."""\n    return a + b\n')


@pytest.fixture
def team():
    """Two developers on ports of their own; yields the address of each."""
    servers = {name: developer.server(name, port=0) for name in ("style", "safety")}
    threads = [
        threading.Thread(target=threading_httpserver.serve_forever)
        for threading_httpserver in servers.values()
    ]
    for thread in threads:
        thread.start()
    yield {
        f"{name}-0": f"http://127.0.0.1:{threading_httpserver.server_address[1]}/review"
        for name, threading_httpserver in servers.items()
    }
    for threading_httpserver in servers.values():
        threading_httpserver.shutdown()
        threading_httpserver.server_close()


def rules(aspect, source):
    return [finding.rule for finding in aspects.review(aspect, source)]


def test_style_sees_shared_defaults_star_imports_and_missing_docstrings():
    assert rules("style", BAD) == ["star-import", "mutable-default", "no-docstring"]


def test_safety_sees_text_that_runs_secrets_and_errors_that_vanish():
    assert rules("safety", BAD) == ["secret", "runs-text", "error-vanishes"]


def test_tests_sees_a_test_that_cannot_fail():
    empty = SourceFile("test_a.py", "def test_nothing():\n    total([])\n")
    (finding,) = aspects.review("tests", empty)
    assert str(finding) == (
        "test_a.py:1: [tests/no-assert] test_nothing asserts nothing, so it cannot fail"
    )


@pytest.mark.parametrize("aspect", sorted(aspects.ASPECTS))
def test_a_good_file_has_no_findings(aspect):
    assert aspects.review(aspect, GOOD) == []


@pytest.mark.parametrize("text", ["def (", "\0", "(" * 10_000], ids=["syntax", "null", "deep"])
def test_what_does_not_parse_is_a_finding(text):
    (finding,) = aspects.review("style", SourceFile("a.py", text))
    assert finding.message.startswith("does not parse: ")


def test_the_lead_collects_what_all_developers_found(team):
    review = lead.collect_reviews(team, [BAD, GOOD], language="python", post=lead.post)
    assert [(finding.line, finding.rule) for finding in review.findings] == [
        (1, "star-import"),
        (2, "secret"),
        (3, "mutable-default"),
        (3, "no-docstring"),
        (5, "runs-text"),
        (6, "error-vanishes"),
    ]
    assert review.is_serious
    assert review.notes == ()


def test_a_developer_that_is_away_is_a_note(team):
    deleted_fields = {"tests-0": "http://127.0.0.1:9/review"}
    first_partial = functools.partial(lead.post, retries=0)
    review = lead.collect_reviews(
        deleted_fields | team, [BAD], language="python", post=first_partial
    )
    assert len(review.findings) == 6
    assert review.notes[0].startswith("tests-0 gave no review: ")


def test_another_language_is_said_by_each_developer(team):
    review = lead.collect_reviews(team, [BAD], language="cobol", post=lead.post)
    assert review.findings == ()
    assert review.notes == (
        "safety reads python only, not cobol",
        "style reads python only, not cobol",
    )


def test_a_request_of_another_shape_is_refused_in_words(team):
    with pytest.raises(ValueError, match="expected language and files with path and text"):
        developer.review_files("style", {"files": "all"})


def test_an_unknown_aspect_ends_the_developer_with_the_known_ones(capsys):
    assert program.main(["developer", "beauty"], {}) == 2
    assert capsys.readouterr().err == (
        "no developer looks at beauty; known: style, safety, tests\n"
    )


def test_the_lead_talks_only_to_the_peers_that_the_topology_names(tmp_path):
    routes = tmp_path / "routes.json"
    routes.write_text(json.dumps({"lead-0": ["style-0"], "style-0": ["lead-0"]}))
    names = lead.peers(routes, "lead-0")
    assert lead.addresses("pr-7", names) == {"style-0": "http://pr-7-style-0:8080/review"}
    assert lead.peers(routes, "safety-0") == ()


def test_a_known_habit_is_named_and_not_remembered_again():
    (first, *_) = aspects.review("safety", BAD)
    known_value = memory.KnownFacts(
        {"f1": f"{memory.describe_habit(first)}: PASSWORD holds a secret"}
    )
    assert known_value.ids_about(first) == ["f1"]
    facts = memory.new_facts(aspects.review("safety", BAD), known_value, run_id="r", attempt=1)
    assert [fact.subject for fact in facts] == [
        "app/orders.py safety/runs-text",
        "app/orders.py safety/error-vanishes",
    ]


def test_remembering_stops_with_words_when_the_store_is_away():
    class Away:
        def remember(self, fact: models.FactIn) -> models.Remembered:
            raise errors.KnowledgeUnavailable("connection refused")

    facts = memory.new_facts(
        aspects.review("safety", BAD), memory.KnownFacts({}), run_id=None, attempt=1
    )
    stored, note = memory.remember(Away(), facts)
    assert stored == []
    assert note == "not everything was remembered: connection refused"


def lead_environment(tmp_path, **changes):
    routes = tmp_path / "routes.json"
    routes.write_text("{}")
    return {
        "REVIEW_FILES": json.dumps([{"path": "a.py", "text": GOOD.text}]),
        "REVIEW_LANGUAGE": "python",
        "REVIEW_RESULT_FILE": str(tmp_path / "result"),
        "CELL_NAME": "lead-0",
        "KAIS_FORMATION": "pr-7",
        "KAIS_PEERS_FILE": str(routes),
    } | changes


def test_a_lead_without_peers_fails_and_says_why(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("KNOWLEDGE_SERVICE_URL", raising=False)
    assert program.main(["lead", "--no-strict"], lead_environment(tmp_path)) == 1
    assert "the topology names no peer of this cell" in capsys.readouterr().err
    result = json.loads((tmp_path / "result").read_text())
    assert result["verdict"] == "approved"
    assert result["notes"][0].startswith("nothing was remembered: ")
