"""Every help page ends with examples that the command accepts."""

import shlex
from pathlib import Path

import pytest
import typer
import yaml

from kais_cli import app
from kais_cli.commands import examples, lazy_groups
from scripts import cli_reference

COMMANDS = {typed.removeprefix("kais "): command for typed, command in cli_reference.commands()}
BLUEPRINTS = {
    manifest["metadata"]["name"]: {each["name"] for each in manifest["spec"]["parameters"]}
    for path in Path(cli_reference.__file__).parents[1].glob("examples/*/*.yaml")
    for manifest in yaml.safe_load_all(path.read_text())
    if manifest.get("kind") == "Blueprint"
}
GROUPS = {" ".join(name.split()[:n]) for name in COMMANDS for n in range(name.count(" ") + 1)}


def parse(words):
    """Parse a command line as `kais` does, without running its last command."""
    context = None
    command = typer.main.get_command(app.build())
    name, rest = "kais", words
    while True:
        context = command.make_context(name, list(rest), parent=context)
        if not hasattr(command, "commands"):
            return context
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)


def test_every_command_and_group_has_one_to_three_examples():
    assert set(examples.commands()) == COMMANDS.keys() | GROUPS
    counts = {command: len(examples.of_command(command)) for command in examples.commands()}
    assert {command for command, count in counts.items() if not 1 <= count <= 3} == set()


EXAMPLES = [each for command in examples.commands() for each in examples.of_command(command)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_accepted_by_its_command(example):
    program, *words = shlex.split(example)
    assert program == "kais"
    context = parse(words)
    assert not context.args


SETTING = [each for each in EXAMPLES if " --set " in each]


@pytest.mark.parametrize("example", SETTING)
def test_an_example_sets_parameters_that_its_blueprint_has(example):
    arguments = parse(shlex.split(example)[1:]).params
    names = {each.partition("=")[0] for each in arguments["set_"]}
    assert names
    assert names <= BLUEPRINTS[arguments.get("blueprint") or arguments["name"]]


@pytest.mark.parametrize("command", examples.commands())
def test_the_help_page_ends_with_the_examples(terminal, capsys, command):
    assert terminal.run(*command.split(), "--help") == 0
    shown = "".join(f"  {example}\n" for example in examples.of_command(command))
    assert capsys.readouterr().out.endswith(f"\nExamples:\n{shown}")


def test_an_alias_has_the_examples_of_its_group(terminal, capsys):
    assert terminal.run("use", "wait", "-h") == 0
    assert "  kais instance wait nightly --timeout 10m -o json\n" in capsys.readouterr().out


def test_every_group_of_the_root_is_listed():
    assert set(lazy_groups.COMMAND_GROUPS) <= GROUPS | COMMANDS.keys()
