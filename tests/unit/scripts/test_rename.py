"""The renamer follows scopes and types, and refuses what would capture another name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import rename, rename_map

SOURCES = {
    "kais/__init__.py": "",
    "kais/display.py": """
class Pager:
    told: str

    def __init__(self, told: str) -> None:
        self.told = told
        self.told += "!"

    def rows(self, words: list[str]) -> list[str]:
        return [word for word in words if word != self.told]


def say(words: str, *, loud: bool = False) -> str:
    match words:
        case str(found):
            return found.upper() if loud else words
    return ""
""",
    "kais/other.py": """
class Unrelated:
    told: int = 0


words = 1
""",
    "kais/use.py": """
from kais import display
from kais.display import Pager, say
from kais.other import Unrelated


def show(pager: Pager, other: Unrelated) -> str:
    words = "words"
    pager.rows(words=[words])
    return say(words=words) + display.say(pager.told) + str(other.told)
""",
    "tests/conftest.py": """
import pytest


@pytest.fixture
def told() -> str:
    return "told"
""",
    "tests/test_use.py": """
from kais import use


def test_it(told: str) -> None:
    assert use.show and told
""",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.lstrip("\n"))
    return tmp_path


def apply(root: Path, text: str) -> dict[str, str]:
    renamer = rename.Renamer(root, rename_map.parse(text), ("kais", "tests"))
    return {str(path): source.decode() for path, source in renamer.changes().items()}


def test_a_function_is_renamed_with_its_imports_and_calls(root: Path) -> None:
    changed = apply(root, "kais.display:say -> format_message")
    assert "def format_message(" in changed["kais/display.py"]
    assert "from kais.display import Pager, format_message" in changed["kais/use.py"]
    assert (
        "format_message(words=words) + display.format_message(pager.told)"
        in (changed["kais/use.py"])
    )


def test_a_parameter_is_renamed_with_keyword_arguments_and_nothing_of_its_name_besides(
    root: Path,
) -> None:
    changed = apply(root, "kais.display:say.words -> message")
    assert "def say(message: str" in changed["kais/display.py"]
    assert "match message:" in changed["kais/display.py"]
    assert "for word in words if" in changed["kais/display.py"]
    assert "say(message=words)" in changed["kais/use.py"]
    assert "rows(words=[words])" in changed["kais/use.py"]


def test_a_parameter_of_a_method_is_renamed_where_the_method_is_called(root: Path) -> None:
    changed = apply(root, "kais.display:Pager.rows.words -> lines")
    assert "for word in lines if" in changed["kais/display.py"]
    assert "rows(lines=[words])" in changed["kais/use.py"]


def test_an_attribute_is_renamed_on_its_own_type_alone(root: Path) -> None:
    changed = apply(root, "kais.display:Pager.told -> speaker")
    assert 'self.speaker = told\n        self.speaker += "!"' in changed["kais/display.py"]
    assert "word != self.speaker" in changed["kais/display.py"]
    assert "display.say(pager.speaker) + str(other.told)" in changed["kais/use.py"]


UNTYPED = """
import argparse
from typing import Any

from kais.display import Pager


def show(response: Any, arguments: list[str]) -> str:
    options = argparse.ArgumentParser().parse_args(arguments)
    return Pager("a").rows([]) + options.rows + response.rows
"""


def test_an_attribute_without_a_definition_stays_and_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "kais/untyped.py").write_text(UNTYPED)
    (root / "map").write_text("kais.display:Pager.rows -> format_lines")
    monkeypatch.setattr(rename, "ROOT", root)
    assert rename.main([str(root / "map")]) == 1
    source = (root / "kais/untyped.py").read_text()
    assert 'Pager("a").format_lines([]) + options.rows + response.rows' in source
    printed = capsys.readouterr().err
    assert "not renamed: kais/untyped.py:10: options.rows" in printed
    assert "not renamed: kais/untyped.py:10: response.rows" in printed


def test_an_attribute_in_a_pattern_is_renamed_by_the_class_of_the_pattern(root: Path) -> None:
    (root / "kais/matching.py").write_text("""
