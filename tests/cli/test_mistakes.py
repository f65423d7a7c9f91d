"""The mistakes of a first week: each message names the mistake and what to do next."""

import copy
from pathlib import Path

import pytest

from kais_cli import errors
from kais_cli.blueprints import render_requests
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

BLUEPRINT = """\
apiVersion: kais.io/v1
kind: Blueprint
metadata: {name: notebook}
spec:
  parameters:
    - {name: question, type: string, minLength: 1, example: why}
    - {name: note, type: string, default: hi}
    - {name: extra, type: string, required: false}
  formation:
    cells:
      - name: writer
        spec:
          mode: Task
          container:
            image: localhost/kais/client:0.1.0
            command: [sh, -c, "echo hi"]
            env:
              - {name: NOTE, value: "{{ note }}"}
  mission:
    objective: "{{ question }}"
    completion: {maxAttempts: 1}
"""


def error_of(terminal, tmp_path: Path, text: str) -> str:
    file = tmp_path / "notebook.yaml"
    file.write_text(text)
    assert terminal.run("blueprint", "validate", "-f", str(file)) == ExitStatus.USAGE
    return terminal.err


@pytest.mark.parametrize(
    ("correct", "mistake", "words"),
    [
        pytest.param(
            "maxAttempts: 1", "maxAttempt: 1",
            "maxAttempt: is not a field of this object; did you mean maxAttempts?", id="field",
        ),
        pytest.param(
            "maxAttempts: 1", "maxAttempts: many",
            'maxAttempts: input should be a valid integer, got "many"; write a whole number'
            " without quotes, such as 3", id="type",
        ),
        pytest.param(
            '"{{ note }}"', "{{ note }}",
            "notebook.yaml:18:37: YAML reads braces as a mapping; put the template in quotes:"
            ' "{{ note }}"', id="template without quotes",
        ),
        pytest.param(
            '"{{ question }}"', '"ask {{ question"',
            "mission.objective, line 1, column 5: the expression that begins here is not closed;"
            " end it with }}", id="template not closed",
        ),
        pytest.param(
            "{{ question }}", "{{ quesion }}",
            "'quesion' is not declared; did you mean 'question'? declared: blueprint, extra,"
            " instance, note, question", id="name not declared",
        ),
        pytest.param(
            '"{{ note }}"', "3",
            'env[0].value: must be text, got 3; write "3", or {{ … | string }} in a template'
            " (cell writer)", id="number in env",
        ),
        pytest.param(
            '"{{ note }}"', "N",
            "must be text, got false; put it in quotes (YAML reads n, no and off as false)",
            id="letter in env",
        ),
        pytest.param(
            '"{{ note }}"', "yes",
            "must be text, got true; put it in quotes (YAML reads y, yes and on as true)",
            id="boolean in env",
        ),
        pytest.param(
            "            image: localhost/kais/client:0.1.0\n", "",
            "container.image: is required: the image that the cell runs, such as"
            " registry.example/team/agent:1.0 (cell writer)", id="image",
        ),
        pytest.param(
            "    completion", "    entrypoint: {cell: reader}\n    completion",
            '"reader" is not a cell of the formation; it has writer', id="entrypoint",
        ),
        pytest.param(
            "  mission:\n", "  mission:\n    replicas: 3\n",
            "mission.replicas: is not a field of this object; it is a field of formation.cells",
            id="field of another object",
        ),
        pytest.param(
            "  mission:\n",
            '      - {name: writer, spec: {container: {image: "a:1"}}}\n  mission:\n',
            'formation: cells[1]: name "writer" is a duplicate of cells[0]', id="cells of one name",
        ),
        pytest.param(
            "- {name: NOTE,", '- {$if: "{{ extra }}", name: NOTE,',
            "'extra' has no value: it is optional and has no default; test it with `extra is"
            " defined`, or write `extra | default(...)`", id="optional parameter in $if",
        ),
        pytest.param(
            "default: hi", "default: no",
            "parameter 'note': default must be a string, got false; in YAML, put text in quotes",
            id="default that YAML reads as a boolean",
        ),
        pytest.param(
            "default: hi", "default: 012",
            "default must be a string, got 10; in YAML, put text in quotes",
            id="default that YAML reads as a number",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_blueprint_is_named_with_the_next_step(
    terminal, tmp_path, correct, mistake, words
):
    assert correct in BLUEPRINT
    assert words in error_of(terminal, tmp_path, BLUEPRINT.replace(correct, mistake))


@pytest.mark.parametrize("condition", ["extra is defined", "extra | default('')"])
def test_what_the_message_about_optional_parameters_advises_works(terminal, tmp_path, condition):
    file = tmp_path / "notebook.yaml"
    file.write_text(
        BLUEPRINT.replace("- {name: NOTE,", f'- {{$if: "{{{{ {condition} }}}}", name: NOTE,')
    )
    assert terminal.run("blueprint", "validate", "-f", str(file)) == 0, terminal.err


def test_a_pattern_that_never_ends_is_the_cause_and_the_value_is_not_judged(
    terminal, tmp_path, monkeypatch
):
    monkeypatch.setattr(render_requests, "_LIMIT_S", 2)
    pattern = f'pattern: "(a+)+$", example: {"a" * 40}!'
    error = error_of(terminal, tmp_path, BLUEPRINT.replace("minLength: 1, example: why", pattern))
    assert "at parameter 'question'; its pattern does not end on this value" in error
    assert "which may be valid or not: make the pattern simpler" in error


@pytest.fixture
def ready(cluster):
    cluster.put(objects.blueprint())
    cluster.put(objects.revision(number=1))
    cluster.put(objects.revision(number=2))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (100_000, "mission.objective: has 100,020 characters; the maximum is 65,536\n"),
        (1_000_000, "mission.objective: a value is larger than 256 KiB"),
    ],
)
def test_an_objective_that_is_too_long_creates_nothing(terminal, cluster, ready, size, words):
    status = terminal.run("blueprint", "use", "doctor", "--set", f"who={'x' * size}")
    assert status == ExitStatus.USAGE
    assert words in terminal.err
    assert f"parameter who has {size:,} characters\n" in terminal.err
    assert terminal.err.endswith("nothing was created\n")
    assert cluster.created == []


def test_assignments_that_are_joined_by_commas_are_one_value_with_a_warning(terminal, ready):
    values = ("--set", "who=Ada,seconds=3,x=y", "--set", "tier=a,b")
    terminal.run("blueprint", "use", "doctor", *values, "--dry-run")
    assert terminal.err.startswith(
        "warning: the value of who is all of 'Ada,seconds=3,x=y'; to set seconds as well, repeat"
        " --set\n"
    )
    assert terminal.err.count("warning") == 1


def test_a_namespace_that_does_not_exist_is_named_with_the_nearest(terminal, cluster, ready):
    for name in ("demo", "tutorial"):
        cluster.put({"kind": "Namespace", "metadata": {"name": name}})
    assert terminal.run("blueprint", "use", "doctor", "-n", "tutorail") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Blueprint/tutorail/doctor does not exist; there is no namespace tutorail; did you"
        " mean tutorial? `kubectl create namespace tutorail` creates it\n"
    )


