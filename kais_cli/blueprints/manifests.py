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
class Verdict:
    """The result of compiling one blueprint of a file."""

    subject: str
    words: str = ""
    problems: tuple[str, ...] = ()


def validate(file: Path) -> Iterator[Verdict]:
    """Compile each Blueprint of a file.

    Raises:
        UsageError: the file cannot be read, or holds no Blueprint.
    """
    for body in bodies(file):
        subject = f"Blueprint {body.get('metadata', {}).get('name', '(without a name)')} in {file}"
        try:
            found = Blueprint.from_dict(body)
        except InvalidResource as exc:
            yield Verdict(subject, problems=tuple(str(violation) for violation in exc.violations))
            continue
        report = render_requests.compile_spec(found.spec.to_dict(), subject=subject)
        problems = () if report.is_good else (report.errors or (report.message,))
        yield Verdict(subject, words=report.message, problems=problems)


def one(file: Path, name: str) -> Blueprint:
    """Read the Blueprint of that name, or the only one of the file.

    Raises:
        UsageError: the file cannot be read, or has no such Blueprint.
        InvalidResource: it is not valid; with every violation.
    """
    found = bodies(file)
    chosen = [body for body in found if body.get("metadata", {}).get("name") == name]
    if not chosen:
        known = ", ".join(str(body.get("metadata", {}).get("name")) for body in found)
        raise errors.UsageError(f"{file} has no Blueprint {name}; it has {known}")
    return Blueprint.from_dict(chosen[0])


def bodies(file: Path) -> list[dict[str, Any]]:
    """Read the documents of a file that are Blueprints.

    Raises:
        UsageError: the file cannot be read, or holds no Blueprint.
    """
    found = render_requests.read_yaml(file, subject=str(file))
    chosen = [body for body in found if isinstance(body, dict) and body.get("kind") == "Blueprint"]
    if not chosen:
        raise errors.UsageError(f"{file} holds no object of kind Blueprint")
    return chosen
