import json

import pytest
import yaml

from kais_cli.exit_status import ExitStatus
from tests.cli import objects


@pytest.fixture(autouse=True)
def served(cluster):
    cluster.put(objects.blueprint())
    cluster.put(objects.revision())


def test_list_shows_parameters_revisions_and_success(terminal, cluster):
    cluster.put(
        objects.blueprint(
            "used", usageCount=9, avgSuccessRate=0.875, successInterval={"low": 0.53, "high": 0.978}
        )
    )
    assert terminal.run("blueprint", "list") == 0
    assert terminal.out.splitlines() == [
        "NAME    PARAMS               REVISION  SERVED  USES  SUCCESS  CI95    READY  REASON  AGE",
        "doctor  seconds, who*, tier  2         2       -     -        -       True   Served  2m",
        "used    seconds, who*, tier  2         2       9     88%      53-98%  True   Served  2m",
    ]


def test_list_gives_names_for_kubectl(terminal):
    terminal.run("blueprint", "list", "-o", "name")
    assert terminal.out == "blueprint.kais.io/doctor\n"


def test_list_gives_the_objects_as_json(terminal):
    terminal.run("blueprint", "list", "-o", "json")
    assert json.loads(terminal.out)["items"][0]["metadata"]["name"] == "doctor"


def test_an_empty_namespace_is_said_beside_the_output(terminal):
    assert terminal.run("blueprint", "list", "-n", "none") == 0
    assert (terminal.out, terminal.err) == ("", "no blueprints in namespace none\n")


def test_show_has_parameters_statistics_and_conditions(terminal, cluster):
    cluster.put(
        objects.blueprint(
            usageCount=4,
            succeeded=3,
            failed=1,
            avgSuccessRate=0.75,
            successInterval={"low": 0.3, "high": 0.95},
            medianDurationSeconds=12.4,
            lastUsed="2029-12-31T10:00:00Z",
        )
    )
    assert terminal.run("blueprint", "show", "doctor") == 0
    for text in (
        "Looks at pods",
        "seconds  integer  5        ≥ 1, ≤ 60",
        "who*     string   -        matches [a-z]+  whom to ask",
        'tier     enum     "small"  "small", "big"',
        "newest 2, served 2, compiled True",
        "4 uses: 3 succeeded, 1 failed, 0 excluded, 0 without outcome",
        "success rate: 75% (95 % interval 30-95%)",
        "median duration: 12 s",
        "Ready     True    Served    revision 2 serves",
    ):
        assert text in terminal.out


def test_show_of_an_unused_blueprint_claims_no_rate(terminal):
    terminal.run("blueprint", "show", "doctor")
    assert "success rate: unknown, nothing counted so far" in terminal.out


def test_show_gives_yaml_without_managed_fields(terminal, cluster):
    body = objects.blueprint()
    body["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cluster.put(body)
    terminal.run("blueprint", "show", "doctor", "-o", "yaml")
    assert "managedFields" not in yaml.safe_load(terminal.out)["metadata"]


def test_show_of_nothing_says_where_to_look(terminal):
    assert terminal.run("blueprint", "show", "nurse") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Blueprint/demo/nurse does not exist; see `kais blueprint list`\n"
    )


WRONG = ("--set", "seconds=soon", "--set", "secnds=1", "--set", "tier=huge")


@pytest.mark.parametrize("command", ["use", "render"])
def test_every_wrong_parameter_is_named_before_anything_is_created(terminal, cluster, command):
    assert terminal.run("blueprint", command, "doctor", *WRONG) == ExitStatus.USAGE
    assert terminal.err == (
        "error: Blueprint/demo/doctor does not take these parameters:\n"
        "  parameter 'secnds': is not declared; did you mean 'seconds'?\n"
        "  parameter 'seconds': must be an integer, got \"soon\"\n"
        "  parameter 'who': is required\n"
        '  parameter \'tier\': must be one of "small", "big", got "huge"\n'
        "for example `kais blueprint use doctor -n demo --set who=VALUE`;"
        " `kais blueprint show doctor -n demo` describes its parameters; nothing was created\n"
    )
    assert cluster.created == []