def test_an_empty_list_of_a_namespace_that_does_not_exist_says_so(terminal, cluster):
    cluster.put({"kind": "Namespace", "metadata": {"name": "tutorial"}})
    assert terminal.run("mission", "list", "-n", "tutorail") == ExitStatus.SUCCEEDED
    assert terminal.err == (
        "no missions in namespace tutorail; there is no namespace tutorail; did you mean tutorial?"
        " `kubectl create namespace tutorail` creates it\n"
    )


def test_a_misspelt_name_is_answered_with_the_nearest(terminal, ready):
    assert terminal.run("blueprint", "show", "docter") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Blueprint/demo/docter does not exist; did you mean doctor? see"
        " `kais blueprint list`\n"
    )


def test_an_object_of_another_namespace_is_named_with_it(terminal, ready):
    assert terminal.run("blueprint", "show", "doctor", "-n", "default") == ExitStatus.FAILED
    assert "Blueprint/default/doctor does not exist; it exists in demo: add -n demo" in terminal.err


@pytest.mark.parametrize(
    ("metadata", "tool"),
    [
        ({"labels": {"argocd.argoproj.io/instance": "apps"}}, "Argo CD"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux"),
        ({"annotations": {"meta.helm.sh/release-name": "apps"}}, "Helm"),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "Argo CD"),
    ],
)
def test_a_rollback_that_gitops_will_undo_says_so(terminal, cluster, ready, metadata, tool):
    body = copy.deepcopy(objects.blueprint())
    body["metadata"] |= metadata
    cluster.put(body)
    assert terminal.run("blueprint", "rollback", "doctor", "--to", "1") == 0
    assert (
        f"warning: {tool} manages Blueprint/demo/doctor and will undo this; restore the template"
        " in its source as well\n"
    ) in terminal.err


