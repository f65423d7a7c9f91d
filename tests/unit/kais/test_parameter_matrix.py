"""Every type of parameter against every kind of value: the declared type decides, nothing is
coerced, and every violation names the parameter and the value.
"""

import json
from typing import Any

import pytest
import yaml

from kais import blueprint_rendering, parameters
from kais.blueprint_rendering import Rendered, Violations
from kais.resources.blueprint import Parameter

DECLARED: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "enum": {"type": "enum", "values": ["small", 2]},
    "array": {"type": "array"},
    "object": {"type": "object"},
    "secretRef": {"type": "secretRef"},
}
VALUES: dict[str, tuple[Any, frozenset[str]]] = {
    "a text": ("pods", frozenset({"string"})),
    "an empty text": ("", frozenset({"string"})),
    "a number with zeros in front, as text": ("007", frozenset({"string"})),
    "a version, as text": ("1.10", frozenset({"string"})),
    "an exponent, as text": ("1e5", frozenset({"string"})),
    "a boolean, as text": ("true", frozenset({"string"})),
    "a null, as text": ("null", frozenset({"string"})),
    "YAML, as text": ("a: [b, {c: d}]\n- e", frozenset({"string"})),
    "JSON, as text": ('{"name": "s", "key": "k"}', frozenset({"string"})),
    "letters of all scripts": ("Zoë 数据 🚀 \u202e", frozenset({"string"})),
    "lines": ("first\nsecond\r\n\tthird", frozenset({"string"})),
    "a template": ("{{ topic }}{% if x %}", frozenset({"string"})),
    "an integer": (3, frozenset({"integer", "number"})),
    "zero": (0, frozenset({"integer", "number"})),
    "a negative": (-1, frozenset({"integer", "number"})),
    "a whole float": (3.0, frozenset({"integer", "number"})),
    "a fraction": (1.1, frozenset({"number"})),
    "true": (True, frozenset({"boolean"})),
    "false": (False, frozenset({"boolean"})),
    "a listed text": ("small", frozenset({"string", "enum"})),
    "a listed number": (2, frozenset({"integer", "number", "enum"})),
    "a listed number, as text": ("2", frozenset({"string"})),
    "a list": (["a", 1], frozenset({"array"})),
    "an empty list": ([], frozenset({"array"})),
    "an object": ({"k": 1}, frozenset({"object"})),
    "an empty object": ({}, frozenset({"object"})),
    "a reference": ({"name": "s", "key": "k"}, frozenset({"object", "secretRef"})),
    "a reference with more": ({"name": "s", "key": "k", "value": "v"}, frozenset({"object"})),
    "a reference without its key": ({"name": "s"}, frozenset({"object"})),
    "infinity": (float("inf"), frozenset()),
    "no number": (float("nan"), frozenset()),
}
CASES = [(kind, subject) for kind in DECLARED for subject in VALUES]


def declared(kind: str, **rules: Any) -> Parameter:
    return Parameter.from_dict({"name": "p", **DECLARED[kind], **rules})


@pytest.mark.parametrize(("kind", "case"), CASES, ids=str)
def test_a_value_is_of_a_declared_type_or_refused_in_words(kind: str, case: str) -> None:
    value, kinds = VALUES[case]
    resolved = parameters.resolve([declared(kind)], {"p": value})
    if kind in kinds:
        assert resolved.violations == ()
        assert resolved.values["p"] == value
    else:
        (violation,) = resolved.violations
        assert violation.path == "parameter 'p'"
        assert violation.message.startswith("must be ")
        assert ", got " in violation.message
        assert resolved.values == {}


@pytest.mark.parametrize(
    ("kind", "rules", "value", "message"),
    [
        ("integer", {"min": 2}, 1, "must be at least 2, got 1"),
        ("integer", {"max": 2}, 3, "must be at most 2, got 3"),
        ("number", {"min": 0.5}, 0.4, "must be at least 0.5, got 0.4"),
        ("number", {"max": 0.5}, 0.6, "must be at most 0.5, got 0.6"),
        ("string", {"minLength": 2}, "x", "must be at least 2 characters long, got 1"),
        ("string", {"maxLength": 2}, "数据🚀", "must be at most 2 characters long, got 3"),
        ("string", {"pattern": "[a-z]+"}, "a1", 'must match [a-z]+, got "a1"'),
        ("string", {"pattern": "[a-z]+"}, "a\n", 'must match [a-z]+, got "a\\n"'),
        ("array", {"minItems": 1}, [], "must be at least 1 items long, got 0"),
        ("array", {"maxItems": 1}, [1, 2], "must be at most 1 items long, got 2"),
        ("enum", {}, "large", 'must be one of "small", 2, got "large"'),
    ],
)
def test_a_rule_is_enforced_with_its_exact_words(
    kind: str, rules: dict[str, Any], value: Any, message: str
) -> None:
    (violation,) = parameters.resolve([declared(kind, **rules)], {"p": value}).violations
    assert str(violation) == f"parameter 'p': {message}"


@pytest.mark.parametrize("kind", DECLARED)
def test_a_required_one_that_is_missing_is_said_whatever_its_type(kind: str) -> None:
    for fields in ({}, {"p": None}):
        (violation,) = parameters.resolve([declared(kind)], fields).violations
        assert str(violation) == "parameter 'p': is required"


TEXTS = [value for value, kinds in VALUES.values() if kinds == frozenset({"string"})]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_arrives_letter_for_letter_alone_and_inside_others(text: str) -> None:
    spec = {
        "parameters": [{"name": "p", "type": "string"}],
        "formation": {
            "cells": [
                {
                    "name": "a",
                    "spec": {"container": {"image": "x", "args": ["{{ p }}", "<{{ p }}>"]}},
                }
            ]
        },
    }
    rendered = blueprint_rendering.render_blueprint(
        spec, {"p": text}, blueprint="b", revision=1, instance="i", namespace="n"
    )
    assert isinstance(rendered, Rendered)
    args = rendered.formation_spec["cells"][0]["spec"]["container"]["args"]
    assert args == [text, f"<{text}>"]
    assert json.loads(json.dumps(rendered.to_dict())) == rendered.to_dict()
    assert yaml.safe_load(yaml.safe_dump(rendered.formation_spec)) == rendered.formation_spec


def test_all_violations_of_all_parameters_come_at_once() -> None:
    listed = [{"name": f"p{i}", **rules} for i, rules in enumerate(DECLARED.values())]
    spec = {"parameters": listed, "formation": {"cells": []}}
    fields = {
        f"p{i}": object_ for i, object_ in enumerate([1, "1", "1", "true", "big", {}, [], "s"])
    }
    rendered = blueprint_rendering.render_blueprint(
        spec, {**fields, "q": 1}, blueprint="b", revision=1, instance="i", namespace="n"
    )
    assert isinstance(rendered, Violations)
    assert len(rendered.violations) == len(DECLARED) + 1
    for name in (*fields, "q"):
        assert f"parameter '{name}'" in rendered.message
