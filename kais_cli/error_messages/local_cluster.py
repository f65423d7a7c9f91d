"""Translates the errors of `kais_cluster`, whose messages are already written for users."""

from __future__ import annotations

from kais_cli import errors
from kais_cluster.errors import ClusterError, InvalidSetting, NotRunning


def translate(failure: ClusterError) -> errors.CliError:
    """Return the error, with its exit status, for a failure of a local cluster."""
    if isinstance(failure, NotRunning):
        return errors.Unreachable(str(failure))
    if isinstance(failure, InvalidSetting):
        return errors.UsageError(str(failure))
    return errors.Refused(str(failure))
