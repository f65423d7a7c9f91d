"""No command of the documents is left untried, and each names commands that exist."""

import re
from pathlib import Path

import pytest

from e2e.support import documents
from kais_cli.completion import command_line
from scripts import cli_reference

ROOT = documents.ROOT
PATHS = documents.paths()
_TYPED = re.compile(r"kais ([a-z]+)(?: ([a-z][a-z-]+))?")
OWN_COMMANDS = {typed for typed, _ in cli_reference.commands()}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_every_command_block_is_run_by_a_test(path: Path) -> None:
    untried = [
        block.text
        for block in documents.blocks(path)
        if block.is_commands and block.language != "sh"
    ]
    assert untried == [], "fence it as sh; output that shows commands has a prompt before them"


@pytest.mark.parametrize("language", ["", "text", "bash", "sh"])
def test_commands_are_commands_whatever_their_fence_says(language: str) -> None:
    assert documents.Block(language, "kubectl get pods\n").is_commands
    assert documents.Block(language, "# first\nkais doctor\n").is_commands
    assert not documents.Block(language, "$ kais doctor\nok\n").is_commands


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_what_another_test_runs_names_a_file_that_is_there(path: Path) -> None:
    for block in documents.blocks(path):
        if block.run_by:
            file = re.split(r"[,: ]", block.run_by)[0]
            assert (ROOT / file).exists(), block.run_by


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_every_kais_command_in_a_document_exists(path: Path) -> None:
    typed = re.findall(r"`(kais [^`]+)`", path.read_text())
    typed += documents.script(path).splitlines()
    groups = [match.groups() for line in typed if (match := _TYPED.match(line))]
    paths = [tuple(typed.split()[1:]) for typed in OWN_COMMANDS]
    known_names = {path[:2] for path in paths}
    rooms = {texts[0] for texts in known_names}
    for typed_room, verb in groups:
        room = command_line.ALIASES.get(typed_room, typed_room)
        assert room in rooms, f"kais {room}"
        if verb and (room,) not in known_names:
            assert (room, verb) in known_names, f"kais {room} {verb}"


def test_a_block_under_the_name_of_a_file_is_written_for_the_reader(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text(
        "```yaml\n# file: a.yaml\na: 1\n```\n\n```sh\nkubectl create namespace x\n```\n"
    )
    assert documents.files(page) == {"a.yaml": "# file: a.yaml\na: 1\n"}
    script = documents.script(page)
    assert script == "kubectl create namespace x\n"
    assert documents.namespaces(script) == ["x"]
    typed = script + "kais use b -n x --set x=1\n"
    assert documents.in_fresh_namespaces(typed, "1f") == (
        "kubectl create namespace x-1f\nkais use b -n x-1f --set x=1\n"
    )
