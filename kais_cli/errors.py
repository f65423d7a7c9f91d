"""The errors that end a command.

CliError                 has an exit status, and a message that says what to do next
├── UsageError           invalid options, parameters or files (2)
├── Refused              the cluster or the service rejected a request, or an object is missing (1)
│   ├── NoAccount        the realm has no account, and the command must not create one (1)
│   ├── NoPreviousLog    the container has not run before its last start (1)
│   ├── NotStarted       the container whose log is followed does not start (1)
│   ├── TooDeep          an object nests too deeply to be read (1)
│   └── UnknownKind      the cluster does not serve the kind (1)
├── TimedOut             the run did not end within --timeout (3)
├── Interrupted          the user stopped following a run, which continues (130)
├── Unreachable          the cluster or the service does not respond (7)
└── BrokenOutputPipe     the reader of the output closed the pipe (141, without a message)
"""

from __future__ import annotations

from kais_cli.exit_status import ExitStatus


class CliError(Exception):
    """Ends a command early; its text is shown to the user."""

    status = ExitStatus.FAILED


class UsageError(CliError):
    """The user's input is invalid; nothing was changed."""

    status = ExitStatus.USAGE


class Refused(CliError):
    """The cluster or the service rejected the request."""


class NoAccount(Refused):
    """The namespace has no ServiceAccount for the knowledge service."""


class NoPreviousLog(Refused):
    """The container has not been restarted, so it has no log of an earlier run."""


class NotStarted(Refused):
    """The container does not start, so that its log cannot be followed."""


class TooDeep(Refused):
    """An object nests too deeply to be read, until it is made shallower or deleted."""


class UnknownKind(Refused):
    """The API server does not serve the kind; no permission would help."""


class TimedOut(CliError):
    """The timeout passed before the run ended; the run continues."""

    status = ExitStatus.TIMED_OUT


class Interrupted(CliError):
    """The user pressed Ctrl-C while a run was followed; the run continues."""

    status = ExitStatus.INTERRUPTED


class Unreachable(CliError):
    """The cluster or the service does not respond."""

    status = ExitStatus.UNREACHABLE


class BrokenOutputPipe(CliError):
    """The reader of the output closed the pipe, as `head` does."""

    status = ExitStatus.READER_GONE
