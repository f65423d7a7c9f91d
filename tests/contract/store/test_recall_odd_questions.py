"""Recall of questions that have much, little or nothing to search for, and of equal facts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge_client.models import RecalledFact, RecallIn
from knowledge_service.domain.principals import Principal
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import PERSON, TEAM, new_fact

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
READER = Principal("ada", "human", TEAM)
CONTENTS = (
    "The registry mirror keeps layers for fourteen days",
    "Die Datenbank wird jede Nacht gesichert",
    "データベースは毎晩バックアップされる",
    "Резервная копия базы делается ночью",
    "deploys stop on Friday",
)
Store = MemoryStore | SqliteStore


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    earlier = NOW - timedelta(hours=1)
    opened: Store = (
        MemoryStore(lambda: earlier)
        if request.param == "fake"
        else SqliteStore(tmp_path / "knowledge.db", lambda: earlier)
    )
    opened.remember([new_fact(content) for content in CONTENTS], actor=PERSON)
    yield opened
    opened.close()


def ask(store: Store, question: str, limit: int = 10) -> tuple[RecalledFact, ...]:
    body = RecallIn(query=question, limit=limit)
    return recall.recall(store, READER, body, now=NOW, idempotency_key=None).facts


QUESTIONS = {
    "one word": ("mirror", CONTENTS[0]),
    "another language": ("Wann wird die Datenbank gesichert?", CONTENTS[1]),
    "a script without spaces": ("バックアップ", CONTENTS[2]),
    "another script": ("когда делается резервная копия", CONTENTS[3]),
    "8,192 characters": (("why " * 2048)[:8177] + "registry mirror", CONTENTS[0]),
}


@pytest.mark.parametrize(("question", "content"), QUESTIONS.values(), ids=QUESTIONS)
def test_fact_with_the_words_of_the_question_stands_first(
    store: Store, question: str, content: str
) -> None:
    assert len(question) <= 8192
    assert ask(store, question)[0].content == content


@pytest.mark.parametrize("question", ["what is it", "the", "?!", "..."])
def test_question_of_stop_words_only_matches_nothing(store: Store, question: str) -> None:
    assert ask(store, question) == ()


def test_question_of_thousands_of_different_words_is_answered(store: Store) -> None:
    question = " ".join(f"w{number}" for number in range(1300)) + " mirror"
    assert [fact.content for fact in ask(store, question[:8192])] == [CONTENTS[0]]


def test_equal_facts_come_in_the_order_of_their_ids(store: Store) -> None:
    scope = f"{TEAM}/cell:equal"
    names = ("zqav", "zqbv", "zqcv", "zqdv", "zqev")  # no word vector tells them apart
    store.remember(
        [new_fact(f"{name} socket failed twice", scope=scope) for name in names], actor=PERSON
    )
    reader = Principal("ada", "human", scope)
    body = RecallIn(query="socket failed", limit=10, scopes=(scope,))
    facts = recall.recall(store, reader, body, now=NOW, idempotency_key=None).facts
    assert len({fact.score for fact in facts}) == 1
    assert [fact.id for fact in facts] == sorted(fact.id for fact in facts)
    assert facts
