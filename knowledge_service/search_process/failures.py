"""Why the process of the searches ended or was ended, for the log and the metrics. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The label `reason` of the metric."""

    NOT_STARTED = "not_started"
    NOT_READY = "not_ready"
    OTHER_VERSION = "other_version"
    EXITED = "exited"
    SIGNALLED = "signalled"
    ERASURE_TIMEOUT = "erasure_timeout"
    UNRESPONSIVE = "unresponsive"
    STALLED = "stalled"
    PROTOCOL_ERROR = "protocol_error"
    SUPERVISOR_ERROR = "supervisor_error"


@dataclass(frozen=True)
class ProcessFailure:
    """Why there is no process: a reason, and a message for people."""

    reason: Reason
    message: str


def of_exit(status: int | None, stderr: str, *, was_ready: bool) -> ProcessFailure:
    """Describe a process that ended by itself, by its exit status and what it wrote to stderr."""
    moment = "after" if was_ready else "before"
    if status is None:
        message = f"it closed its connections {moment} it was ready, and does not end"
        return ProcessFailure(Reason.PROTOCOL_ERROR, message)
    reason = Reason.EXITED if was_ready else Reason.NOT_READY
    how = f"it exited with status {status}"
    if status < 0:
        reason = Reason.SIGNALLED
        how = f"{_signal_name(-status)} ended it"
    last_line = stderr.strip().rpartition("\n")[2]
    details = f": {last_line}" if last_line else ""
    return ProcessFailure(reason, f"{how} {moment} it was ready{details}")


def of_start(error: OSError) -> ProcessFailure:
    """Describe a process that the operating system refused to start."""
    return ProcessFailure(Reason.NOT_STARTED, f"it could not be started: {error}")


def unexpected(error: Exception) -> ProcessFailure:
    """Describe a fault of the supervisor."""
    return ProcessFailure(Reason.SUPERVISOR_ERROR, f"its supervisor failed: {error!r}")


def not_ready(limit_s: float) -> ProcessFailure:
    """Describe a process that took too long to start."""
    return ProcessFailure(Reason.NOT_READY, f"it was not ready within {limit_s:g} s")


def other_version() -> ProcessFailure:
    """Describe a process that was started from a newer installation."""
    message = "it has another version of kais-knowledge; restart the service"
    return ProcessFailure(Reason.OTHER_VERSION, message)


def erasure_timeout(version: int, limit_s: float) -> ProcessFailure:
    """Describe a process that delayed the commit of an erasure."""
    message = f"it did not confirm the erasure version {version} within {limit_s:g} s"
    return ProcessFailure(Reason.ERASURE_TIMEOUT, message)


def unresponsive(search: int, waited_s: float, limit_s: float) -> ProcessFailure:
    """Describe a process that answered no ping while a search waited."""
    waited = f"search {search} had waited {waited_s:.1f} s"
    message = f"it did not answer a ping within {limit_s:g} s; {waited}"
    return ProcessFailure(Reason.UNRESPONSIVE, message)


def stalled(search: int, waited_s: float) -> ProcessFailure:
    """Describe a process that answered pings, but no search."""
    message = f"it answered no search for {waited_s:.1f} s, not even that search {search} is late"
    return ProcessFailure(Reason.STALLED, message)


def protocol_error(search: int, error: Exception) -> ProcessFailure:
    """Describe a process that closed a connection, or sent no valid message."""
    message = f"it broke the connection of search {search}: {error!r}"
    return ProcessFailure(Reason.PROTOCOL_ERROR, message)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
