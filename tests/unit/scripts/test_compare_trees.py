"""Two trees are equal but for the map, or for the prose; the first difference is named."""

from __future__ import annotations

import pytest

from scripts import compare_trees, rename_map

OLD = '''"""Say things."""

from kais import display


def say(words: str) -> str:
    """Say it."""
    found = display.told(words)
    return f"{found} was said"


def ask(words: str) -> str:
    return say(words=words)
'''


def compare(old: str, new: str, text: str = "", *, prose: bool = False) -> int:
    names = rename_map.parse(text)
    return compare_trees.compare({"kais/a.py": old}, {"kais/a.py": new}, names, prose=prose)


def test_trees_that_differ_by_the_map_are_equal() -> None:
    new = OLD.replace("say(words: str)", "say(message: str)").replace(
        "told(words)", "told(message)"
    )
    new = new.replace("say(words=words)", "say(message=words)")
    assert compare(OLD, new, "kais.a:say.words -> message") == 1


def test_a_parameter_renamed_in_another_function_too_is_a_difference() -> None:
    new = OLD.replace("words", "message")
    with pytest.raises(compare_trees.Different, match=r"kais/a\.py:12: words has become message"):
        compare(OLD, new, "kais.a:say.words -> message")


def test_two_names_that_become_one_are_a_difference() -> None:
    new = OLD.replace("found", "words")
    with pytest.raises(compare_trees.Different, match="have both become words"):
        compare(OLD, new, "kais.a:say.found -> words")


def test_a_name_that_is_not_in_the_map_is_a_difference() -> None:
    with pytest.raises(compare_trees.Different, match=r"kais/a\.py:8: told has become message"):
        compare(OLD, OLD.replace("told", "message"))


def test_a_call_that_is_added_is_a_difference() -> None:
    with pytest.raises(compare_trees.Different, match=r"kais/a\.py:8"):
        compare(OLD, OLD.replace("display.told(words)", "display.told(words.strip())"))


def test_prose_may_differ_when_prose_is_compared() -> None:
    new = OLD.replace('"""Say it."""', '"""Format a message."""')
    new = new.replace("{found} was said", "the message is {found}")
    assert compare(OLD, new, prose=True) == 1


def test_prose_is_a_difference_otherwise() -> None:
    with pytest.raises(compare_trees.Different, match=r"'Say it\.' has become 'Format it\.'"):
        compare(OLD, OLD.replace("Say it", "Format it"))


def test_a_text_that_formats_another_value_is_a_difference_of_prose_too() -> None:
    with pytest.raises(compare_trees.Different, match="a text formats other values"):
        compare(OLD, OLD.replace("{found} was", "{words} was"), prose=True)


def test_a_module_that_moves_takes_its_imports_along() -> None:
    old = {"kais/a.py": OLD, "kais/display.py": "told = str\n"}
    new = {
        "kais/a.py": OLD.replace(
            "from kais import display", "from kais.views import pager"
        ).replace("display.told", "pager.told"),
        "kais/views/pager.py": "told = str\n",
        "kais/views/__init__.py": "",
    }
    names = rename_map.parse("kais.display -> kais.views.pager")
    assert compare_trees.compare(old, new, names) == 2


def test_a_new_file_is_a_difference() -> None:
    with pytest.raises(compare_trees.Different, match=r"kais/b\.py is new"):
        compare_trees.compare(
            {"kais/a.py": OLD}, {"kais/a.py": OLD, "kais/b.py": "x = 1\n"}, rename_map.parse("")
        )


def test_an_inner_function_may_be_renamed_where_it_is_defined() -> None:
    old = "def run():\n    def ask():\n        return 1\n    return ask()\n"
    assert compare(old, old.replace("ask", "fetch"), "kais.a:run.ask -> fetch") == 1


def test_a_module_is_no_function_of_its_name() -> None:
    old = {"kais/report.py": "def report():\n    pass\n", "kais/a.py": "from kais import report\n"}
    new = {**old, "kais/report.py": "def write_report():\n    pass\n"}
    names = rename_map.parse("kais.report:report -> write_report")
    assert compare_trees.compare(old, new, names) == 1


PARAMETRIZED = """
@pytest.mark.parametrize(("words", "number"), [("words", 1)])
def test_it(words: str, number: int) -> None:
    assert words
"""


def test_a_parameter_may_be_renamed_in_the_strings_that_name_it() -> None:
    new = PARAMETRIZED.replace('(("words"', '(("message"').replace("words: str", "message: str")
    new = new.replace("assert words", "assert message")
    assert compare(PARAMETRIZED, new, "kais.a:test_it.words -> message") == 1
    with pytest.raises(compare_trees.Different, match="words has become message"):
        compare(PARAMETRIZED, new)


def test_a_value_of_a_parameter_may_not_change() -> None:
    new = PARAMETRIZED.replace('[("words"', '[("message"')
    with pytest.raises(compare_trees.Different, match="'words' has become 'message'"):
        compare(PARAMETRIZED, new, "kais.a:test_it.words -> message")
