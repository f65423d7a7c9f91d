"""What developers say about a file, and how it travels between them and the lead."""

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
    """One thing that a developer would have changed.

    Attributes:
        rule: a short name; equal ones in other files are the same habit.
        line: counted from 1; 0 is the whole file.
        severity: `serious` or `minor`.
    """

    aspect: str
    rule: str
    path: str
    line: int
    severity: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """Make it an object for the wire."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.aspect}/{self.rule}] {self.message}"


def from_json(body: Mapping[str, Any]) -> Finding:
    """Read what a developer sent; raises KeyError or ValueError on anything else."""
    return Finding(
        aspect=str(body["aspect"]),
        rule=str(body["rule"]),
        path=str(body["path"]),
        line=int(body["line"]),
        severity=str(body["severity"]),
        message=str(body["message"]),
    )
