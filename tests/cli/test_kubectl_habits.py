"""What users of kubectl type without thinking: options, their places, names with a type."""

import json

import pytest
import yaml

from kais_cli.exit_status import ExitStatus
from kais_cli.views import output
from scripts import cli_reference
from tests.cli import objects


@pytest.fixture(autouse=True)
def missions(cluster):
    elsewhere = objects.mission()
    elsewhere["metadata"] |= {"namespace": "prod", "labels": {"team": "red"}}
    cluster.put(objects.ended(display={"facts": "2 in, 3 out"}))
    cluster.put(elsewhere)


@pytest.mark.parametrize("command", dict(cli_reference.commands()))
def test_the_short_option_shows_the_help_of_every_command(terminal, capsys, command):
    assert terminal.run(*command.split()[1:], "-h") == 0
    assert capsys.readouterr().out.startswith(f"Usage: {command}")


def test_help_before_a_command_is_the_help_of_the_command(terminal, capsys):
    assert terminal.run("help", "mission", "list") == 0
    assert capsys.readouterr().out.startswith("Usage: kais mission list")
    assert terminal.run("help") == 0
    assert capsys.readouterr().out.startswith("Usage: kais [OPTIONS]")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-n", "prod", "mission", "list"),
        ("mission", "list", "-n", "prod"),
        ("-n", "demo", "mission", "list", "-n", "prod"),
    ],
)
def test_the_namespace_may_stand_before_or_after_the_command(terminal, arguments):
    assert terminal.run(*arguments, "-o", "name") == 0
    assert terminal.asked[-1].context is None
    assert "doctor-x2k4f" in terminal.out
    assert terminal.run(*arguments) == 0
    assert "2 in, 3 out" not in terminal.out


def test_a_context_before_the_command_selects_the_cluster(terminal):
    terminal.run("--context", "staging", "mission", "list")
    assert terminal.asked[-1].context == "staging"


