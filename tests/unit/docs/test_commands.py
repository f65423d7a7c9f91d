"""No command of the documents is left untried, and each one parses."""

import contextlib
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from e2e.support import documents, shell_commands
from kais_cli import app
from kais_cli.completion import command_line
from kais_cli.errors import UsageError
from knowledge_service import settings as service_settings
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
    assert documents.Block(language, "   kubectl get pods\n").is_commands
    assert documents.Block(language, "KAIS_RELEASE=a/b kais doctor\n").is_commands


@pytest.mark.parametrize("language", ["shell", "bash", "sh"])
def test_a_block_of_a_shell_contains_commands(language: str) -> None:
    assert documents.Block(language, "cosign version\n").is_commands


@pytest.mark.parametrize("language", ["", "text", "console"])
def test_a_transcript_is_output(language: str) -> None:
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


FACT_ID = "01a20271-baae-74f2-a8ca-83ecb715fd90"
"""What a reader puts in for one of the placeholders."""
PLACEHOLDERS = ("ID", "$ID", "COPY", "TO", "NAME", "BLUEPRINT", "[BLUEPRINT]")


class Incomplete(Exception):
    """The text names a command without all its arguments, as prose does."""


@functools.cache
def root_command() -> Any:
    return typer.main.get_command(app.build())


def parse(arguments: list[str]) -> None:
    """Parse the arguments of `kais` as the command itself does; nothing runs."""
    command = root_command()
    rest = [FACT_ID if argument in PLACEHOLDERS else argument for argument in arguments]
    name, context = "kais", None
    while True:
        try:
            context = command.make_context(name, rest, parent=context)
        except typer.Exit:  # --help, --version
            return
        except TyperException as exc:
            if type(exc).__name__ in ("MissingParameter", "NoArgsIsHelpError"):
                raise Incomplete from exc
            raise
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            raise Incomplete
        name, command, rest = command.resolve_command(context, rest)


def typed_in_blocks(path: Path) -> Iterator[list[str]]:
    """The commands of a page: those to type, those in transcripts, those that clients start."""
    for block in documents.blocks(path):
        if block.is_commands:
            yield from shell_commands.commands(block.text)
        else:
            yield from shell_commands.transcript(block.text)
        if block.language == "json" and "mcpServers" in block.text:
            servers = json.loads(block.text)["mcpServers"].values()
            yield from ([s["command"], *s["args"]] for s in servers if "command" in s)


def of_program(commands: Iterator[list[str]], *names: str) -> list[list[str]]:
    """The arguments of the programs, also of those that `kubectl exec` starts."""
    typed = [
        command[command.index("--") + 1 :] if "--" in command else command for command in commands
    ]
    return [command[1:] for command in typed if Path(command[0]).name in names]


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_every_kais_command_of_a_block_parses(path: Path) -> None:
    for arguments in of_program(typed_in_blocks(path), "kais", "kubectl-kais"):
        parse(arguments)


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_every_kais_command_in_a_sentence_parses_as_far_as_it_is_written(path: Path) -> None:
    for typed in re.findall(r"`(kais [^`]+)`", path.read_text()):
        if "…" in typed:
            continue
        for arguments in of_program(iter(shell_commands.commands(typed)), "kais"):
            with contextlib.suppress(Incomplete):
                parse(arguments)


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_every_command_of_the_service_in_a_block_parses(path: Path) -> None:
    for arguments in of_program(typed_in_blocks(path), "kais-knowledge"):
        service_settings.parse(arguments, {})


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("blueprint uze notebook", "No such command"),
        ("blueprint use notebook --sett a=b", "No such option"),
        ("mission list extra", "unexpected extra argument"),
    ],
)
def test_wrong_command_does_not_parse(typed: str, message: str) -> None:
    with pytest.raises((TyperException, UsageError)) as caught:
        parse(typed.split())
    assert message.casefold() in str(caught.value).casefold()


def test_commands_of_a_shell_text_are_read_as_a_shell_reads_them() -> None:
    text = """
ID=$(kais knowledge list -o name)
kais doctor 2> errors.log && echo "a; b" | head -1 &  # in the background
cat > file << 'END'
kais is not typed here
END
LEVEL=x kais blueprint validate \\
  -f a.yaml || test $? -eq 2
"""
    assert shell_commands.commands(text) == [
        ["kais", "knowledge", "list", "-o", "name"],
        ["kais", "doctor"],
        ["echo", "a; b"],
        ["head", "-1"],
        ["cat"],
        ["kais", "blueprint", "validate", "-f", "a.yaml"],
        ["test", "$?", "-eq", "2"],
    ]
    assert shell_commands.transcript("$ kais doctor\nok\n") == [["kais", "doctor"]]


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
