"""The errors of this package.

ClusterError
├── MissingTools     missing programs or permissions; the message says how to get them
├── CommandFailed    a program failed; the message contains the end of its output
├── StartFailed      a part of the cluster did not start; the message contains the end of its log
├── InvalidSetting   an environment variable has an invalid value; the message names it
└── NotRunning       the cluster is not running
"""


class ClusterError(Exception):
    """The base class of all errors; the text is a message for the user."""


class MissingTools(ClusterError):
    """Programs or permissions are missing on this machine."""


class CommandFailed(ClusterError):
    """A program that we ran ended with an error."""


class StartFailed(ClusterError):
    """A process of the cluster ended, or did not answer in time."""


class InvalidSetting(ClusterError, ValueError):
    """An environment variable has an invalid value."""


class NotRunning(ClusterError):
    """The cluster is not running."""
