"""Follow several logs at once, and write their lines as they arrive.

Each line begins with its pod and container, as in `kubectl logs --prefix`, and stays whole.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.ports import Waiting

if TYPE_CHECKING:
    from kais_cli.ports import LogItem, LogOptions
    from kais_cli.session import Session

MAX_STREAMS = 50
"""Logs that are followed at once; each holds a connection of the API server to a node."""
_MAX_EVENTS = 100  # events that wait to be written; later ones wait in their connections
_MAX_LINE = 1024 * 1024  # characters after which a line is broken, so that memory is bounded


@dataclass(frozen=True)
class Log:
    """The log of one container."""

    pod: str
    container: str

    @property
    def prefix(self) -> str:
        """The beginning of its lines."""
        return f"[pod/{self.pod}/{self.container}] "


@dataclass(frozen=True)
class _Event:
    """An item of a log, its end, or the end of a sequence of logs, which has no log."""

    log: Log | None = None
    item: LogItem | None = None
    failure: Exception | None = None


def write(session: Session, sequences: Sequence[Sequence[Log]], options: LogOptions) -> list[bool]:
    """Write the logs of each sequence one after another, and the sequences at the same time.

    Returns whether there was anything in each log that could be read.

    Raises:
        CliError: A log could not be read to its end; the other sequences were.
    """
    events: queue.Queue[_Event] = queue.Queue(_MAX_EVENTS)
    for sequence in sequences:
        arguments = (session, sequence, options, events)
        # A daemon, so that Ctrl-C and a closed pipe end the process although it waits for a line.
        threading.Thread(target=_read, args=arguments, daemon=True).start()
    writers = {log: _LineWriter(session, log.prefix) for each in sequences for log in each}
    has_output, failures, left = [], [], len(sequences)
    while left:
        event = events.get()
        if event.log is None:
            left -= 1
        elif event.item is not None:
            writers[event.log].write(event.item)
        else:
            has_output += writers[event.log].end(event.failure)
            failures += _lasting(event.failure)
        if events.empty():
            session.environment.write()
    if failures:
        raise failures[0]
    return has_output


def _read(
    session: Session, sequence: Sequence[Log], options: LogOptions, events: queue.Queue[_Event]
) -> None:
    """Put the items of logs into the queue, one log after another, up to a failure."""
    for log in sequence:
        failure: Exception | None = None
        try:
            for item in session.cluster.logs(
                session.namespace, log.pod, container=log.container, options=options
            ):
                events.put(_Event(log, item))
        except Exception as exc:  # noqa: BLE001 - the thread of the command raises it
            failure = exc
        events.put(_Event(log, failure=failure))
        if failure is not None and not isinstance(failure, errors.NotStarted):
            break
    events.put(_Event())


def _lasting(failure: Exception | None) -> list[Exception]:
    """Return a failure that ends the command as well, after the other logs."""
    return [] if failure is None or isinstance(failure, errors.NotStarted) else [failure]


class _LineWriter:
    """Writes whole lines of one log, with its prefix."""

    def __init__(self, session: Session, prefix: str) -> None:
        self._session, self._prefix = session, prefix
        self._incomplete = ""
        self._has_output = False

    def write(self, item: LogItem) -> None:
        """Write the lines that a piece completes, or a note about what the log waits for."""
        if isinstance(item, Waiting):
            self._session.note(item.message)
            return
        self._has_output = self._has_output or bool(item)
        *lines, self._incomplete = (self._incomplete + item).split("\n")
        for line in lines:
            self._session.write(f"{self._prefix}{line}\n")
        if len(self._incomplete) > _MAX_LINE:
            self._flush()

    def end(self, failure: Exception | None) -> list[bool]:
        """Write what is left and a failure; return whether there was output if it was read."""
        self._flush()
        if failure is None:
            return [self._has_output]
        if not isinstance(failure, errors.CliError):
            raise failure
        self._session.note(str(failure))
        return []

    def _flush(self) -> None:
        if self._incomplete:
            self._session.write(f"{self._prefix}{self._incomplete}\n")
        self._incomplete = ""
