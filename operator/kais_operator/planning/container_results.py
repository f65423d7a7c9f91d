"""What the operator reads from a container: a command that ran in it, or the end of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Process:
    """A check's command as it was seen.

    Attributes:
        began_at: when it was started; None before.
        ended_at: when it ended; None while it runs.
        exit_code: None while it runs.
        words: the end of what it said, for people.
        failure: why it could not be run at all.
        trouble: why it has not started yet, in the kubelet's words.
    """

    began_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    words: str = ""
    failure: str | None = None
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
