"""Text that is not ASCII on a terminal: columns stand below each other, and nothing is torn."""

import json

import pytest
import yaml

from kais_cli.views import output, table_layout, text_layout, text_width

FAMILY = "👩‍👩‍👧"


@pytest.mark.parametrize(
    ("text", "columns"),
    [("plain", 5), ("日本", 4), ("e\u0301", 1), ("🚢", 2), (FAMILY, 2), ("é", 1), ("", 0)],
    ids=["ascii", "CJK", "combining", "emoji", "joined emoji", "accent", "nothing"],
)
def test_columns_are_those_of_a_terminal(text, columns):
    assert text_width.column_count(text) == columns


def test_columns_of_a_table_stand_below_each_other_in_every_script():
    rows = [("日本語", "a"), ("plain", "b"), ("e\u0301e\u0301", "c"), (FAMILY, "d")]
    lines = table_layout.format_table(("NAME", "X"), rows).splitlines()
    assert {text_width.column_count(line) for line in lines} == {9}


def test_control_characters_do_not_move_the_columns_behind_them():
    lines = table_layout.format_table(
        ("NAME", "X"), [("\x1b[31m", "a"), ("plain", "b")]
    ).splitlines()
    assert lines == ["NAME        X", "\\u001b[31m  a", "plain       b"]


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("abcd", 4, "abcd"), ("abcde", 4, "abc…"), ("日本語", 5, "日本…"), ("日本語", 4, "日…"),
        (FAMILY * 2, 3, FAMILY + "…"), ("ab cd", 4, "ab…"),
    ],
)  # fmt: skip
def test_what_is_cut_has_a_mark_and_no_torn_character(text, width, short):
    assert text_width.truncate(text, width) == short
    assert text_width.column_count(short) <= width


def test_a_script_without_spaces_is_wrapped():
    message = text_layout.wrap_text("日本語の事実と港は六時に開きます。", width=14, indent="  ")
    assert message == "  日本語の事実\n  と港は六時に\n  開きます。\n"


def test_an_address_among_wide_words_stays_whole():
    address = "https://registry.example/a/very/long/path"
    message = text_layout.wrap_text(f"日本語 {address} 事実", width=20)
    assert address in message.splitlines()


@pytest.mark.parametrize("mark", ["\u061c", "\u2028", "\U000e0041"])
def test_marks_that_nobody_sees_are_shown(mark):
    text = text_layout.escape_control_characters(f"a{mark}b")
    assert mark not in text
    assert json.loads(f'"{text}"') == f"a{mark}b"


@pytest.mark.parametrize("form", [output.Format.JSON, output.Format.YAML])
def test_programs_get_what_was_stored_also_when_it_would_steer_a_terminal(form):
    stored = {"content": "a\x1b[31m \u202e \u200f b \U000e0041 日本 \x9b", "n": None}
    written_text = text_layout.escape_control_characters(output.dump(stored, form))
    assert "\x1b" not in written_text
    assert "\u202e" not in written_text
    assert (json.loads if form is output.Format.JSON else yaml.safe_load)(written_text) == stored
