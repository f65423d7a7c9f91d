"""What a check of `kais doctor` found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One answer; `advice` says what to do next, empty where nothing is to do."""

    level: Level
    subject: str
    words: str
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self) | {"level": str(self.level)}


def ok(subject: str, message: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(Level.OK, subject, message)


def warning(subject: str, message: str, advice: str) -> Finding:
    """Say that something works and should be seen to."""
    return Finding(Level.WARNING, subject, message, advice)


def failed(subject: str, message: str, advice: str) -> Finding:
    """Say that something does not work."""
    return Finding(Level.FAILED, subject, message, advice)


def format_findings(findings: Sequence[Finding]) -> str:
    """Write them for people, and a last line that sums up."""
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
