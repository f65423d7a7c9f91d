"""The values of a blueprint's parameters from `--set` and `--values`, checked all at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kais import parameters as rules
from kais.errors import Violation
from kais.resources.blueprint import Parameter
from kais_cli import errors


def read(
    parameters: Sequence[Parameter], *, sets: Sequence[str], file: Path | None, subject: str
) -> dict[str, Any]:
    """Collect what the user gives, `--set` before the file, and check it against the rules.

    Defaults are not filled in: those of the revision hold when the operator renders.

    Raises:
        UsageError: with every violation on a line of its own.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    given = _from_file(file) if file else {}
    for item in sets:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise errors.UsageError(f"--set {item!r} is not name=value")
        known = by_name.get(name)
        given[name] = rules.parse_text(known, text) if known else text
    violations = _checked(parameters, given)
    if violations:
        found = "".join(f"\n  {violation}" for violation in violations)
        raise errors.UsageError(
            f"{subject} does not take these parameters:{found}\n"
            "see `kais blueprint show` for what it takes; nothing was created"
        )
    return given


def _checked(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> tuple[Violation, ...]:
    try:
        return rules.resolve(parameters, given).violations
    except re.error as exc:
        return (Violation("pattern", f"is no regular expression: {exc}; mend the Blueprint"),)


def _from_file(file: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 (only for this option)

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise errors.UsageError(f"cannot read --values {file}: {exc}") from exc
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise errors.UsageError(f"--values {file} must hold a mapping of parameters to values")
    return found
