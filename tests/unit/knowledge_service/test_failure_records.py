"""What the extractor keeps of twenty records is what a person would keep."""

from __future__ import annotations

import pytest

from knowledge_client.models import Episode, Fact, Source
from knowledge_service.domain import episode_parsing, extraction
from tests.fakes.clock import START
from tests.knowledge_builders import TEAM
from tests.unit.knowledge_service.failure_records import RECORDS, FailureRecord
from tests.unit.knowledge_service.test_extraction import run


def episodes(record: FailureRecord) -> list[Episode]:
    matching_episodes = []
    for seq, (kind, content, *signature) in enumerate(record.lines, start=1):
        attempt, _, name = kind.rpartition(":")
        fact = {
            "attempt": int(attempt or 1), "type": name, "content": content, "seq": seq,
            "error_signature": signature[0] if signature else None, "run_id": "r", "actor": "a",
        }  # fmt: skip
        matching_episodes.append(Episode.model_validate(fact))
    return matching_episodes


def remembered(record: FailureRecord) -> list[Fact]:
    source = Source(type="explicit_remember")
    return [
        Fact(id="f", scope=TEAM, kind="pitfall", content=text, confidence=0.7, source=source,
             recorded_at=START)
        for text in record.remembered
    ]  # fmt: skip


def test_there_are_twenty_records() -> None:
    assert len({record.name for record in RECORDS}) == 20


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_facts_are_those_that_a_person_would_keep(record: FailureRecord) -> None:
    outcome = extraction.extract(
        run(record.outcome),
        episodes(record),
        dict.fromkeys(record.earlier, 1),
        remembered=remembered(record),
    )
    assert tuple(fact.content for fact in outcome.facts) == record.kept
    for fact in outcome.facts:
        assert all(episode_parsing.names_error(tag) for tag in fact.tags)


@pytest.mark.parametrize(
    "text",
    ["Running", "failed", "Error.", "exit code 1", "exited with code 137", "137", "", "---",
     "exit status 2", '{"failed": 3}', "[1, 2]"],
)  # fmt: skip
def test_states_codes_and_results_name_no_error(text: str) -> None:
    assert not episode_parsing.names_error(text)


@pytest.mark.parametrize(
    "text", ["OOMKilled", "E1234", "exit code 1: no rule to make target", "KeyError: 'region'"]
)
def test_names_of_errors_do(text: str) -> None:
    assert episode_parsing.names_error(text)
