from __future__ import annotations

import sys
import unicodedata
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from kais import normalization

FORMS = get_args(normalization.Form)
MARKS = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.combining(chr(n))]


@given(st.text(max_size=60), st.sampled_from(FORMS))
def test_text_of_any_writing_is_normalized_as_the_standard_says(
    text: str, form: normalization.Form
) -> None:
    assert normalization.normalized(form, text) == unicodedata.normalize(form, text)


@given(st.lists(st.sampled_from(MARKS), max_size=30).map("".join), st.sampled_from(FORMS))
def test_thirty_marks_are_sorted(marks: str, form: normalization.Form) -> None:
    for text in (marks, f"e{marks}a"):
        assert normalization.normalized(form, text) == unicodedata.normalize(form, text)


def test_longer_runs_are_normalized_in_pieces_that_lose_nothing() -> None:
    marks = "\u0315\u0316" * 50
    result = normalization.normalized("NFC", f"e{marks}a")
    assert sorted(result) == sorted(f"e{marks}a")
    assert result == normalization.normalized("NFC", result)


def test_every_mark_counts_for_a_run() -> None:
    first = [chr(n) for n in range(sys.maxunicode + 1) if not unicodedata.combining(chr(n))]
    odd = [c for c in first if unicodedata.combining(unicodedata.normalize("NFKD", c)[0])]
    assert normalization.without_marks("".join([*MARKS, *odd])) == ""
    assert normalization.without_marks("e\u0301a") == "ea"
