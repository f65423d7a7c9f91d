"""Which facts say nearly the same, and which facts override others: sentence and case."""

from __future__ import annotations

import pytest

from knowledge_service.search.ranking import near_duplicates
from knowledge_service.search.ranking.near_duplicates import Deduplicator
from tests.unit.knowledge_service.search.candidate_rows import candidate

# So long that one word more or less is less than a tenth of it.
TEXT = (
    "the nightly import of orders is started by the scheduler after backups have ended and reads"
    " each table of the warehouse in slices of equal size before indexes are built anew"
)
PAIRS = {
    "equal texts are duplicates": (TEXT, {}, {}, True),
    "one word more is a duplicate": (f"{TEXT} quickly", {}, {}, True),
    "case and punctuation do not count": (f"{TEXT.upper().lower()}!", {}, {}, True),
    "order does not count": (" ".join(reversed(TEXT.split())), {}, {}, True),
    "another number is no duplicate": (f"{TEXT} 2", {}, {}, False),
    "another weekday is no duplicate": (f"{TEXT} tuesday", {}, {}, False),
    "another month is no duplicate": (f"{TEXT} march", {}, {}, False),
    "another name is no duplicate": (f"{TEXT} Grace", {}, {}, False),
    "a negation is no duplicate": (f"{TEXT} never", {}, {}, False),
    "another word in its place is no duplicate": (
        TEXT.replace("orders", "payments"), {}, {}, False
    ),
    "an inflected word in its place is a duplicate": (
        TEXT.replace("orders", "order"), {}, {}, True
    ),
    "half of the text is no duplicate": (TEXT[: len(TEXT) // 2], {}, {}, False),
    "another subject is no duplicate": (TEXT, {"subject": "a"}, {"subject": "b"}, False),
    "another predicate is no duplicate": (TEXT, {"predicate": "a"}, {}, False),
    "another title is no duplicate": (TEXT, {"title": "a"}, {}, False),
    "another entity is no duplicate": (TEXT, {"about": "a"}, {"about": "b"}, False),
    "the same entity is a duplicate": (TEXT, {"about": "a"}, {"about": "a"}, True),
    "another session is no duplicate": (
        TEXT, {"tags_json": '["session_1"]'}, {"tags_json": '["session_2"]'}, False
    ),
    "other tags are a duplicate": (TEXT, {"tags_json": '["red"]'}, {}, True),
    "another speaker is no duplicate": (
        TEXT, {"data_json": '{"speaker":"Anna"}'}, {"data_json": '{"speaker":"Bruno"}'}, False
    ),
    "another confidence is a duplicate": (TEXT, {"confidence": 1.0}, {}, True),
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "columns", "other_columns", "is_duplicate"), PAIRS.values(), ids=PAIRS
)
def test_near_duplicates(
    content: str, columns: dict[str, object], other_columns: dict[str, object], is_duplicate: bool
) -> None:
    first = near_duplicates.fact_words(candidate(content)._replace(**columns))
    second = near_duplicates.fact_words(candidate(TEXT)._replace(**other_columns))
    assert near_duplicates.is_near_duplicate(first, second) is is_duplicate
    assert near_duplicates.is_near_duplicate(second, first) is is_duplicate


SIGNS = {
    "another comparison is no duplicate": ("it fires when load > 80", "it fires when load < 80"),
    "an inequality is no duplicate": ("replicas must be == 3", "replicas must be != 3"),
    "a negative number is no duplicate": ("the offset is 5 s", "the offset is -5 s"),
    "another currency is no duplicate": ("the plan costs $5", "the plan costs \u20ac5"),
    "a percentage is no duplicate": ("the limit is 80% of it", "the limit is 80 of it"),
    "another emoji is no duplicate": ("checkout: \u2705", "checkout: \u274c"),
    "another vowel sign is no duplicate": (
        "\u0935\u0939 \u0906\u0924\u093e", "\u0935\u0939 \u0906\u0924\u0940"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "other_content"), SIGNS.values(), ids=SIGNS)
def test_texts_that_differ_in_a_sign_are_no_duplicates(content: str, other_content: str) -> None:
    first, second = (
        near_duplicates.fact_words(candidate(text)) for text in (content, other_content)
    )
    assert not near_duplicates.is_near_duplicate(first, second)
    assert near_duplicates.is_near_duplicate(first, first)


@pytest.mark.parametrize(
    ("content", "other_content"),
    [
        ("the load - as always - is high", "the load, as always, is high!"),
        ("checkout: \u26a0", "checkout: \u26a0\ufe0f"),
    ],
)
def test_texts_that_differ_in_how_they_are_written_are_duplicates(
    content: str, other_content: str
) -> None:
    first, second = (
        near_duplicates.fact_words(candidate(text)) for text in (content, other_content)
    )
    assert near_duplicates.is_near_duplicate(first, second)


def test_only_facts_that_are_shown_have_duplicates() -> None:
    deduplicator = Deduplicator({1: "realm:demo"})
    contents = [TEXT, f"{TEXT} quickly", "it rains", TEXT]
    duplicates = [
        deduplicator.duplicate_of(candidate(content, number))
        for number, content in enumerate(contents, 1)
    ]
    assert duplicates == [None, 1, None, 1]


PATHS = {1: "realm:demo", 2: "realm:demo/formation:team", 3: "realm:other"}
OVERRIDES = {
    "a nearer scope overrides": ("Port", "Value", 1, 20),
    "a farther scope overrides nothing": ("port", "value", 2, None),
    "an unrelated scope overrides nothing": ("port", "value", 3, None),
    "another key overrides nothing": ("host", "value", 1, None),
    "a subject alone is no key": ("port", None, 1, None),
}


@pytest.mark.parametrize(
    ("subject", "predicate", "scope_no", "number"), OVERRIDES.values(), ids=OVERRIDES
)
def test_nearer_scope_overrides_the_same_key(
    subject: str, predicate: str | None, scope_no: int, number: int | None
) -> None:
    deduplicator = Deduplicator(PATHS)
    deduplicator.register_keys(
        candidate("the port", scope * 10, scope_no=scope, subject="port", predicate="value")
        for scope in PATHS
    )
    row = candidate("the port", 5, scope_no=scope_no, subject=subject, predicate=predicate)
    assert deduplicator.overridden_by(row) == number