def test_a_kubeconfig_before_the_command_comes_before_the_variable(terminal, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/from/the/variable")
    terminal.run("mission", "list")
    assert terminal.asked[-1].kubeconfig == "/from/the/variable"
    terminal.run("--kubeconfig", "/typed", "mission", "list")
    assert terminal.asked[-1].kubeconfig == "/typed"


def test_all_namespaces_are_listed_with_a_column_of_their_names(terminal):
    assert terminal.run("mission", "list", "-A") == 0
    assert terminal.out.splitlines() == [
        "NAMESPACE  NAME          STATUS     OUTCOME    REASON  ATTEMPT  FACTS        COST  AGE",
        "demo       doctor-x2k4f  Succeeded  Succeeded  -       1/3      2 in, 3 out  -     2m",
        "prod       doctor-x2k4f  -          -          -       -        -            -     2m",
    ]


def test_a_selector_lists_the_objects_with_its_labels(terminal):
    assert terminal.run("mission", "list", "-A", "-l", "team=red") == 0
    assert [line.split()[0] for line in terminal.out.splitlines()] == ["NAMESPACE", "prod"]


def test_a_list_without_objects_says_what_was_looked_for(terminal):
    terminal.run("formation", "list", "-A", "-l", "team=red")
    assert terminal.err == "no formations with the labels team=red in any namespace\n"


def test_a_watch_prints_the_list_and_then_each_object_that_changes(terminal, cluster):
    cluster.script = [objects.mission(phase="Running", attempt=1), objects.ended()]
    assert terminal.run("mission", "list", "-w") == 0
    rows = [line.split()[:2] for line in terminal.out.splitlines()]
    assert rows == [
        ["NAME", "STATUS"],
        ["doctor-x2k4f", "Succeeded"],
        ["doctor-x2k4f", "Running"],
        ["doctor-x2k4f", "Succeeded"],
    ]


GROUPS = {
    "blueprint": objects.blueprint,
    "formation": lambda: objects.made("Formation", "doctor", objects.TEMPLATE["formation"]),
    "instance": objects.instance,
    "mission": objects.mission,
    "cell": lambda: objects.made("Cell", "lead", {"container": {"image": "lead:1"}}),
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_watch_prints_the_age_that_an_object_has_when_it_changes(terminal, cluster, group):
    body = GROUPS[group]()
    cluster.put(body)
    cluster.script = [*[None] * 3600, body]
    assert terminal.run(group, "list", "-w") == 0
    assert [line.split()[-1] for line in terminal.out.splitlines()] == ["AGE", "2m", "62m"]


def test_a_wide_list_has_the_reason_and_the_message_of_the_summary(terminal, cluster):
    failed = objects.condition("Succeeded", "False", "TaskFailed", "exit code 3")
    cluster.put(objects.ended("Failed", conditions=[failed]))
    assert terminal.run("mission", "list", "-o", "wide") == 0
    header, row = terminal.out.splitlines()
    assert header.endswith("AGE  REASON      MESSAGE")
    assert row.endswith("TaskFailed  exit code 3")


def test_json_is_a_list_of_kubernetes_as_kubectl_prints_it(terminal):
    assert terminal.run("mission", "list", "-o", "json") == 0
    listed = json.loads(terminal.out)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["doctor-x2k4f"]


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("group", ["list", "show"])
def test_an_object_as_deep_as_the_parser_reads_is_printed(terminal, cluster, group, form):
    body = objects.ended()
    body["spec"]["input"] = json.loads('{"level":' * 700 + "1" + "}" * 700)
    cluster.put(body)
    names = () if group == "list" else ("doctor-x2k4f",)
    assert terminal.run("mission", group, *names, "-o", form) == 0, terminal.err
    assert terminal.out.count("level") == 700


def test_texts_of_several_lines_are_blocks_in_yaml():
    text = output.dump({"args": ["set -e\necho hi\n"], "none": "x"}, output.Format.YAML)
    assert text == "args:\n- |\n  set -e\n  echo hi\nnone: x\n"


@pytest.mark.parametrize(
    "text", [" begins\nwith a space", "ends \nwith it", "a\ttab\n", "\n\n", "a\n\n  b\n\n", "#\n: "]
)
def test_yaml_keeps_texts_of_several_lines(text):
    assert yaml.safe_load(output.dump({"text": text}, output.Format.YAML)) == {"text": text}


def test_a_list_takes_a_jsonpath_template(terminal):
    template = 'jsonpath={range .items[*]}{.metadata.namespace}{"\\n"}{end}'
    assert terminal.run("mission", "list", "-A", "-o", template) == 0
    assert terminal.out == "demo\nprod\n"


@pytest.mark.parametrize("group", ["blueprint", "instance", "formation", "cell", "mission"])
def test_every_object_can_be_shown_by_a_jsonpath_template(terminal, cluster, group):
    for body in (
        objects.blueprint(),
        objects.instance(),
        objects.made("Formation", "doctor-x2k4f", {"cells": []}),
        objects.made("Cell", "doctor-x2k4f-doctor", {"mode": "Task"}),
    ):
        cluster.put(body)
    terminal.run(group, "list", "-o", "name")
    name = terminal.out.splitlines()[0]
    assert terminal.run(group, "show", name, "-o", "jsonpath={.metadata.name}") == 0, terminal.err
    assert terminal.out == name.partition("/")[2]


def test_an_unknown_format_is_answered_with_the_formats(terminal):
    assert terminal.run("mission", "list", "-o", "jsn") == ExitStatus.USAGE
    assert terminal.err == (
        "error: -o 'jsn' is not one of table, wide, json, yaml, name, jsonpath=TEMPLATE;"
        " did you mean json?\n"
    )
    assert terminal.run("mission", "show", "m", "-o", "wide") == ExitStatus.USAGE


def test_a_template_that_cannot_be_read_asks_no_cluster(terminal):
    assert terminal.run("mission", "show", "m", "-o", "jsonpath={.a") == ExitStatus.USAGE
    assert "is not closed; end it with }" in terminal.err
    assert terminal.asked == []


def test_a_list_is_sorted_by_a_field(terminal, cluster):
    for name, created in (("late", "2029-12-31T00:00:00Z"), ("early", "2029-01-01T00:00:00Z")):
        body = objects.mission()
        body["metadata"] |= {"name": name, "creationTimestamp": created}
        cluster.put(body)
    terminal.run("mission", "list", "--sort-by", ".metadata.creationTimestamp", "-o", "name")
    names = [line.partition("/")[2] for line in terminal.out.splitlines()]
    assert names.index("early") < names.index("late")
    terminal.run("mission", "list", "--sort-by", ".metadata.name", "-w", "-o", "name")
    names = [line.partition("/")[2] for line in terminal.out.splitlines()]
    assert names == sorted(names)


def test_a_list_can_leave_out_its_header(terminal):
    assert terminal.run("mission", "list", "--no-headers") == 0
    assert terminal.out.startswith("doctor-x2k4f")


@pytest.mark.parametrize("group", ["blueprint", "instance", "formation", "cell", "mission"])
def test_every_list_of_objects_takes_wide(terminal, group):
    assert terminal.run(group, "list", "-A", "-o", "wide") == 0
    assert terminal.run(group, "list", "-A", "-o", "json") == 0
    assert json.loads(terminal.out) is not None


def test_a_watch_prints_names_as_well(terminal):
    assert terminal.run("mission", "list", "-w", "-o", "name") == 0
    assert terminal.out == "mission.kais.io/doctor-x2k4f\n"


def test_a_watch_as_one_document_is_refused(terminal):
    assert terminal.run("mission", "list", "-w", "-o", "json") == ExitStatus.USAGE
    assert terminal.err == "error: --watch writes a table or names; leave out -o json\n"


@pytest.mark.parametrize("type_", ["mission", "missions", "ms", "mission.kais.io", "Mission"])
def test_a_name_may_carry_its_type(terminal, type_):
    assert terminal.run("mission", "show", f"{type_}/doctor-x2k4f", "-o", "name") == 0
    assert terminal.out == "mission.kais.io/doctor-x2k4f\n"


def test_what_a_list_prints_as_names_can_be_typed_back(terminal):
    terminal.run("mission", "list", "-o", "name")
    assert terminal.run("mission", "show", terminal.out.strip()) == 0


def test_a_name_of_another_type_is_refused(terminal):
    assert terminal.run("mission", "show", "formation/doctor-x2k4f") == ExitStatus.USAGE
    assert terminal.err == (
        "error: 'formation/doctor-x2k4f' is not a Mission; write NAME or mission/NAME\n"
    )


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (("mission", "help"), "Usage: kais mission [OPTIONS]"),
        (("mission", "help", "list"), "Usage: kais mission list"),
        (("knowledge", "graph", "help"), "Usage: kais knowledge graph [OPTIONS]"),
    ],
)
def test_help_behind_a_group_is_the_help_of_the_group(terminal, capsys, arguments, usage):
    assert terminal.run(*arguments) == 0
    assert capsys.readouterr().out.startswith(usage)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "bp"), "'get'; use `kais blueprint list` or `kais blueprint show`; see `kais"),
        (("describe", "ms/first"), "'describe'; use `kais mission show`; see `kais"),
        (("mision", "list"), "'mision'; use `kais mission`; see `kais"),
        (("blueprint", "get"), "'get'; use `kais blueprint list` or `kais blueprint show`; see"),
        (("blueprint", "run"), "'run'; use `kais blueprint use`; see"),
        (("mission", "stop"), "'stop'; use `kais mission abort`; see"),
        (("instance", "rm"), "'rm'; use `kais instance delete`; see"),
        (("use", "notebook"), "'notebook'; use `kais blueprint use notebook`; see"),
        (("get", "pods"), "'get'; use `kubectl get pods`; see `kais --help`"),
        (("apply", "-f", "a b.yaml"), "'apply'; use `kubectl apply -f 'a b.yaml'`; see"),
        (("explain", "blueprint.spec"), "'explain'; use `kubectl explain blueprint.spec`; see"),
        (("events",), "'events'; use `kubectl events`; see"),
        (("mission", "delete", "m"), "'delete'; use `kubectl delete mission m`; see"),
        (("mission", "events", "m"), "'events'; use `kubectl events --for mission/m`; see"),
        (("formation", "edit"), "'edit'; use `kubectl edit formation NAME`; see"),
        (("instance", "patch", "i"), "'patch'; use `kubectl patch blueprintinstance i`; see"),
        (("mission", "label", "x", "a=b"), "'label'; use `kubectl label mission x a=b`; see"),
        (
            ("mission", "annotate", "x", "k=a b"),
            "'annotate'; use `kubectl annotate mission x 'k=a b'`; see",
        ),
        (("cell", "label"), "'label'; use `kubectl label cell NAME`; see"),
        (("mission", "delete", "-l", "a=b"), "'delete'; use `kubectl delete mission -l a=b`; see"),
        (("mission", "delete", "-f", "x"), "'delete'; use `kubectl delete -f x`; see"),
        (("cell", "events", "-w"), "'events'; use `kubectl events --for cell/NAME`; see"),
        (("mission", "apply", "-f", "x"), "'apply'; use `kubectl apply -f x`; see"),
        (("cell", "replace", "--filename=x"), "'replace'; use `kubectl replace --filename=x`; see"),
        (("mission", "create", "x"), "'create'; use `kubectl create -f FILE`; see"),
        (("mission", "config", "view"), "'config'; use `kubectl config view`; see"),
        (("mission", "api-resources"), "'api-resources'; use `kubectl api-resources`; see"),
        (("blueprint", "explain", "x"), "'explain'; use `kubectl explain blueprint`; see"),
        (("mission", "terminate", "m"), "'terminate'; use `kais mission abort`; see"),
        (("mission", "resubmit", "m"), "'resubmit'; use `kais mission retry`; see"),
        (
            ("mission", "suspend", "m"),
            "'suspend'; use `kubectl annotate mission m kais.io/reconcile=suspended`; see",
        ),
        (
            ("instance", "resume"),
            "'resume'; use `kubectl annotate blueprintinstance NAME kais.io/reconcile-`; see",
        ),
        (("frobnicate", "x"), "'frobnicate'; see `kais --help`"),
    ],
)
def test_a_verb_of_another_tool_is_answered_with_the_command_of_kais(terminal, arguments, message):
    assert terminal.run(*arguments) == ExitStatus.USAGE
    assert terminal.err.startswith(f"error: no such command {message}")


