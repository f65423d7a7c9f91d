from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.domain import conversation_metadata, fact_text
from knowledge_service.domain.conversation_metadata import TurnMetadata
from knowledge_service.search.ranking import near_duplicates
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import (
    grouping,
    speakers,
    turn_content,
    turn_order,
)
from knowledge_service.search.text.dates import Moment
from tests.knowledge_builders import new_fact

DAY_US = 86_400_000_000
MAY_US = int(datetime(2023, 5, 8, 13, 56, tzinfo=UTC).timestamp()) * 1_000_000


def row(content: str = "hello", number: int = 1, **fields: object) -> Candidate:
    data = fields.pop("data", None)
    empty = Candidate(
        number, 1, "fact", None, content, "[]", None, None, None, None, "{}", 0.5, "live", "none",
        None, None, None, 0, None, data_json=None if data is None else json.dumps(data),
    )  # fmt: skip
    return empty._replace(**fields)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"speaker": "Anna", "session": 3, "dia_id": "D3:1"},
            TurnMetadata("Anna", "session=3", "D3:1"),
        ),
        (
            {"author_name": "Anna", "Timestamp": "8 May, 2023"},
            TurnMetadata("Anna", time_text="8 May, 2023", is_author=True),
        ),
        ({"sender": "Anna", "conversation_id": "c-7"}, TurnMetadata("Anna", "conversation_id=c-7")),
        ({"speaker": "x" * 101, "session": True, "turn": None}, TurnMetadata()),
        ({"image": "shop:1.2", "replicas": 3, "name": "shop"}, TurnMetadata()),
        ({"turn": 10**40}, TurnMetadata()),
        ('{"speaker": "Anna"}', TurnMetadata()),
        (None, TurnMetadata()),
    ],
)
def test_data_says_who_told_it_in_which_session_and_when(
    data: object, expected: TurnMetadata
) -> None:
    assert conversation_metadata.parse(data) == expected


def test_order_of_members_changes_nothing() -> None:
    members = {"speaker": "Anna", "author": "Bruno", "time": "noon", "date": "8 May, 2023"}
    assert conversation_metadata.parse(members) == conversation_metadata.parse(
        dict(reversed(members.items()))
    )
    assert conversation_metadata.parse(members) == TurnMetadata("Anna", time_text="8 May, 2023")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda some: (
            st.lists(some)
            | st.dictionaries(st.sampled_from(["speaker", "dia_id", "date", "Session"]), some)
        ),
    )
)
def test_any_data_is_read(data: object) -> None:
    turn_metadata = conversation_metadata.parse(data)
    assert all(
        len(text) <= 120
        for text in (
            turn_metadata.speaker,
            turn_metadata.session,
            turn_metadata.turn,
            turn_metadata.time_text,
        )
    )


def test_who_said_it_and_when_is_found_though_only_data_says_so() -> None:
    data = {"speaker": "Anna", "date": "8 May, 2023", "note": "unseen"}
    text = fact_text.rendering({"content": "to Lisbon", "tags": (), "data": data})
    assert text.split("\n") == ["to Lisbon", "Anna", "8 May, 2023"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"title": "t"},
        {"subject": "s"},
        {"tags": ("x",)},
        {"data": {"speaker": "Anna"}},
        {"valid_from": datetime(2023, 5, 8, tzinfo=UTC)},
    ],
)
def test_what_is_indexed_at_once_is_what_a_rebuild_indexes(fields: dict[str, Any]) -> None:
    new = new_fact("to Lisbon", **fields)
    since = None if new.valid_from is None else MAY_US // DAY_US * DAY_US
    part = {
        "content": new.content, "title": new.title, "subject": new.subject, "tags": new.tags,
        "data": new.data, "valid_from": since,
    }  # fmt: skip
    assert new.rendering == fact_text.rendering(part)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "Anna: hello"},
        {"content": 'Anna said, "hello"'},
        {"content": "[8 May, 2023 1:56 pm] Anna: hello"},
        {"content": "(1:56 pm on 8 May, 2023) Anna: hello"},
        {"content": "[session_1, 8 May, 2023] Anna: hello"},
        {"subject": "Anna"},
        {"title": "Anna Maria"},
        {"tags_json": '["s1","Anna"]'},
        {"data": {"speaker": "Anna"}},
    ],
    ids=lambda given: next(iter(given.items()))[1] if isinstance(given, dict) else None,
)
def test_speaker_is_seen_wherever_the_name_is_put(fields: dict[str, object]) -> None:
    assert speakers.is_speaker(row(**fields), frozenset({"anna"}))
    assert not speakers.is_speaker(row(**fields), frozenset({"bruno"}))


