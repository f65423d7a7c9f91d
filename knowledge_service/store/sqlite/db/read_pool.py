"""A small pool of reading connections; each use is a snapshot with a time limit."""

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

from knowledge_service import open_reads
from knowledge_service.errors import ReadTimeout, StoreDamaged, StoreUnavailable
from knowledge_service.search.postings.cache import VersionedCache
from knowledge_service.store.sqlite.db import connection as connections

# Queries release the GIL in SQLite only, so more readers would add memory and no speed. Lists and
# searches leave one connection to short reads, such as authentication.
READERS = 6
_BULK_READERS = 3
# SQLite releases the interpreter's lock for every row, and two concurrent recalls that take turns
# need a third more processor time. So a recall waits for the one that runs, unless that one takes
# several times as long as usual. At most this many run at once.
_SEARCH_READERS = 2
SEARCH_WAIT = timedelta(milliseconds=20)
# The page cache of each reader; most index data of recalls is also cached in decoded form.
_PAGES_KIB = 12_288
_CACHE_BYTES = 112 << 20
# A client that waits 10 s for an answer gets the reason instead.
TIME_LIMIT = timedelta(seconds=8)
# SQLite instructions between two checks of the clock, some milliseconds; a recall has fewer.
_PROGRESS_STEPS = 250_000


class _Reader:
    """One reading connection, and the deadline of its current read."""

    def __init__(self, path: Path) -> None:
        self.ends_at_s = 0.0
        self.connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self.connection.set_busy_timeout(connections.BUSY_MS)
        self.connection.wal_autocheckpoint(0)
        self.connection.execute(f"PRAGMA query_only=ON; PRAGMA cache_size=-{_PAGES_KIB}")
        self.connection.set_progress_handler(self.is_late, _PROGRESS_STEPS)

    def is_late(self) -> bool:
        """Return whether SQLite must stop."""
        return time.monotonic() > self.ends_at_s


class ReadPool:
    """A pool of reading connections; each use is one snapshot.

    The snapshots share `postings_cache`. A read that takes longer than `time_limit`, with the wait
    for its turn, is ended, so that it cannot block others forever. A deadline is a time of
    `time.monotonic`, which all processes share.
    """

    def __init__(
        self,
        path: Path,
        time_limit: timedelta = TIME_LIMIT,
        on_damage: Callable[[StoreDamaged], None] = lambda _: None,
        *,
        search_wait: timedelta = SEARCH_WAIT,
    ) -> None:
        self._on_damage = on_damage
        self.wait_for_other_process: Callable[[float], None] = lambda _: None
        """Waits for the snapshots from before an erasure of a process that also reads the file."""
        self.postings_cache = VersionedCache(_CACHE_BYTES)
        self._within_s = time_limit.total_seconds()
        self._browsing = threading.BoundedSemaphore(_BULK_READERS)
        self._searching = threading.BoundedSemaphore(_SEARCH_READERS)
        self._search_lock = threading.Lock()
        self._search_wait_s = search_wait.total_seconds()
        self._ended = threading.Condition()
        self._open: dict[int, float] = {}
        self._snapshots = itertools.count()
        self._free: queue.LifoQueue[_Reader] = queue.LifoQueue()
        for _ in range(READERS):
            self._free.put(_Reader(path))

    def new_deadline_s(self) -> float:
        """Return the deadline of a read that begins now."""
        return time.monotonic() + self._within_s

    @contextmanager
    def snapshot(self, ends_at_s: float | None = None) -> Iterator[apsw.Connection]:
        """Borrow a connection inside a read transaction, at most until a deadline.

        Raises:
            StoreUnavailable: the database cannot be read, or all connections are busy.
            ReadTimeout: the read took longer than the time limit.
        """
        if ends_at_s is None:
            ends_at_s = self.new_deadline_s()
        reader = self._borrowed(ends_at_s)
        connection = reader.connection
        number = next(self._snapshots)
        begin_s = self._open[number] = time.monotonic()
        try:
            reader.ends_at_s = ends_at_s
            if begin_s >= ends_at_s:
                raise self.busy_error()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except apsw.InterruptError as exc:
            if ends_at_s - begin_s < self._within_s / 2:  # it waited for longer than it ran
                raise self.busy_error() from exc
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
                del self._open[number]
                self._ended.notify_all()
            self._free.put(reader)

    def wait_for_earlier_snapshots(self, erased_at_s: float) -> None:
        """Wait until all snapshots from before an erasure have ended, at most for the time limit.

        The time limit begins with the erasure, so a caller that repeats it waits for the rest.
        """
        with self._ended:
            earlier = open_reads.begun_before(erased_at_s, self._open.copy())
            within_s = _remaining_s(erased_at_s + self._within_s)
            self._ended.wait_for(lambda: earlier.isdisjoint(self._open.copy()), within_s)
        self.wait_for_other_process(erased_at_s)

    @contextmanager
    def search_connection(self, ends_at_s: float | None = None) -> Iterator[apsw.Connection]:
        """Borrow like `snapshot` for CPU-bound reads: one at a time, two if the first takes long.

        Raises:
            StoreUnavailable, ReadTimeout: as for `snapshot`.
        """
        if ends_at_s is None:
            ends_at_s = self.new_deadline_s()
        wait_s = min(self._search_wait_s, _remaining_s(ends_at_s))
        is_locked = self._search_lock.acquire(timeout=wait_s)
        try:
            with self._in_turn(self._searching, ends_at_s) as connection:
                yield connection
        finally:
            if is_locked:
                self._search_lock.release()

    def bulk_connection(self) -> AbstractContextManager[apsw.Connection]:
        """Borrow like `snapshot` for large reads, which leave some connections to other reads.

        Raises:
            StoreUnavailable, ReadTimeout: as for `snapshot`.
        """
        return self._in_turn(self._browsing, self.new_deadline_s())

    @contextmanager
    def _in_turn(
        self, turns: threading.BoundedSemaphore, ends_at_s: float
    ) -> Iterator[apsw.Connection]:
        if not turns.acquire(timeout=_remaining_s(ends_at_s)):
            raise self.busy_error()
        try:
            with self.snapshot(ends_at_s) as connection:
                yield connection
        finally:
            turns.release()

    def _borrowed(self, ends_at_s: float) -> _Reader:
        try:
            return self._free.get(timeout=_remaining_s(ends_at_s))
        except queue.Empty:
            raise self.busy_error() from None

    def busy_error(self) -> StoreUnavailable:
        """Return the error of a read whose turn did not come in time."""
        return StoreUnavailable(f"every reader has been busy for {self._within_s:g} s; try again")

    def close(self) -> None:
        """Close every connection, waiting for those in use."""
        for _ in range(READERS):
            self._free.get().connection.close()


def _remaining_s(ends_at_s: float) -> float:
    return max(0.0, ends_at_s - time.monotonic())
