import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import parameters
from kais.resources.blueprint import Parameter

AWKWARD = ["007", "1.10", "1e5", "true", "null", "a=b=c", "", "x: y", "- z", "&a", "ä\n---\n"]


def declared(**fields):
    return Parameter.from_dict({"name": "p", **fields})


def refusals(parameter, value):
    return [str(v) for v in parameters.resolve([parameter], {"p": value}).violations]


@pytest.mark.parametrize(
    ("fields", "value", "message"),
    [
        ({"type": "string"}, 7, "must be a string, got 7"),
        ({"type": "string"}, True, "must be a string, got true"),
        ({"type": "string"}, ["a"], 'must be a string, got ["a"]'),
        ({"type": "string", "minLength": 3}, "ab", "must be at least 3 characters long, got 2"),
        ({"type": "string", "maxLength": 3}, "abcd", "must be at most 3 characters long, got 4"),
        ({"type": "string", "pattern": "[a-z]+"}, "a1", 'must match [a-z]+, got "a1"'),
        ({"type": "string", "pattern": "a|b"}, "ab", 'must match a|b, got "ab"'),
        ({"type": "integer"}, "three", 'must be an integer, got "three"'),
        ({"type": "integer"}, "3", 'must be an integer, got "3"'),
        ({"type": "integer"}, 2.5, "must be an integer, got 2.5"),
        ({"type": "integer"}, True, "must be an integer, got true"),
        ({"type": "integer"}, math.nan, "must be an integer, got NaN"),
        ({"type": "integer", "min": 1}, 0, "must be at least 1, got 0"),
        ({"type": "integer", "max": 10}, 11, "must be at most 10, got 11"),
        ({"type": "number"}, "1.5", 'must be a number, got "1.5"'),
        ({"type": "number"}, False, "must be a number, got false"),
        ({"type": "number"}, math.inf, "must be a number, got Infinity"),
        ({"type": "number", "min": 0.5}, 0.25, "must be at least 0.5, got 0.25"),
        ({"type": "number", "max": 1}, 1.5, "must be at most 1, got 1.5"),
        ({"type": "boolean"}, "true", 'must be true or false, got "true"'),
        ({"type": "boolean"}, 1, "must be true or false, got 1"),
        ({"type": "enum", "values": ["a", "b"]}, "c", 'must be one of "a", "b", got "c"'),
        ({"type": "enum", "values": [1, 2]}, "1", 'must be one of 1, 2, got "1"'),
        ({"type": "array"}, {"a": 1}, 'must be an array, got {"a": 1}'),
        ({"type": "array", "minItems": 1}, [], "must be at least 1 items long, got 0"),
        ({"type": "array", "maxItems": 1}, [1, 2], "must be at most 1 items long, got 2"),
        ({"type": "object"}, [1], "must be an object, got [1]"),
        ({"type": "secretRef"}, "hunter2", "must be a reference {name, key} to a Secret"),
        ({"type": "secretRef"}, {"name": "s"}, "must be a reference {name, key} to a Secret"),
        ({"type": "secretRef"}, {"name": "s", "key": ""}, "must be a reference {name, key}"),
        (
            {"type": "secretRef", "pattern": "team-.*"},
            {"name": "admin", "key": "k"},
            'the Secret\'s name must match team-.*, got "admin"',
        ),
        (
            {"type": "secretRef", "pattern": "team-.*"},
            {"name": "my-team-a", "key": "k"},
            'the Secret\'s name must match team-.*, got "my-team-a"',
        ),
        (
            {"type": "secretRef", "values": ["mail", "chat"]},
            {"name": "admin", "key": "mail"},
            'the Secret\'s name must be one of "mail", "chat", got "admin"',
        ),
    ],
)
def test_value_is_refused(fields, value, message):
    (refusal,) = refusals(declared(**fields), value)
    assert refusal.startswith(f"parameter 'p': {message}")


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        *[({"type": "string"}, text) for text in AWKWARD],
        ({"type": "integer", "min": 1, "max": 10}, 10),
        ({"type": "number"}, 3),
        ({"type": "number"}, -0.5),
        ({"type": "boolean"}, False),
        ({"type": "enum", "values": ["007", 7]}, 7),
        ({"type": "array", "minItems": 2}, [1, "a"]),
        ({"type": "object"}, {}),
        ({"type": "secretRef"}, {"name": "s", "key": "k"}),
        ({"type": "secretRef", "pattern": "team-.*"}, {"name": "team-a", "key": "k"}),
        ({"type": "secretRef", "values": ["mail", "chat"]}, {"name": "chat", "key": "k"}),
    ],
)
def test_value_is_kept_as_it_is(fields, value):
    resolved = parameters.resolve([declared(**fields)], {"p": value})
    assert resolved.violations == ()
    assert resolved.values == {"p": value}
    assert type(resolved.values["p"]) is type(value)