from typing import Any

from kais import other
from kais.display import Pager
from library import Foreign


def show(value: Any) -> str:
    match value:
        case Pager(told=text):
            return text
        case other.Unrelated(told=count):
            return str(count)
        case Foreign(told=text):
            return text
    return ""
""")
    renamer = rename.Renamer(
        root, rename_map.parse("kais.display:Pager.told -> speaker"), ("kais",)
    )
    changed = {str(path): source.decode() for path, source in renamer.changes().items()}
    assert "case Pager(speaker=text):" in changed["kais/matching.py"]
    assert "case other.Unrelated(told=count):" in changed["kais/matching.py"]
    assert "case Foreign(told=text):" in changed["kais/matching.py"]
    assert renamer.unresolved == ["kais/matching.py:15: told=text"]


def test_what_a_pattern_binds_is_renamed(root: Path) -> None:
    changed = apply(root, "kais.display:say.found -> text")
    assert "case str(text):\n            return text.upper()" in changed["kais/display.py"]


def test_a_fixture_is_renamed_in_the_tests_that_take_it(root: Path) -> None:
    changed = apply(root, "tests.conftest:told -> message")
    assert "def message() -> str:" in changed["tests/conftest.py"]
    assert "def test_it(message: str)" in changed["tests/test_use.py"]
    assert "use.show and message" in changed["tests/test_use.py"]


def test_a_parameter_is_renamed_in_the_strings_of_parametrize(root: Path) -> None:
    (root / "tests" / "test_words.py").write_text(
        "import pytest\n\n\n"
        '@pytest.mark.parametrize(("words", "said"), [("words", "a")])\n'
        "def test_it(words: str, said: str) -> None:\n    assert words + said\n"
    )
    changed = apply(root, "tests.test_words:test_it.words -> message")
    assert '(("message", "said"), [("words", "a")])' in changed["tests/test_words.py"]
    assert "assert message + said" in changed["tests/test_words.py"]


def test_a_name_that_is_taken_is_refused(root: Path) -> None:
    with pytest.raises(rename.RenameFailed, match=r"use\.py:\d+: words -> pager: pager is taken"):
        apply(root, "kais.use:show.words -> pager")


def test_a_name_that_does_not_exist_is_refused(root: Path) -> None:
    with pytest.raises(rename.RenameFailed, match=r"there is no kais\.display:missing"):
        apply(root, "kais.display:missing -> message")


def test_a_module_moves_with_its_imports(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    renamer = rename.Renamer(
        root, rename_map.parse("kais.display -> kais.views.pager"), ("kais", "tests")
    )
    renamer.write(renamer.changes())
    assert (root / "kais/views/pager.py").exists()
    assert not (root / "kais/display.py").exists()
    source = (root / "kais/use.py").read_text()
    assert "from kais.views import pager" in source.replace(" as views_pager", "")
    assert "from kais.views.pager import Pager, say" in source


def test_a_module_whose_new_name_is_taken_is_imported_under_that_of_its_package(
    root: Path,
) -> None:
    changed = apply(root, "kais.display -> kais.views.pager")
    assert "from kais.views import pager as views_pager" in changed["kais/use.py"]
    assert "views_pager.say(pager.told)" in changed["kais/use.py"]


def test_a_map_that_gives_one_name_two_new_ones_is_refused() -> None:
    with pytest.raises(rename_map.InvalidMap, match="renamed twice"):
        rename_map.parse("a:told -> message\na:told -> text")


def test_lines_that_are_no_renames_are_ignored() -> None:
    parsed = rename_map.parse("Rename what is said.\n\n  a.b -> a.c  # moves\na:B.told -> text\n")
    assert parsed == rename_map.RenameMap({"a.b": "a.c"}, {"a:B.told": "text"})
