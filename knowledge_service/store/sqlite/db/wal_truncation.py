"""Truncates the write-ahead log after erasures, because it still holds the erased text.

The thread that folds copies what the log holds into the file. The writer takes the last, short step
between two commits, so that no write waits for the whole log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import apsw

from knowledge_service.store.sqlite.db import connection as connections
from knowledge_service.store.sqlite.db.wal_checkpoint import Checkpointer

# Between two tries. A long read, such as a replication, blocks them, and each try costs two
# fsyncs.
_AGAIN_S = 5.0
AGAIN_IDLE_S = 5.0
"""The same while nobody writes."""
# After so long the writer copies the whole log itself: the thread that folds cannot.
_ALONE_S = 10.0
_EMPTY = "PRAGMA wal_checkpoint(TRUNCATE)"


class WalTruncation:
    """What the writer does for it between two commits. Used from its thread only."""

    def __init__(
        self,
        connection: apsw.Connection,
        checkpointer: Checkpointer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._checkpointer = checkpointer
        self._monotonic = monotonic
        # After a kill the log may hold what was erased last.
        self._due_since_s: float | None = monotonic()
        self._not_before = float("-inf")

    @property
    def is_due(self) -> bool:
        """Tell whether the log holds what was erased."""
        return self._due_since_s is not None

    @property
    def due_for_s(self) -> float | None:
        """For how long the log has held what was erased; None when it does not."""
        since_s = self._due_since_s
        return None if since_s is None else self._monotonic() - since_s

    def step(self, *, erases: bool) -> None:
        """Empty the log if it holds what was erased, by the last commit or one before it.

        While a read of an earlier state lasts, or much is left to fold, nothing is done; a later
        step tries again.
        """
        now_s = self._monotonic()
        if erases and self._due_since_s is None:
            self._due_since_s = now_s
        if self._due_since_s is None or (now_s < self._not_before and not erases):
            return
        if not self._checkpointer.is_short and now_s - self._due_since_s < _ALONE_S:
            self._checkpointer.shorten()
            return
        if not self._checkpointer.at_work.acquire(blocking=False):
            return
        try:
            self._not_before = now_s + _AGAIN_S
            self._empty()
        finally:
            self._checkpointer.at_work.release()

    def _empty(self) -> None:
        # The commit is done; what the disk has to say, the next one says.
        with suppress(apsw.Error):
            self._connection.set_busy_timeout(0)
            is_busy = self._connection.execute(_EMPTY).fetchall()[0][0]
            if not is_busy:
                self._due_since_s = None
        self._connection.set_busy_timeout(connections.BUSY_MS)
