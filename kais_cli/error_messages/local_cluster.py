"""Translates the errors of `kais_cluster`, whose messages are written for users already."""

from __future__ import annotations

from kais_cli import errors
from kais_cluster.errors import ClusterError, InvalidSetting, NotRunning


def translate(failure: ClusterError) -> errors.CliError:
    """Return the error with the exit status for what a local cluster could not do."""
    if isinstance(failure, NotRunning):
        return errors.Unreachable(str(failure))
    if isinstance(failure, InvalidSetting):
        return errors.UsageError(str(failure))
    return errors.Refused(str(failure))