def test_values_come_from_a_file_and_set_goes_before_it(terminal, cluster, tmp_path):
    file = tmp_path / "values.yaml"
    file.write_text("who: file\nseconds: 7\n")
    terminal.run(
        "blueprint", "use", "doctor", "--no-wait", "--values", str(file), "--set", "who=a=b"
    )
    assert "must match [a-z]+" in terminal.err

    status = terminal.run(
        "blueprint", "use", "doctor", "--no-wait", "--values", str(file), "--set", "who=bob"
    )
    assert status == 0
    assert cluster.created[0]["spec"]["parameters"] == {"who": "bob", "seconds": 7}


def test_values_come_from_standard_input(terminal, cluster):
    terminal.stdin = "who: ana\n"
    assert terminal.run("blueprint", "use", "doctor", "--no-wait", "--values", "-") == 0
    assert cluster.created[0]["spec"]["parameters"] == {"who": "ana"}


@pytest.mark.parametrize(
    ("content", "message"),
    [("- a list", "must hold a mapping"), ("a: [", "cannot read --values"), (None, "No such file")],
)
def test_a_values_file_that_is_none_is_a_usage_error(terminal, tmp_path, content, message):
    file = tmp_path / "values.yaml"
    if content:
        file.write_text(content)
    status = terminal.run("blueprint", "use", "doctor", "--values", str(file))
    assert status == ExitStatus.USAGE
    assert message in terminal.err


def test_a_set_without_a_name_is_a_usage_error(terminal):
    assert terminal.run("blueprint", "use", "doctor", "--set", "bob") == ExitStatus.USAGE
    assert terminal.err == "error: --set 'bob' is not NAME=VALUE, such as --set name=Ada\n"


def test_a_use_without_waiting_prints_its_generated_name(terminal, cluster):
    assert terminal.run("blueprint", "use", "doctor", "--set", "who=bob", "--no-wait") == 0
    assert terminal.out == "blueprintinstance.kais.io/doctor-x2k4f\n"
    assert cluster.created == [
        {
            "apiVersion": "kais.io/v1",
            "kind": "BlueprintInstance",
            "metadata": {"name": "doctor-x2k4f", "namespace": "demo"},
            "spec": {"blueprintRef": {"name": "doctor"}, "parameters": {"who": "bob"}},
        }
    ]


def test_a_name_and_a_revision_are_taken_as_told(terminal, cluster):
    cluster.put(objects.revision(number=1))
    terminal.run(
        "blueprint", "use", "doctor", "--set", "who=bob", "--no-wait", "--name", "mine",
        "--revision", "1",
    )  # fmt: skip
    assert cluster.created[0]["metadata"]["name"] == "mine"
    assert cluster.created[0]["spec"]["blueprintRef"] == {"name": "doctor", "revision": 1}


def test_an_unknown_revision_lists_the_known_ones(terminal, cluster):
    versions = [{"version": 2, "revision": "doctor-r00002"}]
    cluster.put(objects.blueprint(versions=versions))
    status = terminal.run("blueprint", "use", "doctor", "--set", "who=bob", "--revision", "9")
    assert status == ExitStatus.FAILED
    assert terminal.err == "error: Blueprint/demo/doctor has no revision 9; it has 2\n"


def test_a_blueprint_applied_just_now_is_waited_for(terminal, cluster):
    cluster.put(objects.blueprint(observedGeneration=0, servedRevision=0))
    cluster.script = [None, objects.blueprint()]
    assert terminal.run("blueprint", "use", "doctor", "--set", "who=bob", "--no-wait") == 0


def test_an_operator_that_is_away_is_named(terminal, cluster):
    cluster.put(objects.blueprint(observedGeneration=0, servedRevision=0))
    status = terminal.run("blueprint", "use", "doctor", "--set", "who=bob")
    assert status == ExitStatus.FAILED
    assert "check that kais-operator runs" in terminal.err


def test_a_blueprint_that_does_not_compile_gives_the_reason(terminal, cluster):
    message = "formation.cells[0].name: unknown variable 'whom'"
    compiled = [objects.condition("Compiled", "False", "TemplateError", message)]
    cluster.put(objects.blueprint(servedRevision=0, conditions=compiled))
    assert terminal.run("blueprint", "use", "doctor", "--set", "who=bob") == ExitStatus.FAILED
    assert message in terminal.err
