"""What the operator reads from a container: a command that ran in it, or the end of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_PROGRAM_MISSING = ("executable file not found", "no such file or directory")
"""What container runtimes say of a program that an image lacks; they give no code for it."""


@dataclass(frozen=True)
class Process:
    """A check's command as it was seen.

    Attributes:
        began_at: when it was started; None before.
        ended_at: when it ended; None while it runs.
        exit_code: None while it runs.
        words: the end of what it said, for people.
        failure: why it could not be run at all.
        is_program_missing: it could not be run because the image lacks the program.
        trouble: why it has not started yet, in the kubelet's words.
    """

    began_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    output_tail: str = ""
    failure: str | None = None
    is_program_missing: bool = False
    trouble: str | None = None


@dataclass(frozen=True)
class Log:
    """The end of a container's log.

    Attributes:
        text: at most 256 KiB, the last ones.
        problem: why there is none to judge by; None when there is.
    """

    text: str = ""
    problem: str | None = None


def is_program_missing(message: str) -> bool:
    """Whether a container runtime says that the image lacks the program it was to start."""
    return any(hint in message for hint in _PROGRAM_MISSING)
