"""Truncates the write-ahead log after erasures, because it still holds the erased text.

The checkpoint thread copies the log into the file. The writer takes the last, short step between
two commits, so that no write waits for the whole log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import apsw

from knowledge_service.store.sqlite.db import connection as connections
from knowledge_service.store.sqlite.db.wal_checkpoint import Checkpointer

# Seconds between two attempts. A long read, such as a replication, blocks them, and each attempt
# costs two fsyncs.
_RETRY_S = 5.0
IDLE_RETRY_S = 5.0
"""Seconds between two attempts while there are no writes."""
# After this time the writer copies the whole log itself, because the thread has failed.
_WRITER_ALONE_AFTER_S = 10.0
_TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"


class WalTruncation:
    """The writer's part of the truncation, between two commits; for the writer thread only."""

    def __init__(
        self,
        connection: apsw.Connection,
        checkpointer: Checkpointer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._checkpointer = checkpointer
        self._monotonic = monotonic
        # After a kill the log may hold the text of the last erasure.
        self._due_since_s: float | None = monotonic()
        self._not_before = float("-inf")

    @property
    def is_due(self) -> bool:
        """Return whether the log holds erased text."""
        return self._due_since_s is not None

    @property
    def due_for_s(self) -> float | None:
        """The seconds that the log has held erased text; None when it holds none."""
        since_s = self._due_since_s
        return None if since_s is None else self._monotonic() - since_s

    def step(self, *, erases: bool) -> None:
        """Truncate the log if it holds text that the last commit or an earlier one erased.

        Does nothing while a snapshot of an earlier state is read, or while much is left to
        checkpoint; a later step tries again.
        """
        now_s = self._monotonic()
        if erases and self._due_since_s is None:
            self._due_since_s = now_s
        if self._due_since_s is None or (now_s < self._not_before and not erases):
            return
        if not self._checkpointer.is_short and now_s - self._due_since_s < _WRITER_ALONE_AFTER_S:
            self._checkpointer.shorten()
            return
        if not self._checkpointer.at_work.acquire(blocking=False):
            return
        try:
            self._not_before = now_s + _RETRY_S
            self._truncate()
        finally:
            self._checkpointer.at_work.release()

    def _truncate(self) -> None:
        # The commit is done; the next one reports an error of the disk.
        with suppress(apsw.Error):
            self._connection.set_busy_timeout(0)
            is_busy = self._connection.execute(_TRUNCATE).fetchall()[0][0]
            if not is_busy:
                self._due_since_s = None
        self._connection.set_busy_timeout(connections.BUSY_MS)