def test_who_is_spoken_to_is_no_speaker() -> None:
    assert not speakers.is_speaker(row("Bruno: hello Anna", subject="Anna"), frozenset({"anna"}))


@pytest.mark.parametrize(
    ("first", "second", "are_together"),
    [
        ({"data": {"session": 1}}, {"data": {"session": 1, "x": 2}}, True),
        ({"data": {"session": 1}}, {"data": {"session": 2}}, False),
        ({"data": {"dia_id": "D1:3"}}, {"data": {"dia_id": "D1:4"}}, True),
        ({"data": {"dia_id": "D1:3"}}, {"data": {"dia_id": "D2:3"}}, False),
        ({"tags_json": '["D1:3"]'}, {"tags_json": '["D1:4"]'}, True),
        (
            {"content": "[8 May, 2023 1:56 pm] Anna: a"},
            {"content": "[8 May, 2023 1:58 pm] Bruno: b"},
            True,
        ),
        (
            {"content": "[8 May, 2023 1:56 pm] Anna: a"},
            {"content": "[9 May, 2023 1:56 pm] Bruno: b"},
            False,
        ),
        (
            {"content": "[session_1, 8 May, 2023] Anna: a"},
            {"content": "[session_2, 8 May, 2023] Bruno: b"},
            False,
        ),
        (
            {"data": {"speaker": "Anna"}, "valid_from_us": MAY_US},
            {"data": {"speaker": "Bruno"}, "valid_from_us": MAY_US + 60_000_000},
            True,
        ),
    ],
)
def test_session_is_seen_wherever_it_is_put(
    first: dict[str, object], second: dict[str, object], are_together: bool
) -> None:
    first_part, second_part = (
        grouping.conversation_of(row(**first)),
        grouping.conversation_of(row(**second)),
    )
    assert first_part is not None
    assert (first_part == second_part) is are_together


def test_names_that_come_again_and_again_tie_facts_of_one_moment_together() -> None:
    names = ["Anna", "Bruno"] * 3
    rows = [row("x", n, title=name, valid_from_us=MAY_US + n // 4) for n, name in enumerate(names)]
    result = grouping.group_by_conversation(rows)
    assert [result[n] == result[0] for n in range(6)] == [True] * 4 + [False] * 2
    assert grouping.group_by_conversation(rows[:3]) == {}


def test_topics_before_the_words_are_no_speakers() -> None:
    topics = [row(f"Topic{chr(97 + n)}: x", n) for n in range(9)]
    assert grouping.group_by_conversation(topics) == {}
    two = [row(f"{name}: x", n) for n, name in enumerate(["Anna", "Bruno", "Anna", "Bruno"])]
    assert len(grouping.group_by_conversation(two)) == 4


def test_one_who_writes_facts_down_holds_no_conversation() -> None:
    rows = [row("x", n, data={"author": "Anna"}) for n in range(9)]
    assert grouping.group_by_conversation(rows) == {}
    assert speakers.is_speaker(rows[0], frozenset({"anna"}))


def test_titles_that_name_things_tie_nothing_together() -> None:
    different = [row("x", n, title=f"Name{n}") for n in range(12)]
    plain = [row("x", n, title="Disk full", subject="orders-db") for n in range(12)]
    assert grouping.group_by_conversation([*different, *plain]) == {}


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({"content": "(1:56 pm on 8 May, 2023) Anna: hello"}, (Moment(2023, 5, 8),)),
        ({"content": "[2023-05-08 13:56] Anna: hello"}, (Moment(2023, 5, 8),)),
        ({"data": {"speaker": "Anna", "date": "1:56 pm on 8 May, 2023"}}, (Moment(2023, 5, 8),)),
        ({"content": "[8 May, 2023] Anna: hello", "valid_from_us": MAY_US}, ()),
        ({"content": "Anna: it was on 8 May, 2023"}, ()),
        ({"content": "hello"}, ()),
    ],
)
def test_day_of_words_is_seen_wherever_it_is_put(
    fields: dict[str, object], days: tuple[Moment, ...]
) -> None:
    assert turn_content.stated_days(row(**fields)) == days


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"data": {"speaker": "Anna"}}, {"data": {"speaker": "Bruno"}}),
        ({"title": "Anna"}, {"title": "Bruno"}),
        ({"subject": "orders-db"}, {"subject": "users-db"}),
        ({"tags_json": '["session_1"]'}, {"tags_json": '["session_2"]'}),
    ],
    ids=["two speakers", "two titles", "two subjects", "two sessions"],
)
def test_same_words_of_two_stay_two(one: dict[str, object], other: dict[str, object]) -> None:
    first, second = (
        near_duplicates.fact_words(row("I love hiking", **fields)) for fields in (one, other)
    )
    assert not near_duplicates.is_near_duplicate(first, second)
    assert near_duplicates.is_near_duplicate(
        first, near_duplicates.fact_words(row("I love hiking!", **one))
    )


