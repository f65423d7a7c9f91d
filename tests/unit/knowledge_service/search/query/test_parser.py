from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.search import thesaurus
from knowledge_service.search.query import parser
from knowledge_service.search.ranking import near_duplicates, ranking
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import grouping, speakers
from knowledge_service.search.ranking.ranking import OutcomeCounts
from knowledge_service.search.text import analyser, dates
from knowledge_service.search.text.dates import Moment, Span

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("1.29.3", {"=1.29", "=1.29.3"}),
        ("v1.29", {"=1.29"}),
        ("12,500 facts", {"12500", "fact"}),
        ("007", {"7"}),
        ("she went, they have gone", {"go"}),
        ("three children", {"3", "child"}),
        ("Café", {"cafe"}),
        ("the colour's centre wasn't organised", {"color", "center", "organiz"}),
        ("2023-05-07", {"d:2023-05", "d:2023-05-07", "d:05-07"}),
        ("7 May 2023", {"7", "may", "2023", "d:2023-05", "d:2023-05-07", "d:05-07"}),
        ("検索する", {"検索", "索す", "する"}),
        ("31 February 2023", {"31", "februari", "2023", "d:2023-02"}),
    ],
)
def test_text_becomes_terms(text: str, terms: set[str]) -> None:
    assert set(analyser.terms(text)) == terms


@given(st.text(max_size=200))
def test_any_text_has_terms_of_bounded_length(text: str) -> None:
    for term, count in analyser.terms(text).items():
        assert 0 < len(term) <= 66
        assert count > 0


@given(st.text(max_size=200))
def test_any_question_is_understood(text: str) -> None:
    question = parser.parse(text, NOW)
    missing = set(analyser.terms(text)) - set(question.terms)
    assert all(term.startswith("d:") for term in missing)
    assert all(0 < weight <= 1 for weight in question.terms.values())


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("what broke on 7 May 2023?", (Moment(2023, 5, 7),)),
        ("what broke on May 7th?", (Moment(0, 5, 7),)),
        ("what broke in May 2023?", (Moment(2023, 5, 0),)),
        ("what broke in March?", (Moment(0, 3, 0),)),
        ("what may break?", ()),
        ("what broke in 2024?", (Moment(2024, 0, 0),)),
        ("what broke yesterday?", (Span(date(2026, 11, 21), date(2026, 11, 21)),)),
        ("what broke last week?", (Span(date(2026, 11, 9), date(2026, 11, 15)),)),
        ("what broke last month?", (Span(date(2026, 10, 1), date(2026, 10, 31)),)),
        ("what broke this year?", (Span(date(2026, 1, 1), date(2026, 11, 22)),)),
        ("what broke last Friday?", (Span(date(2026, 11, 20), date(2026, 11, 20)),)),
        ("what broke two weeks ago?", (Span(date(2026, 11, 5), date(2026, 11, 11)),)),
        ("what broke on Friday?", (Span(date(2026, 11, 20), date(2026, 11, 20)),)),
        ("what broke last weekend?", (Span(date(2026, 11, 14), date(2026, 11, 15)),)),
        ("what did Anna do last summer?", (Span(date(2026, 6, 1), date(2026, 8, 31)),)),
        ("what did Anna do last winter?", (Span(date(2025, 12, 1), date(2026, 2, 28)),)),
        ("what did Anna do in the spring of 2023?", (Span(date(2023, 3, 1), date(2023, 5, 31)),)),
        ("what is planned for tomorrow?", (Span(date(2026, 11, 23), date(2026, 11, 23)),)),
        ("what is planned for next week?", (Span(date(2026, 11, 23), date(2026, 11, 29)),)),
        ("what is planned for next month?", (Span(date(2026, 12, 1), date(2026, 12, 31)),)),
        ("what broke before 7 May 2023?", (Span(date.min, date(2023, 5, 6)),)),
        ("what broke after May 2023?", (Span(date(2023, 6, 1), date.max),)),
        ("what broke since May 2023?", (Span(date(2023, 5, 1), date.max),)),
        ("what broke before the deploy of 7 May 2023?", (Moment(2023, 5, 7),)),
    ],
)
def test_dates_in_a_question_are_understood(
    question: str, asked: tuple[Moment | Span, ...]
) -> None:
    assert dates.dates_in_query(question, NOW) == asked


@pytest.mark.parametrize(
    "now", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
)
def test_calendar_has_ends(now: datetime) -> None:
    for text in (
        "yesterday",
        "tomorrow",
        "two years ago",
        "last summer",
        "next month",
        "on Friday",
    ):
        assert dates.dates_in_query(text, now) == ()


def test_question_names_whom_it_is_about() -> None:
    assert parser.parse("What did Anna say about Bruno?", NOW).names == {"anna"}
    assert parser.parse("Who met Bruno in May?", NOW).names == {"bruno"}
    assert parser.parse("What do Anna and Bruno have in common?", NOW).names == {"anna", "bruno"}
    assert parser.parse("Is Monday fine for Bruno?", NOW).names == {"bruno"}
    assert parser.parse("Why does ImagePullBackOff occur?", NOW).names == frozenset()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("who decided it", "a decision was made"),
        ("why was it destroyed", "the destruction of the old cluster"),
        ("how is outbound traffic opened", "egress is opened by a label"),
    ],
)
def test_word_adds_words_of_its_root_and_of_its_meaning(question: str, expected: str) -> None:
    terms = parser.parse(question, NOW).terms
    brought = set(terms) & set(analyser.terms(expected)) - set(analyser.terms(question))
    assert brought
    assert all(terms[term] < 1 for term in brought)


