from __future__ import annotations

from typing import Any

import pytest

from knowledge_client.models import Episode, Run
from knowledge_service.domain import extraction
from tests.fakes.clock import START
from tests.knowledge_builders import TEAM


def run(outcome: str = "Failed") -> Run:
    return Run.model_validate(
        {
            "run_id": "r",
            "namespace": "demo",
            "scope": TEAM,
            "outcome": outcome,
            "opened_at": START,
        }
    )


def record(*lines: tuple[str, str] | tuple[str, str, dict[str, Any]]) -> list[Episode]:
    return [
        Episode(
            type=line[0],  # type: ignore[arg-type]
            content=line[1],
            seq=seq,
            run_id="r",
            actor="a",
            **(line[2] if len(line) > 2 else {}),
        )
        for seq, line in enumerate(lines, start=1)
    ]


def contents(episodes: list[Episode], outcome: str = "Failed", **fields: Any) -> list[str]:
    extract = extraction.extract(run(outcome), episodes, fields.pop("earlier", {}), **fields)
    return [fact.content for fact in extract.facts]


OOM = {"error_signature": "OOMKilled"}


def test_failed_check_becomes_a_pitfall_with_its_message() -> None:
    episodes = record(
        ("check", "check build failed: exit code 2: no rule to make target"),
        ("check", "check lint passed"),
    )
    (fact,) = extraction.extract(run(), episodes, {}).facts
    assert fact.content == "The check build fails with: exit code 2: no rule to make target"
    assert (fact.kind, fact.tags, fact.episodes) == ("pitfall", ("check", "build"), (1,))


@pytest.mark.parametrize(
    "content",
    [
        "check build failed: no target",
        "Check 'build' Failed - no target",
        "check build error: no target",
        "check build: failed no target",
    ],
)
def test_spellings_of_a_failed_check_are_read(content: str) -> None:
    assert contents(record(("check", content))) == ["The check build fails with: no target"]


def test_check_in_other_words_counts_by_its_signature() -> None:
    episodes = record(("check", "tests: 3 of 80 red", {"error_signature": "test-failures"}))
    assert contents(episodes) == ["The check test-failures fails with: tests: 3 of 80 red"]


def test_signature_that_recurs_in_the_run_becomes_a_pitfall() -> None:
    episodes = record(("error", "pod a was killed", OOM), ("error", "pod b was killed", OOM))
    (fact,) = extraction.extract(run(), episodes, {}).facts
    assert fact.content == "The error OOMKilled recurs, seen as: pod a was killed"
    assert fact.title == "OOMKilled recurs (seen 2 times when first noted)"
    assert (fact.subject, fact.episodes) == ("OOMKilled", (1, 2))


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "OOMKilled: pod a was killed, raise its limit",
            "The error OOMKilled recurs, seen as: pod a was killed, raise its limit",
        ),
        ("pod a is OOMKilled", "This error recurs: pod a is OOMKilled"),
        ("OOMKilled", "The error OOMKilled recurs"),
        ("OOMKilledTwice", "This error recurs: OOMKilledTwice"),
    ],
)
def test_sentence_names_a_signature_once(message: str, sentence: str) -> None:
    assert contents(record(("error", message, OOM), ("error", message, OOM))) == [sentence]


def test_signature_seen_once_proves_nothing_unless_an_earlier_run_had_it() -> None:
    episodes = record(("error", "pod a was killed", OOM))
    assert contents(episodes) == []
    assert len(contents(episodes, earlier={"OOMKilled": 1})) == 1


def test_change_before_a_success_becomes_a_pattern() -> None:
    episodes = record(
        ("error", "the build needs Java 21"),
        ("decision", "set JAVA_HOME to 21", {"attempt": 2}),
        ("message", "built", {"attempt": 2}),
    )
    assert contents(episodes, "Succeeded") == [
        "After the failure 'the build needs Java 21' this helped: set JAVA_HOME to 21"
    ]
    assert contents(episodes, "Failed") == []


def test_feedback_of_a_review_counts_as_the_change() -> None:
    episodes = record(
        ("check", "check report failed: no title"),
        ("message", "Feedback: give the report a title"),
        ("message", "done", {"attempt": 2}),
    )
    matching_contents = contents(episodes, "Succeeded")
    assert matching_contents[0] == (
        "After the failure 'check report: no title' this helped: Feedback: give the report a title"
    )


def test_success_without_failure_is_not_padded() -> None:
    episodes = record(("message", "looked around"), ("decision", "do it"))
    outcome = extraction.extract(run("Succeeded"), episodes, {})
    assert outcome.facts == ()
    assert outcome.reason == (
        "the record of 2 episodes proves nothing to keep: no check failed, no error recurred,"
        " and no change came before a success"
    )


def test_run_without_episodes_says_so() -> None:
    outcome = extraction.extract(run(), [], {})
    assert outcome.reason == "the run left no episodes, so its record proves nothing"


def test_limit_is_kept_and_said() -> None:
    episodes = record(*(("check", f"check c{name} failed: {name}") for name in "abcdefghij"))
    assert len(contents(episodes)) == 7
    outcome = extraction.extract(run(), episodes, {}, limit=2)
    assert len(outcome.facts) == 2
    assert outcome.reason == "the record proves 10 reusable facts, 2 were asked for"


def test_what_varies_between_runs_does_not_make_another_fact() -> None:
    outcome = extraction.extract(run(), record(("check", "check c failed: pid 4711 died")), {})
    two = extraction.extract(run(), record(("check", "check c failed: pid 12 died")), {})
    assert outcome.facts[0].subject == two.facts[0].subject


def test_excluded_outcomes_still_give_what_the_record_proves() -> None:
    episodes = record(("check", "check build failed: no target"))
    assert len(contents(episodes, "InfrastructureFailed")) == 1
