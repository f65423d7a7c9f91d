"""The exit statuses of commands, for scripts; docs/reference/cli.md lists the same numbers."""

from __future__ import annotations

from enum import IntEnum

from kais.outcomes import Outcome


class ExitStatus(IntEnum):
    """The exit status of every command; outcomes are those of a followed run."""

    SUCCEEDED = 0
    FAILED = 1
    USAGE = 2
    TIMED_OUT = 3
    INFRASTRUCTURE_FAILED = 4
    CANCELLED = 5
    BUDGET_EXCEEDED = 6
    UNREACHABLE = 7
    INTERRUPTED = 130
    READER_GONE = 141


_OF_OUTCOME = {
    Outcome.SUCCEEDED: ExitStatus.SUCCEEDED,
    Outcome.FAILED: ExitStatus.FAILED,
    Outcome.TIMED_OUT: ExitStatus.TIMED_OUT,
    Outcome.INFRASTRUCTURE_FAILED: ExitStatus.INFRASTRUCTURE_FAILED,
    Outcome.CANCELLED: ExitStatus.CANCELLED,
    Outcome.BUDGET_EXCEEDED: ExitStatus.BUDGET_EXCEEDED,
}


def of_outcome(outcome: Outcome) -> ExitStatus:
    """Return the exit status of a run's outcome; each outcome has a different one."""
    return _OF_OUTCOME[outcome]
