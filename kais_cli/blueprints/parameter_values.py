"""Read the values of a blueprint's parameters from the options of a command, and validate them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kais import parameters as rules
from kais.errors import Violation
from kais.resources.blueprint import Parameter, ParameterType
from kais_cli import argument_parsing, errors
from kais_cli.blueprints import render_requests

if TYPE_CHECKING:
    from kais_cli.session import Session

_STDIN = "-"


@dataclass(frozen=True)
class ValueOptions:
    """The options `--set`, `--set-file` and `--values` of a command."""

    sets: Sequence[str] = ()
    set_files: Sequence[str] = ()
    values: Path | None = None

    def stdin_count(self) -> int:
        """Return how many of the options read standard input."""
        texts = [item.partition("=")[2] for item in self.set_files]
        return [*texts, str(self.values)].count(_STDIN)


@dataclass(frozen=True)
class Subject:
    """The Blueprint that values are for, as errors name it."""

    name: str
    command: str
    """The command that takes the values."""
    description: str
    """Where the user finds the parameters."""


def in_cluster(namespace: str, name: str) -> Subject:
    """Return the subject of a Blueprint of the cluster."""
    return Subject(
        f"Blueprint/{namespace}/{name}",
        f"kais blueprint use {name} -n {namespace}",
        f"`kais blueprint show {name} -n {namespace}` describes its parameters; nothing was"
        " created",
    )


def in_file(file: str, name: str) -> Subject:
    """Return the subject of a Blueprint of a file."""
    return Subject(
        f"Blueprint {name} in {file}",
        f"kais blueprint render {name} -f {shlex.quote(file)}",
        "its spec.parameters describes them",
    )


def read(
    session: Session,
    parameters: Sequence[Parameter],
    options: ValueOptions,
    *,
    subject: Subject,
) -> dict[str, Any]:
    """Collect the user's values and validate them; `--values` gives way to the other options.

    The file `-` is standard input. A text from a file ends before its last line breaks, as that of
    `$(cat FILE)` in a shell does.

    Defaults are not filled in: the operator uses those of the revision when it renders.

    Raises:
        UsageError: The values are invalid; each violation is on a separate line.
        UnicodeEncodeError: A value is not UTF-8.
    """
    if options.stdin_count() > 1:
        raise errors.UsageError("only one of --values and --set-file can be standard input")
    for warning in _joined_assignments(options.sets, parameters):
        session.note(f"warning: {warning}")
    by_name = {parameter.name: parameter for parameter in parameters}
    values = _from_file(session, options.values) if options.values else {}
    for name, text in _texts(session, options).items():
        declared = by_name.get(name)
        values[name] = rules.parse_text(declared, text) if declared else text
    validate(parameters, values, subject=subject)
    return values


def _texts(session: Session, options: ValueOptions) -> dict[str, str]:
    """Return the texts of `--set` and `--set-file` by parameter."""
    texts = dict(_assignment(item, option="--set", example="name=Ada") for item in options.sets)
    for text in texts.values():
        text.encode()  # `failures.explain` describes the error of a text that is not UTF-8
    for item in options.set_files:
        name, file = _assignment(item, option="--set-file", example="log=app.log")
        if name in texts:
            raise errors.UsageError(f"--set-file {item!r}: {name} already has a value; give one")
        if file == _STDIN:
            texts[name] = argument_parsing.read_text(session, _STDIN) or ""
        else:
            text = render_requests.read_text(Path(file), subject=f"--set-file {item}")
            texts[name] = text.rstrip("\r\n")
    return texts


def _assignment(item: str, *, option: str, example: str) -> tuple[str, str]:
    name, equals, text = item.partition("=")
    if not equals or not name:
        form = "NAME=FILE" if option == "--set-file" else "NAME=VALUE"
        raise errors.UsageError(f"{option} {item!r} is not {form}, such as {option} {example}")
    return name, text


def _joined_assignments(sets: Sequence[str], parameters: Sequence[Parameter]) -> list[str]:
    """Return a warning for each value that looks like helm's `--set a=1,b=2`.

    The comma belongs to the value, because a value may be any text.
    """
    names = {parameter.name for parameter in parameters}
    warnings = []
    for item in sets:
        name, _, text = item.partition("=")
        joined = [part.partition("=")[0] for part in text.split(",")[1:] if "=" in part]
        declared = [other for other in joined if other in names]
        if declared:
            warnings.append(
                f"the value of {name} is all of {text!r}; to set {', '.join(declared)} as well,"
                " repeat --set"
            )
    return warnings


def validate(
    parameters: Sequence[Parameter], values: Mapping[str, Any], *, subject: Subject
) -> None:
    """Require that values are valid.

    Raises:
        UsageError: The values are invalid; each violation is on a separate line.
    """
    violations = _check(parameters, values, subject=subject.name)
    if violations:
        listed = "".join(f"\n  {violation}" for violation in violations)
        raise errors.UsageError(
            f"{subject.name} does not take these parameters:{listed}\n"
            f"{_advice(parameters, values, subject=subject)}"
        )


def _advice(parameters: Sequence[Parameter], values: Mapping[str, Any], *, subject: Subject) -> str:
    """Return an example of the parameters that are missing, and where they are described."""
    examples = "".join(
        f" --set {shlex.quote(f'{parameter.name}={_as_text(parameter)}')}"
        for parameter in parameters
        if parameter.is_required and not parameter.has_default and parameter.name not in values
    )
    use = f"for example `{subject.command}{examples}`; " if examples else ""
    return f"{use}{subject.description}"


def _as_text(parameter: Parameter) -> str:
    """Return the example of a parameter as `--set` takes it, or a placeholder."""
    example = parameter.example
    if example is None:
        return "VALUE"
    if parameter.type is ParameterType.SECRET_REF:
        return f"{example['name']}/{example['key']}"
    return example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)


def _check(
    parameters: Sequence[Parameter], values: Mapping[str, Any], *, subject: str
) -> tuple[Violation, ...]:
    """Validate the values in a worker: a Blueprint's patterns are untrusted and may never end."""
    if any(parameter.pattern is not None for parameter in parameters):
        return render_requests.violations_of(parameters, values, subject=subject)
    return rules.resolve(parameters, values).violations


def _from_file(session: Session, file: Path) -> dict[str, Any]:
    subject = f"--values {file}"
    if str(file) == _STDIN:
        text = argument_parsing.read_text(session, _STDIN) or ""
    else:
        text = render_requests.read_text(file, subject=subject)
    documents = render_requests.parse_yaml(text, subject=subject)
    if len(documents) > 1:
        raise errors.UsageError(f"--values {file} must hold one document, not {len(documents)}")
    document = documents[0] if documents else None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise errors.UsageError(f"--values {file} must hold a mapping of parameters to values")
    return document
