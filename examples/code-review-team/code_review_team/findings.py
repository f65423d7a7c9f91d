"""The findings of developers, and their JSON form in responses to the lead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SERIOUS, MINOR = "serious", "minor"


@dataclass(frozen=True)
class SourceFile:
    """One file of a change."""

    path: str
    text: str


@dataclass(frozen=True)
class Finding:
    """One problem that a developer reports.

    Attributes:
        rule: a short name; the same rule in other files is the same habit.
        line: counted from 1; 0 means the whole file.
        severity: `serious` or `minor`.
    """

    aspect: str
    rule: str
    path: str
    line: int
    severity: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.aspect}/{self.rule}] {self.message}"


def from_json(body: Mapping[str, Any]) -> Finding:
    """Parse a finding. Raises KeyError or ValueError if it is malformed."""
    return Finding(
        aspect=str(body["aspect"]),
        rule=str(body["rule"]),
        path=str(body["path"]),
        line=int(body["line"]),
        severity=str(body["severity"]),
        message=str(body["message"]),
    )
