import re
import subprocess
import sys
from pathlib import Path

import pytest

from kais_cli import errors
from kais_cli.commands import lazy_groups
from kais_cli.exit_status import ExitStatus
from scripts import cli_reference

DOCS = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text(encoding="utf-8")


COMMANDS = dict(cli_reference.commands())


def section(command):
    parts = [part for part in DOCS.split("\n### ") if part.startswith(f"`{command}")]
    return parts[0].split("\n## ")[0] if parts else ""


def test_the_reference_is_what_the_commands_say_make_reference_writes_it_anew():
    assert cli_reference.page(DOCS) == DOCS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command):
    assert section(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_documented(command):
    general = DOCS.split("## Options of every command")[1].split("\n## ")[0]
    for parameter in COMMANDS[command].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--"):
                assert f"`{option}" in section(command) + general, option


@pytest.mark.parametrize("group", lazy_groups.COMMAND_GROUPS)
def test_a_list_of_commands_shows_whole_summaries_at_80_columns(
    terminal, capsys, monkeypatch, group
):
    monkeypatch.setenv("COLUMNS", "80")
    terminal.run(group, "--help")
    assert "..." not in capsys.readouterr().out.replace("]...", "]")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_placeholders_and_no_types_of_python(terminal, capsys, command):
    terminal.run(*command.split()[1:], "--help")
    assert not re.findall(r"<(?:str|path|int|float|bool|list)\b.*|[{}]", capsys.readouterr().out)


def test_every_exit_status_is_documented():
    rows = {f"| {int(status)} | `{status.name}` |" for status in ExitStatus}
    assert not {row for row in rows if row not in DOCS}


def test_help_loads_no_cluster_client_and_no_template_engine():
    code = (
        "import sys; from kais_cli import app; app.main(['--help']);"
        "print([m for m in ('kr8s', 'jinja2', 'rich', 'httpx', 'yaml') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert process.stdout.splitlines()[-1] == "[]"
    assert "blueprint" in process.stdout


def test_reading_an_object_loads_no_client_for_port_forwards_and_no_rich(tmp_path):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    arguments = ["blueprint", "show", "x", "--kubeconfig", str(kubeconfig)]
    code = (
        f"import sys; from kais_cli import app; print(int(app.main({arguments})));"
        "print([m for m in ('kr8s', 'jinja2', 'rich') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == ["7", "[]"]
    assert "of context x in" in process.stderr


def test_the_version_is_printed(terminal, capsys):
    assert terminal.run("--version") == 0
    assert capsys.readouterr().out.startswith("kais ")


def test_no_arguments_show_the_help(terminal):
    assert terminal.run() == ExitStatus.USAGE
    assert terminal.err.startswith("Usage: kais")


def test_an_unknown_command_is_a_usage_error(terminal):
    assert terminal.run("blueprint", "lst") == ExitStatus.USAGE
    assert terminal.err == (
        "error: no such command 'lst'; did you mean list? see `kais blueprint --help`\n"
    )

    assert terminal.run("mission", "wat") == ExitStatus.USAGE
    assert terminal.err.endswith("'wat'; did you mean wait or watch? see `kais mission --help`\n")


def test_a_form_that_a_command_does_not_have_is_a_usage_error(terminal):
    assert terminal.run("mission", "wait", "m", "-o", "wide") == ExitStatus.USAGE
    assert terminal.err == (
        "error: invalid value for '--output' / '-o': 'wide' is not one of 'table', 'json', 'yaml',"
        " 'name'; see `kais mission wait --help`\n"
    )


def test_an_option_without_its_argument_is_an_error_as_any_other(terminal):
    assert terminal.run("blueprint", "use", "notebook", "--set") == ExitStatus.USAGE
    assert terminal.err == "error: option '--set' requires an argument\n"


def test_options_choose_cluster_and_namespace(terminal):
    terminal.run("mission", "list", "--context", "c", "--kubeconfig", "/k", "-n", "other")

    assert (terminal.asked[0].kubeconfig, terminal.asked[0].context) == ("/k", "c")
    assert terminal.err == "no missions in namespace other\n"


def test_the_kubeconfig_comes_from_the_environment(terminal, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    terminal.run("mission", "list")

    assert terminal.asked[0].kubeconfig == "/from/environment"


def test_an_unreachable_cluster_is_status_7_and_one_line(terminal, cluster):
    cluster.failure = errors.Unreachable("list missions: the API server does not answer")

    assert terminal.run("mission", "list") == ExitStatus.UNREACHABLE
    assert terminal.err == "error: list missions: the API server does not answer\n"


def test_a_bug_shows_no_traceback_but_the_way_to_one(terminal):
    terminal.open_cluster = None

    assert terminal.run("mission", "list") == ExitStatus.FAILED
    assert "Traceback" not in terminal.err
    assert "run it again with --traceback" in terminal.err


def test_a_traceback_is_shown_when_asked_for(terminal):
    terminal.open_cluster = None

    terminal.run("mission", "list", "--traceback")
    assert "Traceback (most recent call last)" in terminal.err


def test_an_object_that_breaks_rules_names_every_violation(terminal, cluster):
    cluster.put(
        {
            "kind": "Mission",
            "metadata": {"name": "odd", "namespace": "demo"},
            "spec": {"formationRef": "a", "cellRef": "b"},
        }
    )

    assert terminal.run("mission", "show", "odd") == ExitStatus.FAILED
    assert "Mission/demo/odd is not valid:\n  spec" in terminal.err


def test_the_commands_for_cells_are_documented():
    process = subprocess.run(
        [sys.executable, "-m", "knowledge_client", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = [line.split()[0] for line in process.stdout.splitlines() if line.startswith("    ")]
    assert {"recall", "remember", "episode", "correct"} <= set(listed)
    assert all(f"`kais-knowledge-client {name} " in DOCS for name in listed)


def test_completion_of_another_shell_names_those_there_are(terminal):
    assert terminal.run("completion", "cmd") == ExitStatus.USAGE
    assert terminal.err == "error: no completion for cmd; there is bash, zsh, fish\n"
