"""What a command ends with when it cannot do its work.

CliError                carries the exit status and a message that says what to do next
├── UsageError          options, parameters or a file are wrong (2)
├── Refused             the cluster or the service said no, or something is not there (1)
│   ├── NoAccount       the realm has no account yet, and none was to be made (1)
│   └── UnknownKind     the cluster does not serve the kind (1)
├── WaitedTooLong       what was followed did not end within --timeout (3)
├── Unreachable         the cluster or the service does not answer (7)
└── ReaderGone          nobody reads what is written any more (141, without a word)
"""

from __future__ import annotations

from kais_cli.exit_status import ExitStatus


class CliError(Exception):
    """Anything that ends a command early; its text is for the person at the terminal."""

    status = ExitStatus.FAILED


class UsageError(CliError):
    """The command was given something wrong; nothing was changed."""

    status = ExitStatus.USAGE


class Refused(CliError):
    """The cluster or the service did not do what was asked."""


class NoAccount(Refused):
    """The namespace has no ServiceAccount whose token the knowledge service takes."""


class UnknownKind(Refused):
    """The API server does not serve the kind: no right would help."""


class WaitedTooLong(CliError):
    """Patience ended before the work did; the work goes on."""

    status = ExitStatus.TIMED_OUT


class Unreachable(CliError):
    """Nobody answers where the cluster or the service should be."""

    status = ExitStatus.UNREACHABLE


class ReaderGone(CliError):
    """Whoever read the output has enough, as `head` does."""

    status = ExitStatus.READER_GONE
