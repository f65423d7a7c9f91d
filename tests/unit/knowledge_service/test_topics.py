"""Topics of events, and which of them a subscriber follows."""

from __future__ import annotations

import pytest

from knowledge_service.domain import topics
from knowledge_service.store.sqlite import projections


def test_an_event_without_a_visible_fact_has_its_type_as_topic() -> None:
    assert topics.topics_of("scope.created", (), ()) == ("scope.created",)


def test_a_schema_named_like_an_event_type_gets_no_topic() -> None:
    assert topics.topics_of("fact.closed", {"note"}, {"run/1"}) == ("fact.closed.note",)


def test_no_schema_can_take_the_first_part_of_an_event_type() -> None:
    first_parts = {event_type.partition(".")[0] for event_type in projections.EVENT_TYPES}
    assert first_parts == topics.FIRST_PARTS_OF_TYPES


def test_versions_of_a_schema_share_a_topic() -> None:
    assert topics.topics_of("fact.recorded", {"note"}, {"ko/1", "ko/2"}) == (
        "fact.recorded.note", "ko.created",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("prefixes", "is_followed"),
    [
        ((), True),
        (("block",), True),
        (("block.*",), True),
        (("block.created",), True),
        (("blo",), False),
        (("created",), False),
        (("other", "fact.recorded"), True),
        (("fact.recorded.note.*",), True),
        (("fact.recorded.n",), False),
    ],
)
def test_a_prefix_follows_whole_parts_of_a_topic(
    prefixes: tuple[str, ...], is_followed: bool
) -> None:
    assert topics.is_followed(("block.created", "fact.recorded.note"), prefixes) is is_followed