def test_kind_does_not_add_the_things_of_its_kind() -> None:
    terms = parser.parse("where is the animal", NOW).terms
    assert terms == {"anim": 1.0}


def test_words_that_say_little_count_less_and_bring_nothing() -> None:
    assert parser.parse("what kind of thing did Anna get", NOW).terms == {
        "kind": 0.4, "thing": 0.4, "anna": 1.0, "get": 0.4,
    }  # fmt: skip


def test_each_group_of_the_thesaurus_has_several_terms() -> None:
    groups = [
        tuple(map(analyser.stem, group)) for group in thesaurus.DERIVATIONS + thesaurus.SYNONYMS
    ]
    assert [group for group in groups if len(group) < 2 or len(set(group)) < len(group)] == []
    assert len(set(groups)) == len(groups)


def row(content: str, **value: object) -> Candidate:
    empty = Candidate(
        1, 1, "fact", None, content, "[]", None, None, None, None, "{}", 0.5, "live", "none",
        None, None, None, 0, None,
    )  # fmt: skip
    return empty._replace(**value)


@pytest.mark.parametrize(
    ("content", "caller_name"),
    [
        ("Anna: hello", "anna"),
        ("[7 May 2023, 14:05] Anna Maria: hello", "anna maria"),
        ("Bruno (on the phone): hello", "bruno"),
        ("Anna said that it rains", "anna"),
        ("the proxy: it closes connections", None),
        ("it rains", None),
    ],
)
def test_speaker_is_told_from_the_words(content: str, caller_name: str | None) -> None:
    assert speakers.speaker(row(content)) == caller_name


@pytest.mark.parametrize(
    ("first", "second", "are_together"),
    [
        ({"about": "e1"}, {"about": "e1"}, True),
        ({"about": "e1"}, {"about": "e2"}, False),
        ({"tags_json": '["session_1","x"]'}, {"tags_json": '["y","Session_1"]'}, True),
        ({"tags_json": '["session_1"]'}, {"tags_json": '["session_2"]'}, False),
        (
            {"source_json": '{"refs":[{"id":"D1:3","type":"turn"}]}'},
            {"source_json": '{"refs":[{"id":"D1:4","type":"turn"}]}'},
            True,
        ),
        ({"scope_no": 1, "about": "e1"}, {"scope_no": 2, "about": "e1"}, False),
    ],
)
def test_session_is_told_from_what_a_fact_refers_to(
    first: dict[str, object],
    second: dict[str, object],
    are_together: bool,
) -> None:
    first_part, second_part = (
        grouping.conversation_of(row("a", **first)),
        grouping.conversation_of(row("b", **second)),
    )
    assert (first_part == second_part) is are_together


def test_plain_facts_have_no_session() -> None:
    assert (
        grouping.conversation_of(row("backups run at night", tags_json='["backup","daily"]'))
        is None
    )


# So long that one word more or less is less than a tenth of it.
LONG = (
    "the nightly import of orders is started by the scheduler after backups have ended and reads"
    " each table of the warehouse in slices of equal size before indexes are built anew"
)


@pytest.mark.parametrize(
    ("first", "foreign", "is_same"),
    [
        (
            "the queue keeps messages for seven days",
            "The queue keeps messages for seven days!",
            True,
        ),
        ("the limit is 30", "the limit is 40", False),
        ("retries are safe", "retries are not safe", False),
        ("pods restart", "nodes restart", False),
        (f"{LONG} on Monday", f"{LONG} on Tuesday", False),
        (f"{LONG} on monday", f"{LONG} on tuesday", False),
        (f"{LONG} for checkout", f"{LONG} for payments", False),
        (f"{LONG} said Ada", f"{LONG} said Grace", False),
        (f"{LONG} on Monday", LONG, False),
        (f"{LONG} in version 2", f"{LONG} in version 3", False),
        (f"{LONG} without a lock", f"{LONG} with a lock", False),
        (f"{LONG} on sundays", LONG, False),
        (f"{LONG} in june", LONG, False),
        (f"{LONG} each night", f"{LONG} at night", True),
        (f"{LONG} quickly", LONG, True),
        (f"{LONG} for a team", f"{LONG} for the teams", True),
    ],
)
def test_only_what_says_the_same_is_folded(first: str, foreign: str, is_same: bool) -> None:
    assert (
        near_duplicates.is_near_duplicate(
            near_duplicates.fact_words(row(first)), near_duplicates.fact_words(row(foreign))
        )
        is is_same
    )


def test_same_words_on_two_keys_are_not_folded() -> None:
    first, second = row(LONG, subject="import", predicate="a"), row(LONG, subject="import")
    assert not near_duplicates.is_near_duplicate(
        near_duplicates.fact_words(first), near_duplicates.fact_words(second)
    )


def test_usefulness_is_drawn_to_the_scopes_own_rate() -> None:
    assert ranking.usefulness(OutcomeCounts(), 0.5) == 0.5
    assert ranking.usefulness(OutcomeCounts(succeeded=4), 0.5) == 0.75
    assert ranking.usefulness(OutcomeCounts(failed=4), 0.9) == pytest.approx(0.45)
    assert ranking.success_rate(OutcomeCounts(succeeded=9)) == 0.5
    assert ranking.success_rate(OutcomeCounts(succeeded=9, failed=1)) == 0.9