@pytest.mark.parametrize(
    ("content", "is_short"),
    [
        ("Anna: Lovely, well done you!", True),
        ("[8 May, 2023 1:56 pm] Anna: Lovely, well done you!", True),
        ("Anna: I have been to Leith with my aunt", False),
        ("Anna: 素敵ですね", True),
        ("Anna: バックアップは毎晩三時に実行されるので、朝までには終わっています", False),
        ("备份存储在上海的机房里每天凌晨三点运行", False),
    ],
)
def test_turn_of_few_words_is_told_in_scripts_without_spaces_too(
    content: str, is_short: bool
) -> None:
    assert turn_content.is_short(row(content)) is is_short


def test_what_a_subject_is_by_a_predicate_is_no_turn_of_few_words() -> None:
    fields = {"subject": "Redis", "predicate": "port"}
    assert not turn_content.is_short(row("It listens on 6379", **fields))
    assert turn_content.is_short(row("It listens on 6379", subject="Anna"))


@pytest.mark.parametrize(
    ("content", "kind", "is_asking"),
    [
        ("Anna: What would you study?", "fact", True),
        ("Anna: Wow, congratulations! Where will it be?", "fact", True),
        ('Anna said, "What would you study?"', "fact", True),
        ("What would you study?", "fact", True),
        ("Anna: I moved to Lisbon with my cousin in May. How are you?", "fact", False),
        ("Anna: How? I walked.", "fact", False),
        ("Which node pool is the cheapest?", "question", False),
    ],
)
def test_turn_that_hardly_says_anything_is_a_question(
    content: str, kind: str, is_asking: bool
) -> None:
    assert turn_content.is_asking(row(content, kind=kind)) is is_asking


@pytest.mark.parametrize(
    "number",
    [
        lambda n: {"data": {"session": 1, "dia_id": f"D1:{n}"}},
        lambda n: {"tags_json": f'["session_1","D1:{n}"]'},
        lambda n: {"source_json": f'{{"refs":[{{"id":"D1:{n}","type":"turn"}}]}}'},
        lambda n: {"about": "e1", "position": n},
    ],
    ids=["data", "tag", "reference", "position"],
)
def test_turns_that_came_mixed_stand_in_the_order_of_their_numbers(
    number: Callable[[int], dict[str, Any]],
) -> None:
    rows = {n: row("x", n, **number(n)) for n in (1, 2, 3)}
    tied = grouping.group_by_conversation(rows.values())
    assert len(set(tied.values())) == 1
    mixed = turn_order.order_turns(tied, rows, {1: 11, 2: 10, 3: 12})
    assert (mixed[2] - mixed[1], mixed[3] - mixed[2]) == (1, 1)
    # What came in order keeps its places: a number that is left out parts nobody.
    assert turn_order.order_turns(tied, rows, {1: 10, 2: 11, 3: 12}) == {1: 10, 2: 11, 3: 12}


def test_sessions_of_one_name_that_came_far_apart_are_two() -> None:
    rows = {n: row("x", n, data={"dia_id": f"D1:{n % 4}"}) for n in range(8)}
    locations = {n: 10 + n if n < 4 else 500 + n for n in rows}
    tied = grouping.group_by_conversation(rows.values())
    assert turn_order.order_turns(tied, rows, locations) == locations
