"""Checkpoints the write-ahead log in a thread of its own, so that no commit waits for it.

A thread with a connection of its own copies what the log has while commits go on behind it. It can
never catch up with a busy writer, and a log that is not copied to its end is never begun anew. So
the writer does the last step itself, between two commits, when little is left. Where the thread
cannot, on a disk that fails for instance, the writer folds alone, as SQLite would have it.
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
# Pages of 4 KiB in the log. The same pages are written again and again, so a longer log is less to
# copy; a process that is killed reads its log when it starts.
_CHECKPOINT_PAGES = 4_000
# So many times as long, nobody else has folded it.
_ALONE = 4
_PAUSE_S = 1.0
# The thread goes over what came while it folded until so little is left for the writer, which
# everybody waits for, or it has tried so often: a writer can be faster than the disk.
_SHORT_WAL_PAGES, _TIMES = 500, 4
_WAL_SIZE = "SELECT count(*) FROM sqlite_schema"
_FAILED: tuple[type[Exception], ...] = (OSError, *connection.ENVIRONMENTAL)
_PASSIVE = apsw.SQLITE_CHECKPOINT_PASSIVE  # waits for nobody, and nobody for it


class Checkpointer(BackgroundWorker):
    """The thread, and what it shares with the writer."""

    def __init__(
        self, path: Path, file: connection.File, *, checkpoint_pages: int = _CHECKPOINT_PAGES
    ) -> None:
        super().__init__(
            "wal_checkpoint", {"wal_checkpoint": self._checkpoint}, retry_s=_PAUSE_S, delay_s=None
        )
        self._after = checkpoint_pages
        self._file = file
        self._pages = 0
        self._folded = 0
        self._is_nearly_done = False
        self._is_to_shorten = False
        self.on_short: Callable[[], None] = lambda: None
        """Called from the thread when little is left, after `shorten`."""
        self.at_work = threading.Lock()
        """Held while the log is folded: who needs the whole log for itself takes it."""
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._connection.wal_autocheckpoint(0)
        # A connection that has read nothing does not know that there is a log.
        self._connection.execute(_WAL_SIZE).fetchall()

    def watch(self, writing: apsw.Connection) -> None:
        """Look how long the log is after each commit, in the place of SQLite's own folding."""
        writing.set_wal_hook(self._grown)

    def finish(self, writing: apsw.Connection) -> None:
        """Do what is left between two commits: little, unless the thread cannot fold at all."""
        if not self._is_nearly_done and self._pages < _ALONE * self._after:
            return
        self._is_nearly_done = False
        with suppress(*connection.ENVIRONMENTAL):  # the next one may succeed; the log keeps it
            _, self._folded = writing.wal_checkpoint(mode=_PASSIVE)
        self._pages = 0

    @property
    def is_short(self) -> bool:
        """Tell whether little of the log is left to fold."""
        return self._is_nearly_done or self._pages - self._folded < _SHORT_WAL_PAGES

    def shorten(self) -> None:
        """Have the thread fold now, however short the log is."""
        self._is_to_shorten = True
        self.wake()

    def stop(self) -> None:
        """End the thread and let go of the file."""
        super().stop()
        connection.close_connection(self._connection)

    def _grown(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._pages:  # the log was restarted
            self._folded = 0
        self._pages = pages
        if pages >= self._after and not self._is_nearly_done:
            self.wake()
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        if self._is_nearly_done:
            return
        try:
            with self.at_work:
                for _ in range(_TIMES):
                    _, self._folded = self._connection.wal_checkpoint(mode=_PASSIVE)
                    # SQLite does so only with the end of the log, which is the writer's to fold.
                    self._file.sync()
                    if self._pages - self._folded < _SHORT_WAL_PAGES:
                        break
        except apsw.BusyError:
            return  # somebody else folds it now; after the next commit it is looked at again
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
