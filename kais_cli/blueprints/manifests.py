"""Read Blueprints from files and report their errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kais.errors import InvalidResource
from kais.resources.blueprint import Blueprint
from kais_cli import errors
from kais_cli.blueprints import render_requests


@dataclass(frozen=True)
class CompileResult:
    """The result of compiling one blueprint of a file."""

    subject: str
    message: str = ""
    problems: tuple[str, ...] = ()


def validate(file: Path) -> Iterator[CompileResult]:
    """Compile each Blueprint of a file.

    Raises:
        UsageError: the file cannot be read, or holds no Blueprint.
    """
    for body in load_all(file):
        subject = f"Blueprint {body.get('metadata', {}).get('name', '(without a name)')} in {file}"
        try:
            blueprint = Blueprint.from_dict(body)
        except InvalidResource as exc:
            yield CompileResult(
                subject, problems=tuple(str(violation) for violation in exc.violations)
            )
            continue
        report = render_requests.compile_spec(blueprint.spec.to_dict(), subject=subject)
        problems = () if report.is_good else (report.errors or (report.message,))
        yield CompileResult(subject, message=report.message, problems=problems)


def load(file: Path, name: str) -> Blueprint:
    """Read the Blueprint of that name, or the only one of the file.

    Raises:
        UsageError: the file cannot be read, or has no such Blueprint.
        InvalidResource: it is not valid; with every violation.
    """
    manifests = load_all(file)
    matches = [body for body in manifests if body.get("metadata", {}).get("name") == name]
    if not matches:
        names = ", ".join(str(body.get("metadata", {}).get("name")) for body in manifests)
        raise errors.UsageError(f"{file} has no Blueprint {name}; it has {names}")
    return Blueprint.from_dict(matches[0])


def load_all(file: Path) -> list[dict[str, Any]]:
    """Read the documents of a file that are Blueprints.

    Raises:
        UsageError: the file cannot be read, or holds no Blueprint.
    """
    documents = render_requests.read_yaml(file, subject=str(file))
    manifests = [
        body for body in documents if isinstance(body, dict) and body.get("kind") == "Blueprint"
    ]
    if not manifests:
        raise errors.UsageError(f"{file} holds no object of kind Blueprint")
    return manifests
