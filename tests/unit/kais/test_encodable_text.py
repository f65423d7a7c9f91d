"""Text of others can be stored and sent, whatever their JSON escapes."""

import json

import pytest

from kais.encodable_text import encodable


@pytest.mark.parametrize(
    ("escaped", "shown"),
    [
        (r"a \ud83d b", "a ? b"),
        (r"\ude00", "?"),
        (r"\ude00\ud83d", "??"),
        (r"\ud83d\ude00 \u00e9\u0000", "\U0001f600 é\0"),
    ],
    ids=["first half", "second half", "halves in the wrong order", "whole pair"],
)
def test_only_halves_of_surrogate_pairs_become_question_marks(escaped: str, shown: str) -> None:
    text = json.loads(f'"{escaped}"')
    assert encodable(text) == shown
    assert encodable(text).encode()
