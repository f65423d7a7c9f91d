"""When an extracted sentence repeats what the run remembered: a sentence for each rule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge_client.models import Fact, Source
from knowledge_service.domain import repetition

CASES = {
    "the same words in another order repeat": (
        "The image shop:2 cannot be pulled", "cannot be pulled: image shop:2", True,
    ),
    "spelling in capitals does not matter": ("IMAGE SHOP", "image shop", True),
    "words of grammar do not count": ("the of and image", "image", True),
    "three of five significant words are enough": ("a1 b1 c1 d1 e1", "a1 b1 c1", True),
    "two of five significant words are too few": ("a1 b1 c1 d1 e1", "a1 b1", False),
    "more words in the other text do not matter": ("image", "image " + "other " * 50, True),
    "a path is one word": ("pods/api-1 failed", "pods api 1", False),
    "a sentence of grammar alone repeats nothing": ("it was the error", "it was the error", False),
    "an empty sentence repeats nothing": ("", "anything", False),
}  # fmt: skip


@pytest.mark.parametrize(("sentence", "text", "expected"), CASES.values(), ids=CASES)
def test_repetition(sentence: str, text: str, expected: bool) -> None:
    assert repetition.is_repetition(sentence, text) is expected


def test_text_of_a_fact_has_title_subject_tags_and_data() -> None:
    fact = Fact(
        id="f", scope="realm:demo", kind="fact", content="content", title="title",
        subject="subject", tags=("tag",), data={"key": "größe"}, confidence=0.5,
        source=Source(), recorded_at=datetime(2026, 3, 2, tzinfo=UTC),
    )  # fmt: skip
    assert repetition.text_of(fact) == 'title\ncontent\nsubject\ntag\n{"key": "größe"}'
