"""The errors of this package.

ClusterError
├── MissingTools     programs or rights that this machine lacks; the message says how to get them
├── CommandFailed    a program ended with an error; the message carries the end of its output
├── StartFailed      a part of the cluster did not come up; the message carries the end of its log
└── NotRunning       something was asked of a cluster that is not up
"""


class ClusterError(Exception):
    """Anything that a cluster could not do; its text is meant for the person who asked."""


class MissingTools(ClusterError):
    """Programs or rights are missing on this machine."""


class CommandFailed(ClusterError):
    """A program that we called ended with an error."""


class StartFailed(ClusterError):
    """A process of the cluster ended, or did not answer in time."""


class NotRunning(ClusterError):
    """The cluster that was asked is not up."""
