from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_service.domain import prompt_injection, redaction, signs
from tests.unit.knowledge_service import corpora

WORDS = st.sampled_from(
    ["ignore", "all", "previous", "instructions", "password", "=", "hunter22", "pod", "n7", "A-b_c",
     "<|system|>", "glpat-", "sk-", "Bearer", "://", "a:b@c", "aB3dE5gH7jK9mN1pQ3sT5vX7", "x" * 70]
)  # fmt: skip
SPACES = st.sampled_from([" ", "\n", "\t", "\x1c", "\u200b", "\u2028", ""])


def assert_signs_are_true(text: str) -> None:
    for _ in range(2):  # the second time its words are known
        found = signs.of(text)
        assert found & signs.SECRET or redaction.mask(text) == text
        assert found & signs.ORDER or prompt_injection.detect_flags(text) == ()


@given(st.lists(st.tuples(WORDS | st.text(max_size=6), SPACES), max_size=12))
@example([("ign", "\x1c"), ("ore", " "), ("previous", " "), ("instructions", "")])
def test_text_without_a_sign_is_let_through_by_its_gate(parts: list[tuple[str, str]]) -> None:
    assert_signs_are_true("".join(word + space for word, space in parts))


@pytest.mark.parametrize("text", [*corpora.POISON, *(text for text, _ in corpora.secrets())])
def test_what_a_gate_stops_has_its_sign(text: str) -> None:
    assert_signs_are_true(text)


def test_most_ordinary_facts_are_looked_at_by_one_gate_or_none() -> None:
    both = signs.SECRET | signs.ORDER
    found = [signs.of(text) for text in corpora.ordinary(2_000)]
    assert sum(each != both for each in found) > len(found) * 0.8
    assert signs.of("Deploys of shop-api wait for the nightly import") == 0
