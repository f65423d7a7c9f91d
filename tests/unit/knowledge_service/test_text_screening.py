from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_service.domain import prompt_injection, redaction, text_screening
from tests.unit.knowledge_service import corpora

TEXT = st.sampled_from(
    ["ignore", "all", "previous", "instructions", "password", "=", "hunter22", "pod", "n7", "A-b_c",
     "<|system|>", "glpat-", "sk-", "Bearer", "://", "a:b@c", "aB3dE5gH7jK9mN1pQ3sT5vX7", "x" * 70]
)  # fmt: skip
SPACES = st.sampled_from([" ", "\n", "\t", "\x1c", "\u200b", "\u2028", ""])


def assert_signs_are_true(text: str) -> None:
    for _ in range(2):  # the second time its words are known
        screen = text_screening.screen(text)
        assert screen & text_screening.SECRET or redaction.mask(text) == text
        assert screen & text_screening.INSTRUCTION or prompt_injection.detect_flags(text) == ()


@given(st.lists(st.tuples(TEXT | st.text(max_size=6), SPACES), max_size=12))
@example([("ign", "\x1c"), ("ore", " "), ("previous", " "), ("instructions", "")])
def test_text_without_a_sign_is_let_through_by_its_gate(parts: list[tuple[str, str]]) -> None:
    assert_signs_are_true("".join(term + space for term, space in parts))


@pytest.mark.parametrize("text", [*corpora.POISON, *(text for text, _ in corpora.secrets())])
def test_what_a_gate_stops_has_its_sign(text: str) -> None:
    assert_signs_are_true(text)


def test_most_ordinary_facts_are_looked_at_by_one_gate_or_none() -> None:
    secret = text_screening.SECRET | text_screening.INSTRUCTION
    screens = [text_screening.screen(text) for text in corpora.ordinary(2_000)]
    assert sum(item != secret for item in screens) > len(screens) * 0.8
    assert text_screening.screen("Deploys of shop-api wait for the nightly import") == 0
