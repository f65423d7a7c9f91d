"""JSONPath templates give what `kubectl get -o jsonpath=…` gives."""

import pytest

from kais_cli import errors
from kais_cli.views import jsonpath

MISSION = {
    "metadata": {"name": "first", "labels": {"kais.io/blueprint": "notebook"}},
    "status": {
        "attempt": 2,
        "isLast": True,
        "conditions": [
            {"type": "Started", "status": "True", "reason": "Started"},
            {"type": "Ready", "status": "False", "reason": "Failed", "count": 3},
        ],
    },
}
LIST = {"items": [MISSION, {"metadata": {"name": "second"}, "status": {"attempt": 10}}]}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.metadata.name}", "first"),
        ("{.metadata.labels.kais\\.io/blueprint}", "notebook"),
        ("{.metadata.labels['kais\\.io/blueprint']}", "notebook"),
        ('{.metadata["name"]}', "first"),
        ("{.status.attempt} of {.status.isLast}", "2 of true"),
        ("{.metadata.labels}", '{"kais.io/blueprint":"notebook"}'),
        ("{.missing.field}", ""),
        ("{.status.conditions[0].type}", "Started"),
        ("{.status.conditions[-1].type}", "Ready"),
        ("{.status.conditions[5].type}", ""),
        ("{.status.conditions[*].type}", "Started Ready"),
        ("{.status.conditions[0:1].type}", "Started"),
        ("{.status.conditions[0,1].status}", "True False"),
        ("{.status.conditions[*]['type','status']}", "Started True Ready False"),
        ('{.status.conditions[?(@.type=="Ready")].reason}', "Failed"),
        ("{.status.conditions[?(@.type!='Ready')].reason}", "Started"),
        ("{.status.conditions[?(@.count)].type}", "Ready"),
        ("{.status.conditions[?(@.count>2)].type}", "Ready"),
        ("{.status.conditions[?(@.type > 2)].type}", ""),
        ("{..reason}", "Started Failed"),
        ("{.metadata.*}", 'first {"kais.io/blueprint":"notebook"}'),
        ('{.metadata.name}{"\\n"}', "first\n"),
        (
            '{range .status.conditions[*]}{.type}={.status}{"\\t"}{$.metadata.name};{end}',
            "Started=True\tfirst;Ready=False\tfirst;",
        ),
        ("{.status.conditions[0]['type']}{@.metadata.name}", "Startedfirst"),
        ("plain", "plain"),
    ],
)
def test_a_template_gives_the_text_of_kubectl(template, text):
    assert jsonpath.parse(template).format(MISSION) == text


def test_a_dot_is_the_object_itself():
    assert jsonpath.parse("{.}").format({"a": [1]}) == '{"a":[1]}'


def test_ranges_nest():
    template = "{range .items[*]}{.metadata.name}:{range .status.conditions[*]} {.type}{end};{end}"
    assert jsonpath.parse(template).format(LIST) == "first: Started Ready;second:;"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{.metadata.name", "'{.metadata.name' is not closed; end it with }"),
        ("{range .items[*]}{.a}", "{range} is not closed; end it with {end}"),
        ("{end}", "{end} without {range}"),
        (
            "{.items[}",
            "cannot read '.items[': unexpected end of query; write a path such as .metadata.name",
        ),
        (
            "{.items[?(@.a=)]}",
            "cannot read '.items[?(@.a=)]': unexpected token '='",
        ),
        ("{.a,b}", "cannot read '.a,b': unexpected token ','; write a path"),
        ("{.items[?(@.a=~/[/)]}", "unterminated character set at position 0; write a path"),
        ("{.a b}", "cannot read '.a b': unexpected token 'b'"),
        ("{.a..}", "cannot read '.a..': expected a shorthand selector"),
    ],
)
def test_what_is_no_template_is_refused_with_the_reason(template, problem):
    with pytest.raises(errors.UsageError) as refusal:
        jsonpath.parse(template)
    assert problem in str(refusal.value)


@pytest.mark.parametrize("path", [".status.attempt", "status.attempt", "{.status.attempt}"])
def test_trees_are_sorted_by_numbers_and_those_without_a_value_come_first(path):
    bodies = [{"status": {"attempt": n}} for n in (10, 9)] + [{"status": {}}]
    by_attempt = jsonpath.sorted_by(bodies, jsonpath.parse_path(path))
    assert [body["status"].get("attempt") for body in by_attempt] == [None, 9, 10]


def test_numbers_in_names_sort_as_numbers():
    bodies = [{"name": name} for name in ("run-10", "run-9", "a")]
    names = [body["name"] for body in jsonpath.sorted_by(bodies, jsonpath.parse_path("name"))]
    assert names == ["a", "run-9", "run-10"]


def test_digits_that_are_no_decimals_sort_as_text():
    bodies = [{"name": "²"}, {"name": "1" * 5_000}]
    assert len(jsonpath.sorted_by(bodies, jsonpath.parse_path("name"))) == 2


def test_a_path_that_is_nested_too_deeply_is_refused():
    template = jsonpath.parse("{" + ".a" * 3_000 + "}")
    tree = 1
    for _ in range(3_000):
        tree = {"a": tree}
    with pytest.raises(errors.UsageError, match="nested too deeply"):
        template.format(tree)
