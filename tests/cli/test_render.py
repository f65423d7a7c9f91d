import json

import pytest
import yaml

from kais_cli.exit_status import ExitStatus
from tests.cli import objects

RENDER = ("blueprint", "render", "doctor", "--set", "who=bob")

NOTEBOOK = """\
apiVersion: kais.io/v1
kind: Blueprint
metadata: {name: notebook}
spec:
  parameters:
    - {name: question, type: string, example: why}
    - {name: size, type: integer, default: 3}
  formation:
    cells:
      - name: writer
        spec: {mode: Task, container: {image: "writer:1", args: ["{{ instance.namespace }}"]}}
  mission:
    objective: "{{ question }} in {{ size }} lines"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "notebook.yaml"
    path.write_text(NOTEBOOK)
    return path


@pytest.fixture(autouse=True)
def served(cluster):
    cluster.put(objects.blueprint())
    cluster.put(objects.revision())


def test_formation_and_mission_are_printed_as_they_would_be_made(terminal, cluster):
    assert terminal.run(*RENDER) == 0
    formation, mission = yaml.safe_load_all(terminal.out)
    assert (formation["kind"], formation["metadata"]["name"]) == ("Formation", "doctor-x2k4f")
    assert formation["spec"]["cells"][0]["spec"]["container"]["image"] == "doctor:1"
    assert formation["spec"]["knowledge"]["scope"] == "doctor"
    assert mission["spec"]["objective"] == "look for bob within 5 s"
    assert mission["spec"]["formationRef"] == "doctor-x2k4f"
    assert cluster.created == []


def test_json_is_a_list_and_names_are_for_pipes(terminal):
    terminal.run(*RENDER, "-o", "json")
    assert [body["kind"] for body in json.loads(terminal.out)] == ["Formation", "Mission"]
    terminal.run(*RENDER, "-o", "name")
    assert terminal.out == "formation.kais.io/doctor-x2k4f\nmission.kais.io/doctor-x2k4f\n"


def test_a_template_that_fails_names_the_leaf(terminal, cluster):
    broken = objects.revision()
    broken["spec"] |= {"mission": {"objective": "{{ seconds / 0 }}"}}
    cluster.put(broken)
    assert terminal.run(*RENDER) == ExitStatus.USAGE
    assert "BlueprintRevision/demo/doctor-r00002 cannot be rendered" in terminal.err
    assert "mission.objective" in terminal.err


def test_a_file_is_rendered_without_a_cluster(terminal, cluster, file):
    arguments = ("-f", str(file), "--set", "question=why", "--name", "test")
    assert terminal.run("blueprint", "render", *arguments) == 0, terminal.err
    formation, mission = yaml.safe_load_all(terminal.out)
    assert formation["metadata"] == {"name": "test", "namespace": "default"}
    assert formation["spec"]["cells"][0]["spec"]["container"]["args"] == ["default"]
    assert formation["spec"]["knowledge"]["scope"] == "notebook"
    assert mission["spec"]["objective"] == "why in 3 lines"
    assert cluster.used == set()


@pytest.mark.parametrize(
    ("in_file", "option", "expected"),
    [("", (), "default"), ("lab", (), "lab"), ("lab", ("-n", "demo"), "demo")],
)
def test_the_namespace_is_that_of_the_option_or_of_the_file(
    terminal, file, in_file, option, expected
):
    metadata = f"name: notebook, namespace: {in_file}" if in_file else "name: notebook"
    file.write_text(NOTEBOOK.replace("name: notebook", metadata))
    arguments = ("-f", str(file), "--set", "question=why", "-o", "json", *option)
    assert terminal.run("blueprint", "render", *arguments) == 0, terminal.err
    assert {body["metadata"]["namespace"] for body in json.loads(terminal.out)} == {expected}


def test_standard_input_is_rendered(terminal):
    terminal.stdin = NOTEBOOK
    arguments = ("-f", "-", "--set", "question=why", "-o", "name")
    assert terminal.run("blueprint", "render", *arguments) == 0, terminal.err
    assert terminal.out == "formation.kais.io/notebook-x2k4f\nmission.kais.io/notebook-x2k4f\n"


def test_a_name_chooses_among_the_blueprints_of_a_file(terminal, file):
    file.write_text(f"{NOTEBOOK}---\n{NOTEBOOK.replace('name: notebook', 'name: diary')}")
    arguments = ("-f", str(file), "--set", "question=why", "-o", "name")
    assert terminal.run("blueprint", "render", *arguments) == ExitStatus.USAGE
    assert terminal.err == f"error: {file} has 2 Blueprints: notebook, diary; name one\n"
    assert terminal.run("blueprint", "render", "diary", *arguments) == 0
    assert terminal.out.startswith("formation.kais.io/diary-")
    assert terminal.run("blueprint", "render", "novel", *arguments) == ExitStatus.USAGE
    assert terminal.err == f"error: {file} has no Blueprint novel; it has notebook, diary\n"


def test_mistakes_in_the_values_of_a_file_name_the_command_that_repairs_them(terminal, file):
    assert terminal.run("blueprint", "render", "-f", str(file), "--set", "sise=4") == (
        ExitStatus.USAGE
    )
    assert terminal.err == (
        f"error: Blueprint notebook in {file} does not take these parameters:\n"
        "  parameter 'sise': is not declared; did you mean 'size'?\n"
        "  parameter 'question': is required\n"
        f"for example `kais blueprint render notebook -f {file} --set question=why`;"
        " its spec.parameters describes them\n"
    )


def test_a_file_that_does_not_compile_is_refused_with_its_line(terminal, file):
    file.write_text(NOTEBOOK.replace("{{ size }}", "{{ sise }}"))
    arguments = ("-f", str(file), "--set", "question=why")
    assert terminal.run("blueprint", "render", *arguments) == ExitStatus.USAGE
    assert f"{file}:13: mission.objective" in terminal.err
    assert "'sise' is not declared; did you mean 'size'?" in terminal.err


def test_a_value_that_only_these_parameters_break_names_the_blueprint_of_the_file(terminal, file):
    file.write_text(NOTEBOOK.replace("{{ size }}", "{{ 6 // size }}"))
    arguments = ("-f", str(file), "--set", "question=why", "--set", "size=0")
    assert terminal.run("blueprint", "render", *arguments) == ExitStatus.USAGE
    assert terminal.err.startswith(
        f"error: Blueprint notebook in {file} cannot be rendered with these values:\n"
        "  mission.objective"
    )


def test_a_place_without_a_blueprint_is_named_with_advice_that_render_can_follow(
    terminal, tmp_path
):
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "notebook.yaml").write_text(NOTEBOOK)
    assert terminal.run("blueprint", "render", "-f", "-") == ExitStatus.USAGE
    assert terminal.err == "error: standard input holds no object of kind Blueprint\n"
    assert terminal.run("blueprint", "render", "-f", str(tmp_path)) == ExitStatus.USAGE
    assert terminal.err == (
        f"error: {tmp_path} holds no file with an object of kais; its files end in"
        " .yaml, .yml, .json\n"
    )


def test_render_needs_a_name_or_a_file(terminal, cluster):
    assert terminal.run("blueprint", "render") == ExitStatus.USAGE
    assert terminal.err == "error: give the name of a Blueprint, or a file with --file\n"
    assert terminal.run("blueprint", "render", "-f", "a.yaml", "--revision", "2") == (
        ExitStatus.USAGE
    )
    assert terminal.err == "error: --revision and --file exclude each other\n"
    for option in (("--values", "-"), ("--set-file", "question=-")):
        assert terminal.run("blueprint", "render", "-f", "-", *option) == ExitStatus.USAGE
        assert terminal.err == (
            "error: --file is standard input, so --values and --set-file need a file\n"
        )
    assert cluster.used == set()


def test_a_value_that_is_not_utf_8_is_a_mistake_of_the_user(terminal, file):
    # Python gives the bytes of an argument that it cannot decode as half surrogate pairs.
    arguments = ("-f", str(file), "--set", "question=caf\udce9")
    assert terminal.run("blueprint", "render", *arguments) == ExitStatus.USAGE
    assert terminal.err == (
        "error: an argument is not UTF-8; check the encoding of your shell (LC_ALL)\n"
    )


def test_standard_input_that_is_not_utf_8_is_named(terminal, file):
    terminal.stdin = "caf\udce9\n"  # what Python reads where the locale is C
    arguments = ("-f", str(file), "--set-file", "question=-")
    assert terminal.run("blueprint", "render", *arguments) == ExitStatus.USAGE
    assert terminal.err == "error: standard input is not UTF-8 text\n"


def test_a_parameter_takes_its_text_from_a_file_or_from_standard_input(terminal, file, tmp_path):
    (tmp_path / "question.md").write_text("Why?\n\nAnd a=b, really?\n")
    arguments = ("-f", str(file), "-o", "json")
    from_file = ("--set-file", f"question={tmp_path / 'question.md'}", "--set", "size=2")
    assert terminal.run("blueprint", "render", *arguments, *from_file) == 0, terminal.err
    assert json.loads(terminal.out)[1]["spec"]["objective"] == (
        "Why?\n\nAnd a=b, really? in 2 lines"
    )
    assert terminal.err == "", "a comma in a file is no second assignment"
    terminal.stdin = "whence?\n"
    assert terminal.run("blueprint", "render", *arguments, "--set-file", "question=-") == 0
    assert json.loads(terminal.out)[1]["spec"]["objective"] == "whence? in 3 lines"


def test_a_text_of_a_file_has_the_type_of_its_parameter_and_takes_precedence(
    terminal, file, tmp_path
):
    (tmp_path / "size").write_text("7\n")
    (tmp_path / "values.yaml").write_text("{question: why, size: 1}")
    arguments = ("-f", str(file), "-o", "json", "--values", str(tmp_path / "values.yaml"))
    size = ("--set-file", f"size={tmp_path / 'size'}")
    assert terminal.run("blueprint", "render", *arguments, *size) == 0, terminal.err
    assert json.loads(terminal.out)[1]["spec"]["objective"] == "why in 7 lines"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--set-file", "question"),
            "--set-file 'question' is not NAME=FILE, such as --set-file log=app.log",
        ),
        (
            ("--set-file", "question=/missing"),
            "cannot read --set-file question=/missing: No such file or directory",
        ),
        (
            ("--set", "question=a", "--set-file", "question=-"),
            "--set-file 'question=-': question already has a value; give one",
        ),
        (
            ("--set-file", "question=-", "--set-file", "size=-"),
            "only one of --values and --set-file can be standard input",
        ),
        (
            ("--set-file", "question=-", "--values", "-"),
            "only one of --values and --set-file can be standard input",
        ),
    ],
)
def test_a_mistake_in_set_file_is_named(terminal, file, options, message):
    assert terminal.run("blueprint", "render", "-f", str(file), *options) == ExitStatus.USAGE
    assert terminal.err == f"error: {message}\n"
