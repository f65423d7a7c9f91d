"""Which answer a question expects, and which texts have one: sentence and case."""

from __future__ import annotations

import pytest

from knowledge_service.search.query import answer_types


@pytest.mark.parametrize(
    ("question", "answer", "other_text"),
    [
        pytest.param(*case, id=sentence)
        for sentence, case in {
            "how many expects a number word": (
                "How many apples were left?", "there were twelve", "there were some"
            ),
            "how old expects digits": (
                "How old is the tower?", "built in 1951", "built long ago"
            ),
            "how often expects a frequency": (
                "How often does it run?", "it runs twice", "it runs rarely"
            ),
            "a question mark and capitals change nothing": (
                "HOW LONG does it take", "half an hour", "it takes long"
            ),
            "who expects a name within a sentence": (
                "Who mended the fence?", "it was my uncle Bert", "It was him. Again"
            ),
            "with whom expects a name anywhere in the question": (
                "They left with whom?", "they left with Ada", "they left with him"
            ),
            "called expects a name": (
                "What is the boat called?", "we call her Mary", "we call her by whistling"
            ),
            "where expects a place after a preposition": (
                "Where did they meet?", "we met in Leith", "we met in March"
            ),
            "which town expects a place with an article": (
                "Which town is he from?", "he comes from the Azores", "he comes from far away"
            ),
            "why expects a reason": (
                "Why is it closed?", "because of the storm", "it is closed again"
            ),
            "why expects a purpose": (
                "Why did it move?", "it moved to help the others", "it moved to the others"
            ),
            "the first type that fits decides": (
                "Where and why are how many pods down?", "3", "in Leith because of rain"
            ),
        }.items()
    ],
)  # fmt: skip
def test_answer_pattern_matches_answers_only(question: str, answer: str, other_text: str) -> None:
    pattern = answer_types.answer_pattern(question)
    assert pattern is not None
    assert pattern.search(answer)
    assert not pattern.search(other_text)


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("What did Anna say about it?", id="what may be answered by anything"),
        pytest.param("ImagePullBackOff", id="a single term expects nothing"),
        pytest.param("the pod that whoever owns", id="who within another word is no question"),
        pytest.param("tell me who it was", id="who later in the sentence is no question"),
        pytest.param("how did it happen?", id="how alone expects no number"),
        pytest.param("", id="an empty question expects nothing"),
    ],
)
def test_other_questions_expect_no_answer_type(question: str) -> None:
    assert answer_types.answer_pattern(question) is None
