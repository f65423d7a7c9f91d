"""What sort of thing a question asks for, and which texts have one."""

from __future__ import annotations

import pytest

from knowledge_service.search.query import answer_types


@pytest.mark.parametrize(
    ("question", "has", "lacks"),
    [
        ("How many apples were left?", "there were twelve", "there were some"),
        ("How old is the tower?", "built in 1951", "built long ago"),
        ("Who mended the fence?", "it was my uncle Bert", "It was him. Again"),
        ("What is the boat called?", "we call her Mary", "we call her by whistling"),
        ("Where did they meet?", "we met in Leith", "we met in March"),
        ("Which town is he from?", "he comes from the Azores", "he comes from far away"),
        ("Why is it closed?", "because of the storm", "it is closed again"),
    ],
)
def test_text_has_what_is_asked_for(question: str, has: str, lacks: str) -> None:
    wanted = answer_types.answer_pattern(question)
    assert wanted is not None
    assert wanted.search(has)
    assert not wanted.search(lacks)


def test_question_for_anything_wants_nothing_in_particular() -> None:
    assert answer_types.answer_pattern("What did Anna say about it?") is None
    assert answer_types.answer_pattern("ImagePullBackOff") is None
