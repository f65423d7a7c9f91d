"""Empties the write-ahead log after erasures: in it, the words of erased facts would stay."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import apsw

from knowledge_service.store.sqlite import connection as connections

# Between two tries. Who reads for long, as a replication does, is in the way, and each try costs
# two fsyncs.
_AGAIN_S = 5.0
AGAIN_IDLE_S = 30.0
"""The same while nobody writes."""
_EMPTY = "PRAGMA wal_checkpoint(TRUNCATE)"


class Emptying:
    """What the writer does for it between two commits. Used from its thread only."""

    def __init__(
        self, connection: apsw.Connection, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._monotonic = monotonic
        # After a kill the log may hold what was erased last.
        self._is_due = True
        self._not_before = float("-inf")

    @property
    def is_due(self) -> bool:
        """Tell whether the log holds what was erased."""
        return self._is_due

    def step(self, *, erases: bool) -> None:
        """Empty the log if it holds what was erased, by the last commit or one before it.

        While somebody reads what was, it cannot be done; a later step tries again.
        """
        now_s = self._monotonic()
        self._is_due = self._is_due or erases
        if not self._is_due or (now_s < self._not_before and not erases):
            return
        self._not_before = now_s + _AGAIN_S
        # The commit is done; what the disk has to say, the next one says.
        with suppress(apsw.Error):
            self._connection.set_busy_timeout(0)
            is_busy = self._connection.execute(_EMPTY).fetchall()[0][0]
            self._is_due = bool(is_busy)
        self._connection.set_busy_timeout(connections.BUSY_MS)
