"""The share of everyday words counts each variable and parameter of a function once."""

from __future__ import annotations

import ast

import pytest

from scripts import everyday_words

SOURCE = """
def say(told: str, *, message: str) -> list[str]:
    told = told.strip()
    for found, row in []:
        pass
    return [made for made in (told, message)]
"""


def test_each_variable_and_parameter_counts_once_a_function() -> None:
    names = [name for _, name in everyday_words.names_of(ast.parse(SOURCE))]
    assert names == ["told", "message", "found", "row", "made"]


@pytest.mark.parametrize("name", ["told", "_found", "is_known", "what_was_said", "_SHOWN"])
def test_a_name_of_everyday_words_alone_counts(name: str) -> None:
    assert everyday_words.is_everyday(name)


@pytest.mark.parametrize("name", ["message", "known_scopes", "now", "new", "_", "row_before"])
def test_a_name_with_a_word_of_the_field_does_not_count(name: str) -> None:
    assert not everyday_words.is_everyday(name)


def test_the_share_of_a_package_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert everyday_words.main(["scripts"]) == 0
    folder, *_, share = capsys.readouterr().out.split()
    assert (folder, share[-1]) == ("scripts", "%")
