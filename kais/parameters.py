"""Validates the parameters of an instance, and reports all violations together.

The declared type decides, without conversions: text is not a number, "007" stays a string. Patterns
are regular expressions of users, which may never end. So the matcher is an argument: callers can
run it in a process that can be killed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais import names, parameter_rules
from kais.errors import Violation
from kais.parameter_rules import Matcher
from kais.resources.blueprint import Parameter, ParameterType


@dataclass(frozen=True)
class Resolved:
    """The values to render with, and all violations.

    With violations, the values contain only the valid parameters.
    """

    values: dict[str, Any]
    violations: tuple[Violation, ...]


@dataclass(frozen=True)
class Samples:
    """Sample values for a template, and the required parameters that have none."""

    values: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]


def _no_progress(path: str) -> None:
    del path


def path_of(name: str) -> str:
    """Return the name of a parameter as violations show it."""
    return f"parameter '{name}'"


def resolve(
    parameters: Sequence[Parameter],
    arguments: Mapping[str, Any],
    *,
    matcher: Matcher = parameter_rules.matches,
    previous: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = _no_progress,
) -> Resolved:
    """Validate the parameters of an instance and add defaults.

    A null counts as missing. `previous` is what `immutable_values` returned for this instance;
    immutable parameters must not differ from it. `progress` is called with each parameter before
    its pattern runs.
    """
    values: dict[str, Any] = {}
    violations = list(_unknown(parameters, arguments))
    for parameter in parameters:
        value = arguments.get(parameter.name)
        if value is None and parameter.has_default:
            value = parameter.default
        if value is None:
            if parameter.is_required:
                messages = ["is required"]
            else:
                messages = _changed(parameter, None, previous)
            violations += [_violation(parameter.name, message) for message in messages]
            continue
        progress(path_of(parameter.name))
        messages = list(parameter_rules.value_violations(parameter, value, matcher=matcher))
        messages += _changed(parameter, value, previous)
        violations += [_violation(parameter.name, message) for message in messages]
        if not messages:
            values[parameter.name] = _normal(parameter.type, value)
    return Resolved(values=values, violations=tuple(violations))


def immutable_values(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an instance stores of its immutable values: a hash and an excerpt of each."""
    return {
        parameter.name: {
            "hash": names.spec_hash(values[parameter.name]),
            "shown": parameter_rules.excerpt(values[parameter.name]),
        }
        for parameter in parameters
        if parameter.immutable and parameter.name in values
    }


def declaration_violations(
    parameters: Sequence[Parameter],
    *,
    matcher: Matcher = parameter_rules.matches,
    progress: Callable[[str], None] = _no_progress,
) -> list[Violation]:
    """Return the violations of declarations: rules without effect, bad defaults, bad examples."""
    violations: list[Violation] = []
    for parameter in parameters:
        progress(path_of(parameter.name))
        messages = list(parameter_rules.declaration_problems(parameter))
        if not messages:
            for field, value in (("default", parameter.default), ("example", parameter.example)):
                if value is not None:
                    broken = parameter_rules.value_violations(parameter, value, matcher=matcher)
                    messages += [f"{field} {message}" for message in broken]
        violations += [_violation(parameter.name, message) for message in messages]
    return violations


def samples(parameters: Sequence[Parameter]) -> Samples:
    """Return values to try a template with: the defaults, and the examples.

    A parameter with only one of the two has it in both.
    """
    by_default: dict[str, Any] = {}
    by_example: dict[str, Any] = {}
    missing = []
    for parameter in parameters:
        candidates = [v for v in (parameter.default, parameter.example) if v is not None]
        if candidates:
            by_default[parameter.name] = _normal(parameter.type, candidates[0])
            by_example[parameter.name] = _normal(parameter.type, candidates[-1])
        elif parameter.is_required:
            missing.append(parameter.name)
    samples = (by_default,) if by_default == by_example else (by_default, by_example)
    return Samples(samples, tuple(missing))


def parse_text(parameter: Parameter, text: str) -> Any:
    """Convert text from a command line to the declared type.

    Text that cannot be converted is returned unchanged, so that `resolve` reports it together with
    all other violations. A secretRef may be written `name/key`; arrays and objects are JSON.
    """
    match parameter.type:
        case ParameterType.STRING:
            return text
        case ParameterType.ENUM:
            return next((v for v in parameter.values or [] if str(v) == text), text)
        case ParameterType.BOOLEAN:
            return {"true": True, "false": False}.get(text, text)
        case ParameterType.SECRET_REF if "{" not in text:
            name, slash, key = text.partition("/")
            return {"name": name, "key": key} if slash else text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if parameter_rules.type_violation(parameter, value) else value


def json_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the parameters of an instance."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": [p.name for p in parameters if p.is_required],
        "properties": {p.name: _schema(p) for p in parameters},
    }


def _violation(name: str, message: str) -> Violation:
    return Violation(path_of(name), message)


def _unknown(parameters: Sequence[Parameter], arguments: Mapping[str, Any]) -> Iterator[Violation]:
    declared = [parameter.name for parameter in parameters]
    for name in arguments:
        if name not in declared:
            hint = parameter_rules.did_you_mean(str(name), declared)
            yield _violation(str(name), f"is not declared; {hint}")


def _changed(parameter: Parameter, value: Any, previous: Mapping[str, Any] | None) -> list[str]:
    fixed_value = (previous or {}).get(parameter.name)
    if (
        fixed_value is None
        or not parameter.immutable
        or fixed_value["hash"] == names.spec_hash(value)
    ):
        return []
    actual = "no value" if value is None else parameter_rules.excerpt(value)
    return [
        f"is immutable and was {fixed_value['shown']}, got {actual}; create a new instance instead"
    ]


def _normal(kind: ParameterType, value: Any) -> Any:
    return int(value) if kind is ParameterType.INTEGER else value


def _schema(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = dict(_SCHEMAS[parameter.type])
    if parameter.type is ParameterType.ENUM:
        schema["enum"] = parameter.values
    pattern = None if parameter.pattern is None else f"^(?:{parameter.pattern})$"
    if parameter.type is ParameterType.SECRET_REF:
        rules = {"pattern": pattern, "enum": parameter.values}
        constraints = {**schema["properties"]["name"], **_present(rules)}
        schema["properties"] = {**schema["properties"], "name": constraints}
        pattern = None
    wire = {
        "description": parameter.description,
        "default": parameter.default,
        "examples": None if parameter.example is None else [parameter.example],
        "minimum": parameter.min,
        "maximum": parameter.max,
        "minLength": parameter.min_length,
        "maxLength": parameter.max_length,
        "minItems": parameter.min_items,
        "maxItems": parameter.max_items,
        "pattern": pattern,
    }
    return schema | _present(wire)


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


_SCHEMAS: Mapping[ParameterType, Mapping[str, Any]] = {
    ParameterType.STRING: {"type": "string"},
    ParameterType.INTEGER: {"type": "integer"},
    ParameterType.NUMBER: {"type": "number"},
    ParameterType.BOOLEAN: {"type": "boolean"},
    ParameterType.ENUM: {},
    ParameterType.ARRAY: {"type": "array"},
    ParameterType.OBJECT: {"type": "object"},
    ParameterType.SECRET_REF: {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "key"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "key": {"type": "string", "minLength": 1},
        },
    },
}
