"""Logs why lists and watches fail: each error once, and none of an absent namespace."""

from __future__ import annotations

import logging

from kais_operator import errors
from kais_operator.informer.list_client import WatchTarget
from kais_operator.informer.watch_health import WatchHealth


class FailureLog:
    """Remembers the last error of each target."""

    def __init__(self, logger: logging.Logger, watch_health: WatchHealth) -> None:
        self._logger = logger
        self._watch_health = watch_health
        self._failures: dict[WatchTarget, tuple[str, int]] = {}

    def record_failure(
        self, target: WatchTarget, exc: errors.ClusterError, message: str, *, forbidden_count: int
    ) -> None:
        """Log an error unless it repeats, or its namespace is absent.

        In a named namespace, Forbidden is logged at its `forbidden_count`-th time only: the
        namespace may prove absent until then, which is one line instead of one per kind.
        """
        if self._watch_health.is_absent(target.namespace):
            self._failures.pop(target, None)
            return
        last_reason, count = self._failures.get(target, ("", 0))
        reason = str(exc)
        count = count + 1 if reason == last_reason else 1
        self._failures[target] = (reason, count)
        is_held = isinstance(exc, errors.Forbidden) and target.namespace is not None
        if count == (forbidden_count if is_held else 1):
            self._logger.log(errors.log_level(exc), "%s: %s", message, exc)

    def record_success(self, target: WatchTarget) -> None:
        """Log the next error of a target, even if it had the same before."""
        self._failures.pop(target, None)
