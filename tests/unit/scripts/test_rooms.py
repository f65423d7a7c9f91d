"""Every module of the product says where one stands in it, and can be found by its words."""

from __future__ import annotations

import re

import pytest

from scripts import rooms

PRODUCT = tuple(each for each in rooms.FOLDERS if each not in ("examples", "e2e", "tests"))


def test_every_module_of_the_product_says_what_it_answers() -> None:
    told = {path for path, _ in rooms.rooms(PRODUCT)}
    there = {
        str(path.relative_to(rooms.ROOT))
        for folder in PRODUCT
        for path in (rooms.ROOT / folder).rglob("*.py")
        if path.read_text().strip()
    }
    assert there - told == set()


def test_a_module_is_found_by_words_of_its_path_and_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rooms.main(["kais_cli/", "doctor", "leads"]) == 1
    assert capsys.readouterr() == ("", "no module has all of: kais_cli/ doctor leads\n")
    assert rooms.main(["scripts", "soak"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert re.match(r"scripts/soak\.py +\d+  Run the long versions of the tests", line)
