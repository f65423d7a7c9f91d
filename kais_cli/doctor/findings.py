"""The results of the checks of `kais doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One result; `advice` is the next step, empty if there is nothing to do."""

    level: Level
    subject: str
    words: str
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON tree."""
        return asdict(self) | {"level": str(self.level)}


def ok(subject: str, message: str) -> Finding:
    """Return a finding that everything works."""
    return Finding(Level.OK, subject, message)


def warning(subject: str, message: str, advice: str) -> Finding:
    """Return a finding that something works but needs attention."""
    return Finding(Level.WARNING, subject, message, advice)


def failed(subject: str, message: str, advice: str) -> Finding:
    """Return a finding that something does not work."""
    return Finding(Level.FAILED, subject, message, advice)


def format_findings(findings: Sequence[Finding]) -> str:
    """Format findings for people, with a summary in the last line."""
    width = max(len(finding.subject) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.subject:<{width}}  {finding.words}")
        if finding.advice:
            lines.append(f"{'':<8} {'':<{width}}  → {finding.advice}")
    counts = {level: sum(f.level is level for f in findings) for level in Level}
    warnings = f"{counts[Level.WARNING]} warning{'' if counts[Level.WARNING] == 1 else 's'}"
    lines.append(f"{counts[Level.OK]} ok, {warnings}, {counts[Level.FAILED]} failed")
    return "\n".join(lines) + "\n"
