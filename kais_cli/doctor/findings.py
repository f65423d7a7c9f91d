"""The results of the checks of `kais doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

_NOT_CHECKED = "not checked: "


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


_READ_ADVICE = "request the right to read it"


def refused(subject: str, message: str) -> Finding:
    """Return a finding that the user lacks the permission that a check needs."""
    return Finding(Level.WARNING, subject, f"{_NOT_CHECKED}{message}", _READ_ADVICE)


def unanswered(subject: str, message: str) -> Finding:
    """Return a finding that a request of a check failed, so that the state is not known."""
    return Finding(Level.FAILED, subject, f"{_NOT_CHECKED}{message}", "run kais doctor again")


def merge_refused(results: Iterable[Finding]) -> list[Finding]:
    """Replace several findings of `refused` by one, which names what the user may not read."""
    merged = list(results)
    unread = [finding for finding in merged if finding.advice == _READ_ADVICE]
    if len(unread) < 2:  # noqa: PLR2004 (several)
        return merged
    requests = [
        f"{finding.subject} ({finding.words.removeprefix(_NOT_CHECKED).partition(': ')[0]})"
        for finding in unread
    ]
    message = f"not checked, because you may not read it: {', '.join(requests)}"
    advice = "request these rights, or let an administrator run kais doctor"
    position = merged.index(unread[0])
    kept = [finding for finding in merged if finding not in unread]
    return [*kept[:position], warning("rights", message, advice), *kept[position:]]


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