def test_whole_float_is_an_integer_because_json_knows_no_difference():
    values = parameters.resolve([declared(type="integer")], {"p": 3.0}).values
    assert values == {"p": 3}
    assert isinstance(values["p"], int)


def test_all_violations_come_at_once():
    several = [
        Parameter.from_dict({"name": "count", "type": "integer", "min": 1}),
        Parameter.from_dict({"name": "repo", "type": "string"}),
        Parameter.from_dict({"name": "tier", "type": "enum", "values": ["small", "large"]}),
    ]
    given_values = {"cuont": 2, "count": "three", "tier": "huge"}
    violations = parameters.resolve(several, given_values).violations
    assert [str(violation) for violation in violations] == [
        "parameter 'cuont': is not declared; did you mean 'count'?",
        "parameter 'count': must be an integer, got \"three\"",
        "parameter 'repo': is required",
        'parameter \'tier\': must be one of "small", "large", got "huge"',
    ]


def test_unknown_name_without_a_near_one_lists_the_declared():
    violations = parameters.resolve([declared(type="string", default="x")], {"quux": 1}).violations
    assert str(violations[0]) == "parameter 'quux': is not declared; declared: p"
    violations = parameters.resolve([], {"quux": 1}).violations
    assert str(violations[0]) == "parameter 'quux': is not declared; nothing is declared"


@pytest.mark.parametrize(
    ("fields", "given_values", "values"),
    [
        pytest.param({"default": "d"}, {}, {"p": "d"}, id="default fills in"),
        pytest.param({"default": ""}, {}, {"p": ""}, id="empty default is one"),
        pytest.param({"default": "d"}, {"p": None}, {"p": "d"}, id="null counts as not given"),
        pytest.param({"required": False}, {}, {}, id="optional may stay away"),
    ],
)
def test_what_is_not_given(fields, given_values, values):
    resolved = parameters.resolve([declared(type="string", **fields)], given_values)
    assert (resolved.values, resolved.violations) == (values, ())


def test_required_with_a_default_must_still_be_given_only_when_it_has_none():
    assert declared(type="string").is_required
    assert not declared(type="string", default="x").is_required
    assert refusals(declared(type="string"), None) == ["parameter 'p': is required"]


def test_an_integer_above_all_floats_is_refused():
    (refusal,) = refusals(declared(type="number"), 10**400)
    assert refusal.startswith("parameter 'p': must be a number, got 10000")


def test_immutable_parameter_keeps_its_value():
    parameter = declared(type="string", immutable=True)
    initial_immutable_values = parameters.immutable_values([parameter], {"p": "a"})
    resolved = parameters.resolve([parameter], {"p": "a"}, previous=initial_immutable_values)
    assert resolved.violations == ()
    (violation,) = parameters.resolve(
        [parameter], {"p": "b"}, previous=initial_immutable_values
    ).violations
    message = 'parameter \'p\': is immutable and was "a", got "b"; create a new instance instead'
    assert str(violation) == message


def test_an_optional_immutable_parameter_cannot_be_removed():
    parameter = declared(type="string", immutable=True, required=False)
    fixed_values = parameters.immutable_values([parameter], {"p": "a"})
    (violation,) = parameters.resolve([parameter], {}, previous=fixed_values).violations
    assert str(violation) == (
        "parameter 'p': is immutable and was \"a\", got no value; create a new instance instead"
    )
    assert parameters.resolve([parameter], {}, previous={}).violations == ()


def test_what_a_use_remembers_of_immutable_values_is_small_whatever_they_are():
    large = declared(type="array", immutable=True)
    free = parameters.immutable_values([declared(type="string")], {"p": "a"})
    assert free == {}
    initial_immutable_values = parameters.immutable_values([large], {"p": ["x" * 1000] * 500})
    assert len(str(initial_immutable_values)) < 200
    assert (
        parameters.resolve(
            [large], {"p": ["x" * 1000] * 500}, previous=initial_immutable_values
        ).violations
        == ()
    )
    assert parameters.resolve(
        [large], {"p": ["x" * 1000] * 499}, previous=initial_immutable_values
    ).violations


def test_a_parameter_that_became_immutable_later_is_free_until_it_is_remembered():
    assert parameters.resolve([declared(type="string", immutable=True)], {"p": "b"}, previous={})


def test_pattern_is_matched_by_who_was_passed_in():
    observed = []

    def matcher(pattern, text):
        observed.append((pattern, text))
        return True

    parameter = declared(type="string", pattern="(a+)+$")
    assert parameters.resolve([parameter], {"p": "x"}, matcher=matcher).violations == ()
    assert observed == [("(a+)+$", "x")]