def test_a_rollback_of_a_blueprint_that_no_tool_manages_has_no_warning(terminal, ready):
    assert terminal.run("blueprint", "rollback", "doctor", "--to", "1") == 0
    assert terminal.err == ""


@pytest.mark.parametrize(
    ("correct", "mistake", "line"),
    [
        ("maxAttempts: 1", "maxAttempt: 1", 21),
        ('value: "{{ note }}"', "value: 3", 18),
        ("default: hi", "default: no", 7),
        ("            image: localhost/kais/client:0.1.0\n", "", 14),
        ('"{{ question }}"', '"{{ question"', 20),
        ("minLength", "minLenght", 6),
        ("  mission:", "  misson:", 19),
        ("kind:", "replicas: 3\nkind:", 2),
        ("spec:\n", "spec:\n  description: 3\n", 5),
        (
            "  mission:\n",
            '      - {name: writer, spec: {container: {image: "a:1"}}}\n  mission:\n',
            19,
        ),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(terminal, tmp_path, correct, mistake, line):
    assert f"\n  {tmp_path / 'notebook.yaml'}:{line}: " in error_of(
        terminal, tmp_path, BLUEPRINT.replace(correct, mistake, 1)
    )


def test_one_broken_file_hides_no_mistake_of_another(terminal, tmp_path):
    (tmp_path / "a.yaml").write_text("kind: [")
    (tmp_path / "b.yaml").write_text(BLUEPRINT.replace("maxAttempts", "maxAttempt"))
    (tmp_path / "c.yaml").write_text(BLUEPRINT)
    assert terminal.run("blueprint", "validate", "-f", str(tmp_path)) == ExitStatus.USAGE
    assert "error: cannot read" in terminal.err
    assert "b.yaml:" in terminal.err
    assert "c.yaml: the template renders" in terminal.out


COMMANDS_WITH_A_NAME = [
    *(f"blueprint {verb} NAME" for verb in ("show", "render", "use", "history", "diff", "stats")),
    "blueprint use doctor --no-wait --name NAME",
    *(f"instance {verb} NAME" for verb in ("show", "wait", "logs", "delete")),
    *(f"mission {verb} NAME" for verb in ("show", "watch", "wait", "retry", "abort", "logs")),
    "mission approve NAME",
    "mission reject NAME --feedback no",
    "mission extract NAME --replay",
    "formation show NAME",
    "formation scale NAME --cell a --replicas 2",
    *(f"cell {verb} NAME" for verb in ("show", "logs", "approve")),
]


@pytest.mark.parametrize("command", COMMANDS_WITH_A_NAME)
@pytest.mark.parametrize("name", ["", "../x"])
def test_a_command_refuses_what_is_no_name_before_it_calls_the_cluster(
    terminal, cluster, command, name
):
    arguments = [name if part == "NAME" else part for part in command.split()]
    assert terminal.run(*arguments) == ExitStatus.USAGE
    assert f"{name!r} is not " in terminal.err
    assert cluster.used == set()


def test_advice_about_a_missing_object_leaves_out_what_nests_too_deeply(
    terminal, cluster, monkeypatch
):
    def listing(kind, namespace=None, **options):
        if namespace is None:
            raise errors.TooDeep(f"list {kind} in all namespaces: an object nests too deeply")
        return []

    monkeypatch.setattr(cluster, "list", listing)
    assert terminal.run("blueprint", "show", "nothere") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Blueprint/demo/nothere does not exist; see `kais blueprint list`\n"
    )
