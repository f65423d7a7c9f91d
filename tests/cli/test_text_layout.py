import pytest

from kais_cli.views import text_layout

RESULT = {
    "summary": "namespace demo: 2 of 6 pods fail",
    "pods": [
        {"pods": ["one", "two"], "cause": "image-pull", "known_from": {"f1": "the image is gone"}},
        {"pods": ["three"], "cause": "crash-loop"},
    ],
    "used_facts": ["f1"],
    "remembered_facts": [],
    "healthy": False,
}


def test_json_is_told_without_its_brackets():
    assert text_layout.format_outline(RESULT) == (
        "summary: namespace demo: 2 of 6 pods fail\n"
        "pods:\n"
        "- pods: one, two\n"
        "  cause: image-pull\n"
        "  known_from:\n"
        "    f1: the image is gone\n"
        "- pods: three\n"
        "  cause: crash-loop\n"
        "used_facts: f1\n"
        "remembered_facts: none\n"
        "healthy: false\n"
    )


def test_long_words_of_json_hang_below_their_key():
    outline = text_layout.format_outline(
        {"pods": [{"why": "the image cannot be pulled at all"}]}, width=24
    )
    assert outline == "pods:\n- why: the image cannot\n    be pulled at all\n"


@pytest.mark.parametrize(
    ("value", "expected"), [([], "none\n"), ({}, "none\n"), ([[1, 2], [3]], "- 1, 2\n- 3\n")]
)
def test_what_is_empty_or_nested_is_told_too(value, expected):
    assert text_layout.format_outline(value) == expected


def test_text_keeps_its_own_lines():
    assert text_layout.wrap_text("one\n\ntwo three", width=6) == "one\n\ntwo\nthree\n"


def test_what_would_steer_a_terminal_is_shown_instead():
    hostile = "a\x1b]0;owned\x07b\x9b31m\u202egpj.exe\tc\r\n"
    assert text_layout.escape_control_characters(hostile) == (
        "a\\u001b]0;owned\\u0007b\\u009b31m\\u202egpj.exe\tc\\u000d\n"
    )
