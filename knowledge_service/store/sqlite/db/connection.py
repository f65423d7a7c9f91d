"""Opens the file: the lock that makes this process its owner, connections, errors of SQLite.

WAL with synchronous=FULL: a commit survives a power cut. Both the writer's connection and that of
`wal_checkpoint` run checkpoints. The bundled SQLite of at least 3.51.3 lacks the WAL-reset defect
of older versions.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

import apsw

from knowledge_service.errors import (
    FileLocked,
    StartupError,
    StoreDamaged,
    StoreUnavailable,
)
from knowledge_service.event_log import event_payloads
from knowledge_service.search.postings import segment_codec

# A volume with less free space than this counts as full. It is enough for some of the largest facts
# with their index.
_ROOM = 1 << 20
# How long a connection waits for a lock of another one, in milliseconds.
BUSY_MS = 5000
_OLDEST_SQLITE = (3, 51, 3)

UNREADABLE: tuple[type[Exception], ...] = (
    segment_codec.CorruptSegment,
    event_payloads.UnreadablePayload,
)
"""Damage that SQLite does not notice."""
FAILURES: tuple[type[Exception], ...] = (apsw.Error, *UNREADABLE)
"""Every error that reading a faulty file can cause."""

# Failures of the disk or the machine. Any other error of SQLite is our own fault and is not
# handled.
ENVIRONMENTAL: tuple[type[Exception], ...] = (
    apsw.IOError,
    apsw.FullError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.InterruptError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.NoLFSError,
    apsw.ConnectionClosedError,
    *UNREADABLE,
)


TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_DAMAGE = (apsw.CorruptError, apsw.NotADBError)


def unavailable_error(exc: Exception) -> StoreUnavailable:
    """Map an environmental error; the message names no path and no statement."""
    if isinstance(exc, segment_codec.CorruptSegment):
        return StoreDamaged(
            f"the index is corrupt ({exc}); the store is read-only."
            " Stop the service and run `kais-knowledge rebuild`"
        )
    if isinstance(exc, (*_DAMAGE, event_payloads.UnreadablePayload)):
        return StoreDamaged(
            f"the database is corrupt ({exc}); the store is read-only. Restore a copy of it"
        )
    return StoreUnavailable(f"the database cannot be used now ({type(exc).__name__}: {exc})")


def is_transient(exc: Exception) -> bool:
    """Return whether a failed commit left the disk as it was, so that a later one may succeed.

    In an append-only log, the next write overwrites what a failed one left behind. A failed fsync
    is different: the kernel reports it once and forgets what it did not write.
    """
    if isinstance(exc, apsw.IOError):
        return getattr(exc, "extendedresult", None) == int(apsw.SQLITE_IOERR_WRITE)
    return isinstance(exc, apsw.FullError | apsw.BusyError | apsw.ReadOnlyError)


def damaged_error(path: Path, exc: Exception) -> StartupError:
    """Return an error for a file that is damaged, is not a database, or is not accessible now.

    A full disk is not damage: restoring a copy would only lose the newest changes.
    """
    if isinstance(exc, ENVIRONMENTAL) and not isinstance(exc, (*_DAMAGE, *UNREADABLE)):
        return StartupError(
            f"database {path} cannot be used ({error_text(exc)}); check its disk and permissions,"
            " then try again"
        )
    description = "it is not a database" if isinstance(exc, apsw.NotADBError) else exc
    return StartupError(
        f"database {path} is damaged ({description}); restore a copy of it, or choose another file"
        " with --db"
    )


def error_text(exc: Exception) -> str:
    """Describe a disk error; SQLite's own text for a failed write can be "not an error"."""
    if isinstance(exc, apsw.FullError):
        return "the disk is full"
    if isinstance(exc, apsw.IOError):
        return "the disk failed, is full or limits the size of files"
    return str(exc)


class File:
    """The database's file on the disk, and its identity when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._opened = self._identity_on_disk()
        self._handle = os.open(path, os.O_RDONLY)

    def check(self) -> None:
        """Check that the path still names the opened file.

        Raises:
            StoreUnavailable: it does not, so that every write would be lost.
        """
        if self._identity_on_disk() != self._opened:
            raise StoreUnavailable(
                "the database file was removed or replaced while it was in use;"
                " put the right file in its place, then restart the service"
            )

    def sync(self) -> None:
        """Flush to the disk what was written to the file."""
        os.fdatasync(self._handle)

    def close(self) -> None:
        """Close the handle. No connection may be left: closing any handle releases their locks."""
        os.close(self._handle)

    def has_room_for_writes(self) -> bool:
        """Return whether the volume reports that it is writable and has room; writes nothing."""
        try:
            filesystem = os.statvfs(self._path)
        except OSError:
            return False
        is_read_only = bool(filesystem.f_flag & os.ST_RDONLY)
        return not is_read_only and filesystem.f_bavail * filesystem.f_frsize >= _ROOM

    def free_bytes(self) -> int:
        """Return the free bytes of the volume; 0 when they are unknown."""
        try:
            filesystem = os.statvfs(self._path)
        except OSError:
            return 0
        return filesystem.f_bavail * filesystem.f_frsize

    def _identity_on_disk(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - called in each commit; Path.stat is slower
        except OSError:
            return None
        return status.st_dev, status.st_ino


def lock(path: Path) -> IO[str]:
    """Lock the file for as long as the returned handle is open.

    Raises:
        FileLocked: another process has locked it.
        StartupError: no file can be created in the directory.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.with_name(path.name + ".lock").open("a")
    except OSError as exc:
        raise StartupError(
            f"database {path} cannot be opened ({exc.strerror});"
            " check that its directory exists and is writable for this user"
        ) from exc
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        handle.close()
        raise FileLocked(
            f"database {path} is in use by another kais-knowledge process; "
            "stop that one first or choose another file with --db"
        ) from exc
    return handle


def open_writer(path: Path) -> apsw.Connection:
    """Open the only writing connection.

    Raises:
        StartupError: the file cannot be opened or is not a database.
    """
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < _OLDEST_SQLITE:
        raise StartupError(f"SQLite {apsw.sqlite_lib_version()} is too old; install apsw >= 3.51.3")
    try:
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(BUSY_MS)
            _refuse_foreign(connection)
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
            connection.execute(
                "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-65536;"
                # Erased bytes are overwritten: free pages would keep the text of erased facts.
                " PRAGMA secure_delete=ON"
            )
        except (apsw.Error, StartupError):
            close_connection(connection)
            raise
    except _DAMAGE as exc:
        raise damaged_error(path, exc) from exc
    except apsw.Error as exc:
        raise StartupError(
            f"database {path} cannot be opened ({exc}); check the path and its owner"
        ) from exc
    return connection


def _refuse_foreign(connection: apsw.Connection) -> None:
    """Check that the file is empty or a database of this service, before anything in it changes.

    Raises:
        StartupError: it is another database.
    """
    tables = {name for (name,) in connection.execute(TABLES)}
    if tables and "migration" not in tables:
        raise StartupError(
            f"{connection.filename} is not a database of kais-knowledge; name one with --db"
        )


def begin_serving(connection: apsw.Connection) -> None:
    """Keep the journal of savepoints in memory: in a file it costs a write for each page.

    Do not use this for maintenance: a statement over a whole table would keep all of it in memory.
    """
    connection.execute("PRAGMA temp_store=MEMORY")


def close_connection(connection: apsw.Connection) -> None:
    """Close a failed connection; an error of the disk at this point adds nothing."""
    with suppress(apsw.Error):
        connection.close()