def test_long_value_is_cut_in_the_message():
    (refusal,) = refusals(declared(type="integer"), "x" * 500)
    assert len(refusal) < 150
    assert refusal.endswith("…")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "integer", "default": "x"}, 'default must be an integer, got "x"'),
        ({"type": "integer", "max": 3, "default": 4}, "default must be at most 3, got 4"),
        ({"type": "integer", "max": 3, "example": 4}, "example must be at most 3, got 4"),
        ({"type": "string", "min": 1}, "min has no meaning for the type string"),
        ({"type": "integer", "pattern": "x"}, "pattern has no meaning for the type integer"),
        ({"type": "string", "values": ["a"]}, "values has no meaning for the type string"),
        ({"type": "string", "minItems": 1}, "minItems has no meaning for the type string"),
        ({"type": "integer", "min": 3, "max": 1}, "min 3 is above max 1"),
        ({"type": "string", "pattern": "("}, "pattern is not a regular expression: missing )"),
    ],
)
def test_declaration_is_refused(fields, message):
    (violation,) = parameters.declaration_violations([declared(**fields)])
    assert str(violation).startswith(f"parameter 'p': {message}")


@pytest.mark.parametrize(
    ("fields", "text", "value"),
    [
        *[({"type": "string"}, text, text) for text in AWKWARD],
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "three", "three"),
        ({"type": "integer"}, "2.5", "2.5"),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "enum", "values": ["a", 7]}, "7", 7),
        ({"type": "enum", "values": ["a", 7]}, "b", "b"),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "array"}, "a,b", "a,b"),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "secretRef"}, "s/k", {"name": "s", "key": "k"}),
        ({"type": "secretRef"}, '{"name": "s", "key": "k"}', {"name": "s", "key": "k"}),
        ({"type": "secretRef"}, "s", "s"),
    ],
)
def test_text_of_the_command_line_is_read_by_the_declared_type(fields, text, value):
    read = parameters.parse_text(declared(**fields), text)
    assert read == value
    assert type(read) is type(value)


@given(st.text(max_size=30))
def test_text_of_a_string_is_never_touched(text):
    assert parameters.parse_text(declared(type="string"), text) == text


@given(st.integers(-(2**53), 2**53))
def test_integer_reads_back(number):
    assert parameters.parse_text(declared(type="integer"), str(number)) == number


def test_samples_are_the_defaults_and_the_examples():
    several = [
        Parameter.from_dict({"name": "a", "type": "string", "default": "d", "example": "e"}),
        Parameter.from_dict({"name": "b", "type": "string", "example": "only"}),
        Parameter.from_dict({"name": "c", "type": "string"}),
        Parameter.from_dict({"name": "o", "type": "string", "required": False}),
    ]
    samples = parameters.samples(several)
    assert samples.values == ({"a": "d", "b": "only"}, {"a": "e", "b": "only"})
    assert samples.missing == ("c",)


def test_json_schema_says_what_resolve_enforces():
    several = [
        Parameter.from_dict(
            {
                "name": "n",
                "type": "integer",
                "min": 1,
                "max": 9,
                "default": 2,
                "description": "d",
            }
        ),
        Parameter.from_dict({"name": "s", "type": "string", "pattern": "a|b", "example": "a"}),
        Parameter.from_dict({"name": "e", "type": "enum", "values": ["x", 1], "default": "x"}),
        Parameter.from_dict({"name": "k", "type": "secretRef", "required": False}),
    ]
    schema = parameters.json_schema(several)
    assert schema["required"] == ["s"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["n"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 2,
        "description": "d",
    }
    assert schema["properties"]["s"]["pattern"] == "^(?:a|b)$"
    assert schema["properties"]["e"] == {"enum": ["x", 1], "default": "x"}
    assert schema["properties"]["k"]["required"] == ["name", "key"]


def test_schema_of_a_secret_reference_says_which_secrets_it_may_name():
    fields = {"type": "secretRef", "pattern": "team-.*", "values": ["team-a", "team-b"]}
    schema = parameters.json_schema([declared(**fields)])["properties"]["p"]
    assert schema["properties"]["name"] == {
        "type": "string",
        "minLength": 1,
        "pattern": "^(?:team-.*)$",
        "enum": ["team-a", "team-b"],
    }
    assert "pattern" not in schema
    unrestricted = parameters.json_schema([declared(type="secretRef")])["properties"]["p"]
    assert unrestricted["properties"]["name"] == {"type": "string", "minLength": 1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "values of a secretRef must name a Secret"),
        (["mail", 7], "values of a secretRef are names of Secrets, got 7"),
    ],
)
def test_values_of_a_secret_reference_are_names_of_secrets(values, message):
    (violation,) = parameters.declaration_violations([declared(type="secretRef", values=values)])
    assert str(violation) == f"parameter 'p': {message}"


def test_a_default_of_a_secret_reference_obeys_its_own_rules():
    secret = declared(type="secretRef", pattern="team-.*", default={"name": "x", "key": "k"})
    (violation,) = parameters.declaration_violations([secret])
    assert str(violation) == (
        "parameter 'p': default the Secret's name must match team-.*, got \"x\""
    )


def test_text_that_is_nested_too_deeply_stays_text():
    text = "[" * 100_000
    assert parameters.parse_text(declared(type="array"), text) == text
