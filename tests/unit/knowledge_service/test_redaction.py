from __future__ import annotations

import time

import pytest

from knowledge_service.domain import redaction


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter22", "password=[masked]"),
        ('"api_key": "abcdef012345"', '"api_key": "[masked]"'),
        ("DB_PASSWORD: s3cr3tpw!", "DB_PASSWORD: [masked]"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [masked]"),
        ("postgres://user:pa55word@db/x", "postgres://user:[masked]@db/x"),
        ("use AKIAIOSFODNN7EXAMPLE now", "use [masked] now"),
        ("ghp_" + "a" * 36, "[masked]"),
        ("sk-" + "x" * 40, "[masked]"),
        ("eyJhbGciOiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl", "[masked]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[masked]"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert redaction.mask(text) == masked
    assert redaction.mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "the password is asked for twice",
        "secrets belong in a Secret: see the docs",
        "a token has 4 characters",
        "commit 3fcfefd13a9f2c fixes it",
        "https://example.com:8080/path?x=1",
        "ImagePullBackOff 127.0.0.1:1/missing:1",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redaction.mask(text) == text


def test_data_is_judged_with_its_keys() -> None:
    data = {"db": {"password": "hunter22"}, "n": 1}
    assert redaction.mask_tree(data) == {"db": {"password": redaction.MASK}, "n": 1}
    assert redaction.mask_tree({"a": ["b", 2, True]}) == {"a": ["b", 2, True]}


def test_names_of_members_are_masked_and_no_value_is_lost() -> None:
    first, two = "ghp_" + "a" * 36, "ghp_" + "b" * 36
    data = {first: 1, two: 2, "[masked] 3": 3, "plain": {first: "x"}}
    assert redaction.mask_tree(data) == {
        "[masked]": 1, "[masked] 2": 2, "[masked] 3": 3, "plain": {"[masked]": "x"},
    }  # fmt: skip


def test_ids_are_masked_by_their_form_only() -> None:
    random_id = "q8Zt3nVb71LkPx0WmRd5YcHs"
    assert redaction.mask(random_id) == redaction.MASK
    assert redaction.mask_known_formats(random_id) == random_id
    assert redaction.mask_known_formats("ghp_" + "a" * 36) == redaction.MASK


@pytest.mark.parametrize(
    "part", ["a-", "a.", "eyJ-", "password-", "http://a:", "bearer ", "-----BEGIN "]
)
def test_hostile_text_is_judged_in_bounded_time(part: str) -> None:
    started = time.thread_time()
    redaction.mask(part * (65_536 // len(part)))
    assert time.thread_time() - started < 2
