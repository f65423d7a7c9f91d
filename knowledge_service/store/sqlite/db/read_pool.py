"""The connections that read: a few, each use of one a snapshot that ends in time."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

import apsw

from knowledge_service.errors import ReadTimeout, StoreDamaged, StoreUnavailable
from knowledge_service.search.postings.cache import VersionedCache
from knowledge_service.store.sqlite.db import connection as connections

# Queries release the GIL in SQLite only, so more readers than this add memory and no speed. Lists
# and searches leave one to what reads a row or two, as authentication does.
READERS = 6
_BULK_READERS = 3
# More recalls at once take the interpreter's lock from each other: with four of them 16 clients
# had up to a fifth fewer answers than with two.
_SEARCH_READERS = 2
# Pages of each reader; most of what recalls read of the index is kept decoded beside them.
_PAGES_KIB = 12_288
_CACHE_BYTES = 80 << 20
# A client that waits 10 s for an answer gets the reason instead.
TIME_LIMIT = timedelta(seconds=8)
# Instructions of SQLite between two looks at the clock, some milliseconds; a recall has fewer.
_PROGRESS_STEPS = 250_000


class _Reader:
    """One connection that reads, and the moment at which what it reads is ended."""

    def __init__(self, path: Path) -> None:
        self.ends_at_s = 0.0
        self.connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self.connection.set_busy_timeout(connections.BUSY_MS)
        self.connection.wal_autocheckpoint(0)
        self.connection.execute(f"PRAGMA query_only=ON; PRAGMA cache_size=-{_PAGES_KIB}")
        self.connection.set_progress_handler(self.is_late, _PROGRESS_STEPS)

    def is_late(self) -> bool:
        """Tell SQLite whether to stop."""
        return time.monotonic() > self.ends_at_s


class ReadPool:
    """A pool of connections that read; each use is one snapshot.

    Snapshots share `postings_cache`. A read that takes longer than `time_limit` is interrupted,
    so that it holds up nobody else for ever.
    """

    def __init__(
        self,
        path: Path,
        time_limit: timedelta = TIME_LIMIT,
        on_damage: Callable[[StoreDamaged], None] = lambda _: None,
    ) -> None:
        self._on_damage = on_damage
        self.postings_cache = VersionedCache(_CACHE_BYTES)
        self._within_s = time_limit.total_seconds()
        self._browsing = threading.BoundedSemaphore(_BULK_READERS)
        self._searching = threading.BoundedSemaphore(_SEARCH_READERS)
        self._ended = threading.Condition()
        self._open: set[int] = set()
        self._snapshots = itertools.count()
        self._free: queue.LifoQueue[_Reader] = queue.LifoQueue()
        for _ in range(READERS):
            self._free.put(_Reader(path))

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Borrow a connection inside a read transaction.

        Raises:
            StoreUnavailable: the database cannot be read, or not by one more caller.
            ReadTimeout: what was read took longer than it may.
        """
        reader = self._borrowed()
        connection = reader.connection
        number = next(self._snapshots)
        self._open.add(number)
        try:
            reader.ends_at_s = time.monotonic() + self._within_s
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except apsw.InterruptError as exc:
            raise ReadTimeout(
                f"the read took longer than {self._within_s:g} s; request less: fewer scopes,"
                " a kind, a tag, a smaller limit"
            ) from exc
        except connections.ENVIRONMENTAL as exc:
            error = connections.unavailable_error(exc)
            if isinstance(error, StoreDamaged):
                self._on_damage(error)
            raise error from exc
        finally:
            with self._ended:
                self._open.discard(number)
                self._ended.notify_all()
            self._free.put(reader)

    def wait_for_open_snapshots(self) -> None:
        """Wait until all snapshots have ended that are open now, or for as long as one may take."""
        with self._ended:
            open_now = set(self._open)
            self._ended.wait_for(lambda: not open_now & self._open, self._within_s)

    def search_connection(self) -> AbstractContextManager[apsw.Connection]:
        """Borrow as `snapshot` does for what keeps a processor busy; the others wait their turn.

        Raises:
            StoreUnavailable, ReadTimeout: as `snapshot`.
        """
        return self._in_turn(self._searching)

    def bulk_connection(self) -> AbstractContextManager[apsw.Connection]:
        """Borrow as `snapshot` does for what may read much; other readers stay for the rest.

        Raises:
            StoreUnavailable, ReadTimeout: as `snapshot`.
        """
        return self._in_turn(self._browsing)

    @contextmanager
    def _in_turn(self, turns: threading.BoundedSemaphore) -> Iterator[apsw.Connection]:
        if not turns.acquire(timeout=self._within_s):
            raise self._busy()
        try:
            with self.snapshot() as connection:
                yield connection
        finally:
            turns.release()

    def _borrowed(self) -> _Reader:
        try:
            return self._free.get(timeout=self._within_s)
        except queue.Empty:
            raise self._busy() from None

    def _busy(self) -> StoreUnavailable:
        return StoreUnavailable(f"every reader has been busy for {self._within_s:g} s; try again")

    def close(self) -> None:
        """Close every connection, waiting for those in use."""
        for _ in range(READERS):
            self._free.get().connection.close()
