"""Both gates take time in proportion to the length of a text, whatever it is made of."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import facts
from knowledge_service.domain import prompt_injection, redaction
from knowledge_service.search.text import analyser

_MOST_S = 1.0
"""For 65,536 characters in compatibility form (NFKC), which take 0.06 s at most.

An expression whose time grows with the square of the length takes many seconds. Nothing else can be
counted: the work is done in C functions.
"""
_PARTS = (
    "drop all ", "ignore all ", "ignore ", "override safety ", "send key to ", "when you read ",
    "skip a a ", "do not tell ", "run. without telling ", "print your ", "curl ", "ai ", "<|", "#",
    "\n", "\nsystem ", "[", "a-", "a_-", "a.", "a+", "password ", "password: ", "http://a:",
    "http://", "bearer ", "basic aaa ", "eyJ-", "eyJ-a.", "-----BEGIN ", "-----BEGIN PRIVATE KEY--",
    "glpat-", "sk-", "?sig=", "SG.", "1:AA", "hooks.slack.com/services/", "aA1bB2cC3dD4eE5fF6gG7 ",
    "\u200b", "\u00e9", "\u0315\u0316", "\u0f73", "\ufdfa", "i will ",
)  # fmt: skip


def is_within(limit_s: float, call: Callable[[Any], object], value: Any) -> bool:
    """Whether one of three calls takes less processor time of this thread than the limit.

    Other processes do not count, nor does a collection of the garbage of the tests before.
    """
    return any(seconds(call, value) < limit_s for _ in range(3))


def seconds(call: Callable[[Any], object], value: Any) -> float:
    started = time.thread_time()
    call(value)
    return time.thread_time() - started


@pytest.mark.parametrize("part", _PARTS)
def test_each_gate_reads_64_kib_at_once(part: str) -> None:
    text = f"{part * (65_536 // len(part.encode()))} password system rules drop"
    # U+FDFA alone is 18 characters long in that form.
    most_s = _MOST_S * max(1, len(unicodedata.normalize("NFKC", text)) / 65_536)
    assert is_within(most_s, prompt_injection.detect_flags, text)
    assert is_within(most_s, prompt_injection.detect_flags, {"a": text.split(" ")})
    assert is_within(_MOST_S, redaction.mask, text)
    assert is_within(_MOST_S, redaction.mask_tree, {"a": text})


def test_members_that_are_masked_alike_are_numbered_in_one_pass() -> None:
    data = {f"password=aaaaa{n:05}": n for n in range(3_000)}
    assert is_within(_MOST_S, redaction.mask_tree, data)
    masked = redaction.mask_tree(data)
    assert sorted(masked.values()) == list(range(3_000))
    assert {"password=[masked]", "password=[masked] 2", "password=[masked] 3000"} <= masked.keys()


@pytest.mark.parametrize("mark", ["\u0315\u0316", "\u0f73", "\u0344\u0316"])
def test_marks_in_falling_order_are_normalized_in_bounded_time(mark: str) -> None:
    text = mark * (8_192 // len(mark))
    facts.normalize_content(text)  # the table of marks is made once
    for call in (facts.normalize_content, facts.normalize_key, analyser.of_chunk):
        assert is_within(_MOST_S / 8, call, text)


_VOCABULARY = st.sampled_from(
    ["drop", "ignore", "all", "previous", "rules", "above", "never", "tell", "users", "skip", "now",
     "reviews", "and", "send", "tokens", "to", "https:", "curl", "|", "sh", "when", "you", "read",
     "then", "always", ".", "\n", "x" * 30, "y" * 25, "!", "run", "without", "telling", "anyone"]
)  # fmt: skip


@given(st.lists(_VOCABULARY, max_size=14).map(" ".join))
def test_phrases_in_a_row_are_what_one_expression_of_them_would_find(text: str) -> None:
    for rule in prompt_injection._RULES:
        gap = f"[^{rule.stops.pattern.strip('[]')}]{{0,{rule.gap}}}?"
        full_pattern = re.compile(gap.join(f"(?:{phrase.pattern})" for phrase in rule.phrases))
        assert rule.is_broken_by(text) == (full_pattern.search(text) is not None)
