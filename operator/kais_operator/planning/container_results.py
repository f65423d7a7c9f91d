"""Results that the operator reads from a container: a command that ran in it, or its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_PROGRAM_MISSING = ("executable file not found", "no such file or directory")
"""Texts of container runtimes for a program that an image lacks; they return no code for it."""


@dataclass(frozen=True)
class Process:
    """The observed command of a check.

    Attributes:
        began_at: when it started; None before.
        ended_at: when it ended; None while it runs.
        exit_code: None while it runs.
        output_tail: the end of its output, for people.
        failure: why it could not be run at all.
        is_program_missing: whether it could not be run because the image lacks the program.
        waiting_message: why it has not started yet, as the kubelet reports it.
        last_failure: why its previous run failed, if it repeats and runs; None if that succeeded.
    """

    began_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    output_tail: str = ""
    failure: str | None = None
    is_program_missing: bool = False
    waiting_message: str | None = None
    last_failure: str | None = None

    @property
    def problem(self) -> str | None:
        """Why its latest run that has ended failed; None if it succeeded, or before the first."""
        if self.failure is None and self.ended_at is not None and self.exit_code != 0:
            return self.output_tail.strip() or f"it ended with exit code {self.exit_code}"
        return self.failure or self.last_failure


@dataclass(frozen=True)
class Log:
    """The end of a container's log.

    Attributes:
        text: at most the last 256 KiB.
        problem: why there is no log to evaluate; None when there is one.
    """

    text: str = ""
    problem: str | None = None


def is_program_missing(message: str) -> bool:
    """Whether a message of a container runtime says that the image lacks the program."""
    return any(hint in message for hint in _PROGRAM_MISSING)
