"""Without conversations, no score depends on speakers, turns or sessions: sentence and case."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge_service.search import ranker_version
from knowledge_service.search.pipeline import DEFAULT_CONFIG, RankerConfig
from knowledge_service.search.query import parser
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.near_duplicates import Deduplicator
from knowledge_service.search.ranking.ranking import Evidence
from tests.unit.knowledge_service.search.candidate_rows import NOW, candidate, microseconds

MAY_7 = microseconds(datetime(2023, 5, 7, tzinfo=UTC))
SESSION = '["session_3"]'
RUN = '{"refs":[{"id":"nightly","type":"run"}]}'


def parts_of_second(
    question: str, contents: tuple[str, str], columns: dict[str, object], *, use_conversations: bool
) -> dict[str, float]:
    rows = {
        number: candidate(content, number)._replace(**columns)
        for number, content in enumerate(contents, 1)
    }
    evidence = Evidence(rows, {1: 2.0, 2: 1.0}, ordinals={1: 7, 2: 8})
    ranked = ranking.rank(
        parser.parse(question, NOW), evidence, NOW, size=48, use_conversations=use_conversations
    )
    return next(result.parts for result in ranked if result.number == 2)


STATEMENTS = ("Anna: the cache of the builder broke it", "Bruno: the builder is old, they told me")
FEATURES = {
    "neighbouring turns": ("why?", STATEMENTS, {"tags_json": SESSION}, {"context"}),
    "facts of one run": (
        "why?", ("the cache broke", "it is old"), {"source_json": RUN}, {"context"}
    ),
    "facts about one entity": (
        "why?", ("the cache broke", "it is old"), {"about": "builder"}, {"context"}
    ),
    "speakers": ("What did Anna do?", STATEMENTS, {}, {"context", "x_speaker"}),
    "a name as title": (
        "What did Anna do?", ("it broke", "it works"), {"title": "Anna"}, {"x_speaker"}
    ),
    "a time in a turn": (
        "When did it break?", ("Anna: it broke.", "Bruno: the builder broke again last week"),
        {"tags_json": SESSION}, {"context", "x_when"},
    ),
    "a turn of few words": (
        "why?", ("Anna: it broke.", "Bruno: oh no."), {"tags_json": SESSION},
        {"context", "x_short"},
    ),
    "the day before the words of a speaker": (
        "what broke on 7 May 2023?",
        ("[7 May 2023] Anna: the builder broke", "[7 May 2023] Bruno: so did the cache of the pod"),
        {}, {"context", "x_date"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("question", "contents", "columns", "features"), FEATURES.values(), ids=FEATURES
)
def test_conversation_features_are_left_out(
    question: str, contents: tuple[str, str], columns: dict[str, object], features: set[str]
) -> None:
    parts = parts_of_second(question, contents, columns, use_conversations=True)
    other_parts = parts_of_second(question, contents, columns, use_conversations=False)
    assert features <= parts.keys()
    # A turn counts as any fact then, and so has a part of word vectors.
    assert other_parts == {
        part: value
        for part, value in parts.items()
        if part not in ("context", "x_speaker", "x_short") and part not in features
    } | {part: value for part, value in other_parts.items() if part == "word_vectors"}


def test_conversations_that_were_grouped_before_are_left_out() -> None:
    rows = {1: candidate("Anna: it broke", tags_json=SESSION)}
    evidence = Evidence(rows, {1: 1.0}, conversations={1: (1, "tag", "session_3")})
    (result,) = ranking.rank(
        parser.parse("broke", NOW), evidence, NOW, size=1, use_conversations=False
    )
    assert result.parts.keys() == {"bm25", "word_vectors", "x_recency"}


OTHER_FEATURES = {
    "the expected answer type": ("how many pods?", {"content": "12"}, "x_wanted"),
    "the day of a fact": ("what broke on 7 May 2023?", {"valid_from_us": MAY_7}, "x_date"),
    "confidence": ("why?", {"confidence": 1.0}, "x_confidence"),
    "phrases": ("checkout timeout", {"content": "checkout timeout"}, "x_phrase"),
}


@pytest.mark.parametrize(
    ("question", "columns", "part"), OTHER_FEATURES.values(), ids=OTHER_FEATURES
)
def test_features_of_plain_facts_stay(question: str, columns: dict[str, object], part: str) -> None:
    row = candidate()._replace(**columns)
    results = [
        ranking.rank(
            parser.parse(question, NOW), Evidence({1: row}, {1: 1.0}), NOW,
            size=1, use_conversations=use_conversations,
        )
        for use_conversations in (True, False)
    ]  # fmt: skip
    assert part in results[0][0].parts
    assert results[0] == results[1]


SAME_WORDS = {
    "two speakers": ({"data_json": '{"speaker":"Anna"}'}, {"data_json": '{"speaker":"Bruno"}'}),
    "two sessions": ({"tags_json": '["session_1"]'}, {"tags_json": '["session_2"]'}),
}


@pytest.mark.parametrize(("columns", "other_columns"), SAME_WORDS.values(), ids=SAME_WORDS)
def test_equal_texts_are_duplicates_whoever_says_them(
    columns: dict[str, object], other_columns: dict[str, object]
) -> None:
    rows: list[Candidate] = [
        candidate("the limit of the queue is low", number)._replace(**changes)
        for number, changes in enumerate((columns, other_columns), 1)
    ]
    for use_conversations, duplicates in ((True, [None, None]), (False, [None, 1])):
        deduplicator = Deduplicator({1: "realm:demo"}, use_conversations=use_conversations)
        assert [deduplicator.duplicate_of(row) for row in rows] == duplicates


def test_the_name_of_the_ranker_says_that_conversations_are_off() -> None:
    assert ranker_version.version_of(DEFAULT_CONFIG) == ranker_version.RANKER
    version = ranker_version.version_of(RankerConfig(use_conversations=False))
    assert version == f"{ranker_version.RANKER}-no-conversations"
