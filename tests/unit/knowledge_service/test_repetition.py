"""When an extracted sentence repeats what the run remembered: a sentence for each rule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_client.models import Fact, Source
from knowledge_service.domain import repetition
from tests.step_count import count_steps

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


_TEXTS = st.lists(
    st.lists(st.sampled_from(["a1", "b1", "c1", "d1", "e1", "the"]), max_size=6).map(" ".join)
)


@given(_TEXTS, _TEXTS)
def test_sentences_together_repeat_what_each_repeats_alone(
    sentences: list[str], texts: list[str]
) -> None:
    assert repetition.find_repetitions(sentences, texts) == [
        any(repetition.is_repetition(sentence, text) for text in texts) for sentence in sentences
    ]


def test_each_text_is_read_once_whatever_the_number_of_sentences() -> None:
    texts = [" ".join(f"word{place}" for place in range(1_000))] * 10

    def steps(size: int) -> int:
        sentences = [f"sentence {place}" for place in range(size)]
        return count_steps(lambda: repetition.find_repetitions(sentences, texts))

    assert steps(100) < 2 * steps(1)


def test_text_of_a_fact_has_title_subject_tags_and_data() -> None:
    fact = Fact(
        id="f", scope="realm:demo", kind="fact", content="content", title="title",
        subject="subject", tags=("tag",), data={"key": "größe"}, confidence=0.5,
        source=Source(), recorded_at=datetime(2026, 3, 2, tzinfo=UTC),
    )  # fmt: skip
    assert repetition.text_of(fact) == 'title\ncontent\nsubject\ntag\n{"key": "größe"}'
