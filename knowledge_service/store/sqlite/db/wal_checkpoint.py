"""Checkpoints the write-ahead log in its own thread, so that no commit waits for it.

The thread copies the log through its own connection while commits continue. It can never catch up
with a busy writer, and a log that is not copied to its end is never restarted. So the writer itself
does the last step, between two commits, when little is left. If the thread cannot checkpoint, for
example because the disk fails, the writer does it alone, as SQLite does by default.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from knowledge_service.store.sqlite.db import connection
from knowledge_service.workers.background import BackgroundWorker

_log = logging.getLogger(__name__)
# Length of the log in pages of 4 KiB. The same pages are written repeatedly, so a longer log has
# less to copy. A process that is killed reads its log at the next start.
_CHECKPOINT_PAGES = 4_000
# At this multiple of that length, the thread has failed and the writer checkpoints alone.
_WRITER_ALONE_MULTIPLE = 4
_PAUSE_S = 1.0
# The thread repeats its checkpoint until at most this many pages are left for the writer, whose
# checkpoint delays every caller, or until this many passes: a writer can be faster than the disk.
_SHORT_WAL_PAGES, _MAX_PASSES = 500, 4
_WAL_SIZE = "SELECT count(*) FROM sqlite_schema"
_FAILED: tuple[type[Exception], ...] = (OSError, *connection.ENVIRONMENTAL)
_PASSIVE = apsw.SQLITE_CHECKPOINT_PASSIVE  # blocks nobody and waits for nobody


class Checkpointer(BackgroundWorker):
    """The checkpoint thread, and the state that it shares with the writer."""

    def __init__(
        self, path: Path, file: connection.File, *, checkpoint_pages: int = _CHECKPOINT_PAGES
    ) -> None:
        super().__init__(
            "wal_checkpoint", {"wal_checkpoint": self._checkpoint}, retry_s=_PAUSE_S, delay_s=None
        )
        self._checkpoint_pages = checkpoint_pages
        self._file = file
        self._pages = 0
        self._checkpointed_pages = 0
        self._is_nearly_done = False
        self._is_to_shorten = False
        self.on_short: Callable[[], None] = lambda: None
        """Called from the thread when little is left, after `shorten`."""
        self.at_work = threading.Lock()
        """Held during a checkpoint; take it to use the whole log exclusively."""
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._connection.wal_autocheckpoint(0)
        # A connection that has read nothing does not know that there is a log.
        self._connection.execute(_WAL_SIZE).fetchall()

    def watch(self, writing: apsw.Connection) -> None:
        """Check the log's length after each commit, in place of SQLite's automatic checkpoint."""
        writing.set_wal_hook(self._grown)

    def finish(self, writing: apsw.Connection) -> None:
        """Finish the checkpoint between two commits; little is left unless the thread failed."""
        if (
            not self._is_nearly_done
            and self._pages < _WRITER_ALONE_MULTIPLE * self._checkpoint_pages
        ):
            return
        self._is_nearly_done = False
        with suppress(*connection.ENVIRONMENTAL):  # the next one may succeed; the log keeps it
            _, self._checkpointed_pages = writing.wal_checkpoint(mode=_PASSIVE)
        self._pages = 0

    @property
    def is_short(self) -> bool:
        """Return whether little of the log is left to checkpoint."""
        return self._is_nearly_done or self._pages - self._checkpointed_pages < _SHORT_WAL_PAGES

    def shorten(self) -> None:
        """Start a checkpoint in the thread now, however short the log is."""
        self._is_to_shorten = True
        self.wake()

    def stop(self) -> None:
        """End the thread and close its connection."""
        super().stop()
        connection.close_connection(self._connection)

    def _grown(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._pages:  # the log was restarted
            self._checkpointed_pages = 0
        self._pages = pages
        if pages >= self._checkpoint_pages and not self._is_nearly_done:
            self.wake()
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        if self._is_nearly_done:
            return
        try:
            with self.at_work:
                for _ in range(_MAX_PASSES):
                    _, self._checkpointed_pages = self._connection.wal_checkpoint(mode=_PASSIVE)
                    # SQLite syncs only at the end of the log, which the writer copies.
                    self._file.sync()
                    if self._pages - self._checkpointed_pages < _SHORT_WAL_PAGES:
                        break
        except apsw.BusyError:
            return  # another connection checkpoints now; the next commit checks again
        except _FAILED as exc:
            _log.warning(
                "the write-ahead log was not checkpointed", extra={"fields": {"why": str(exc)}}
            )
            self.pause(_PAUSE_S)
        else:
            self._is_nearly_done = True
            if self._is_to_shorten:
                self._is_to_shorten = False
                self.on_short()