def test_the_help_without_a_command_keeps_its_last_period(terminal):
    assert terminal.run() == ExitStatus.USAGE
    assert "Print the completion script of a shell.\n\nExamples:\n" in terminal.err


def test_a_value_without_quotes_around_its_spaces_names_the_rest(terminal):
    assert terminal.run("blueprint", "use", "notebook", "--set", "q=why", "so") == ExitStatus.USAGE
    assert terminal.err.startswith(
        "error: unexpected argument: so; --set takes NAME=VALUE, in quotes if it has spaces; see"
    )
    assert terminal.run("mission", "abort", "m", "too", "late") == ExitStatus.USAGE
    assert "unexpected argument: too late; put a text with spaces in quotes" in terminal.err


@pytest.mark.parametrize("value", ["server", "client"])
def test_a_dry_run_may_have_the_values_of_kubectl(terminal, cluster, value):
    arguments = ("mission", "abort", "doctor-x2k4f", f"--dry-run={value}")
    cluster.put(objects.mission(phase="Running", attempt=1))
    assert terminal.run(*arguments) == 0, terminal.err
    assert [dry_run for *_, dry_run in cluster.patched] == [True]


def test_a_usage_error_begins_as_every_error(terminal):
    assert terminal.run("mission", "list", "--watch=yes") == ExitStatus.USAGE
    assert terminal.err == "error: option '--watch' does not take a value\n"


def test_a_file_that_does_not_exist_is_named_in_plain_words(terminal):
    assert terminal.run("blueprint", "validate", "-f", "nope.yaml") == ExitStatus.USAGE
    assert terminal.err == "error: cannot read nope.yaml: No such file or directory\n"
