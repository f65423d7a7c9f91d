"""The errors of this package.

ClusterError
├── MissingTools     programs or rights that this machine lacks; the message says how to get them
├── CommandFailed    a program ended with an error; the message carries the end of its output
├── StartFailed      a part of the cluster did not come up; the message carries the end of its log
├── InvalidSetting   an environment variable has an invalid value; the message names it
└── NotRunning       the cluster is not up
"""


class ClusterError(Exception):
    """The base class of all errors; the text is a message for the user."""


class MissingTools(ClusterError):
    """Programs or rights are missing on this machine."""


class CommandFailed(ClusterError):
    """A program that we called ended with an error."""


class StartFailed(ClusterError):
    """A process of the cluster ended, or did not answer in time."""


class InvalidSetting(ClusterError, ValueError):
    """An environment variable has an invalid value."""


class NotRunning(ClusterError):
    """The cluster is not up."""
