"""Copies of the file: made while it is served, verified, and restored.

SQLite's backup makes the copy from a connection that cannot write, so the running service keeps the
file and its lock. The copy is verified and synced before it gets its name.
"""

from __future__ import annotations

import os
import re
import shutil
from datetime import datetime
from pathlib import Path

import apsw

from knowledge_service.errors import StartupError
from knowledge_service.event_log.log_verification import Report
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import file_verification
from knowledge_service.store.sqlite.upgrade import migrate

_PAGES = 2000  # of 4 KiB: 8 MiB at a time
# How long to wait for another reader of the file; the export of a large file takes longer.
_PATIENCE_MS = 5000
DATED_NAME = re.compile(r"knowledge-[0-9]{8}T[0-9]{6}Z\.db")
_INTERRUPTED_NAME = re.compile(DATED_NAME.pattern + r"\.unfinished(-journal|-wal|-shm)?")
# A backup writes 8 MiB at a time, and then reads its copy to verify it.
_LONGEST_PAUSE_S = 3600.0
_BEGIN = "BEGIN; SELECT count(*) FROM sqlite_schema"


def backup(path: Path, to: Path) -> int:
    """Copy the database as it is at one moment; return the number of events in the copy.

    Raises:
        StartupError: the file cannot be read, the copy cannot be written, or it does not verify.
    """
    if not path.exists():
        raise StartupError(f"there is no database {path}; name one with --db")
    if to.exists():
        raise StartupError(f"{to} exists already; a copy never replaces another one")
    require_database(path)
    unfinished = to.with_name(to.name + ".unfinished")
    try:
        _remove(unfinished)
        _copy(path, unfinished, final_path=to)
        report = check(unfinished)
        sync(unfinished)
        unfinished.rename(to)
        sync(to.parent)
    except OSError as exc:
        raise StartupError(f"cannot write {to} ({exc.strerror}); choose another place") from exc
    finally:
        _remove(unfinished)
    return report.events


def dated_path(folder: Path, now: datetime) -> Path:
    """Return the path of a copy that is made now; names sort by time."""
    return folder / f"knowledge-{now:%Y%m%dT%H%M%SZ}.db"


def delete_old_copies(folder: Path, keep: int) -> list[Path]:
    """Delete all dated copies but the newest ones; other files of the folder stay.

    Raises:
        StartupError: a copy cannot be deleted.
    """
    copies = sorted(path for path in folder.iterdir() if DATED_NAME.fullmatch(path.name))
    old = copies[:-keep]
    for path in old:
        try:
            path.unlink()
        except OSError as exc:
            raise StartupError(f"cannot delete the old copy {path} ({exc.strerror})") from exc
    return old


def delete_interrupted_copies(folder: Path, now: datetime) -> list[Path]:
    """Delete what killed backups left of dated copies, which no later backup would replace.

    Raises:
        StartupError: a file cannot be deleted.
    """
    latest_s = now.timestamp() - _LONGEST_PAUSE_S
    deleted: list[Path] = []
    for path in sorted(folder.iterdir()):
        try:
            if _INTERRUPTED_NAME.fullmatch(path.name) and path.stat().st_mtime < latest_s:
                path.unlink()
                deleted.append(path)
        except FileNotFoundError:  # another backup has just finished it
            continue
        except OSError as exc:
            raise StartupError(f"cannot delete {path} ({exc.strerror})") from exc
    return deleted


def require_database(path: Path) -> None:
    """Check that the database is of this version or an older one, without changing the file.

    Raises:
        SchemaTooNew: a newer version wrote it.
        StartupError: it is another database, or not a database.
    """
    try:
        looked_at = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            looked_at.set_busy_timeout(5000)
            migrate.check(looked_at)
        finally:
            # A checkpoint on close needs a lock that a connection for reading cannot get.
            connection.close_connection(looked_at)
    except apsw.Error as exc:
        raise connection.damaged_error(path, exc) from exc


def check(path: Path, *, name: str = "") -> Report:
    """Verify a copy that no process serves; errors refer to it as `name`, by default its path.

    Raises:
        StartupError: it is not a database of this service, or does not verify; the message has the
            reason.
    """
    name = name or str(path)
    try:
        require_database(path)
    except StartupError as exc:
        if isinstance(exc.__cause__, apsw.Error):
            raise _unreadable_copy(name, exc.__cause__) from exc
        raise
    try:
        copied = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            report = file_verification.verify(copied)
        finally:
            copied.close()
    except apsw.Error as exc:
        raise _unreadable_copy(name, exc) from exc
    if report.problems:
        raise StartupError(f"{name} does not verify: {'; '.join(report.problems[:5])}")
    return report


def _unreadable_copy(name: str, exc: apsw.Error) -> StartupError:
    reason = "it is not a database" if isinstance(exc, apsw.NotADBError) else exc
    return StartupError(f"{name} is not a readable copy of a kais database ({reason})")


def require_unserved(path: Path) -> None:
    """Check that no process serves the database.

    Raises:
        FileLocked: a process serves it.
        StartupError: no file can be created in the directory.
    """
    connection.lock(path).close()


def restore(
    source: Path, path: Path, *, now: datetime, download_of: str = ""
) -> tuple[int, Path | None]:
    """Replace the database with a verified copy; return its events, and the old file's new path.

    `download_of` names the source of a download in errors. A download is moved instead of copied,
    because the volume may have no room for a third file of its size.

    Raises:
        FileLocked: a process serves the database.
        StartupError: the copy does not verify, or the directory cannot be written.
    """
    if not source.exists():
        raise StartupError(f"there is no copy {source}")
    lock = connection.lock(path)
    try:
        report = check(source, name=download_of)
        fresh = path.with_name(path.name + ".unfinished")
        _remove(fresh)
        try:
            if download_of:
                source.rename(fresh)
            else:
                _copy(source, fresh, final_path=path)
        except StartupError:
            _remove(fresh)
            raise
        sync(fresh)
        aside = _put_aside(path, now)
        fresh.rename(path)
        sync(path.parent)
    except OSError as exc:
        raise StartupError(f"cannot restore {path} ({exc.strerror})") from exc
    finally:
        lock.close()
    return report.events, aside


def _put_aside(path: Path, now: datetime) -> Path | None:
    """Give the old file a second name, so that nothing is ever deleted.

    The file also keeps its own name until the copy takes it, and its log is checkpointed first. So
    if the process is killed at any time, the file in place is whole.
    """
    if not path.exists():
        return None
    is_readable = _checkpoint(path)
    aside = path.with_name(f"{path.name}.before-{now:%Y%m%dT%H%M%S}")
    try:
        os.link(path, aside)
    except OSError:  # a file system without links
        unfinished = aside.with_name(aside.name + ".unfinished")
        shutil.copyfile(path, unfinished)
        sync(unfinished)
        unfinished.rename(aside)
    sync(path.parent)
    for suffix in ("-wal", "-shm"):
        old = path.with_name(path.name + suffix)
        if not is_readable and old.exists():
            old.rename(aside.with_name(aside.name + suffix))
        old.unlink(missing_ok=True)
    return aside


def _checkpoint(path: Path) -> bool:
    """Checkpoint the log of an unserved file; return False if the file is no longer a database.

    Raises:
        StartupError: another process reads the file, or the disk rejects the write.
    """
    try:
        writing = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            writing.set_busy_timeout(_PATIENCE_MS)
            # The last commits are only in the log: without it the file would lose them.
            (row,) = writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close_connection(writing)
    except (apsw.CorruptError, apsw.NotADBError):
        return False
    except apsw.Error as exc:
        raise StartupError(
            f"the log of {path} cannot be checkpointed into it ({connection.error_text(exc)});"
            " nothing was changed"
        ) from exc
    if row[0]:
        raise StartupError(f"another process reads {path}; end its backup or export, then repeat")
    return True


def _remove(unfinished: Path) -> None:
    """Remove an unfinished copy, with SQLite's files for it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)


def _copy(source: Path, target: Path, *, final_path: Path) -> None:
    try:
        reading = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        writing = apsw.Connection(str(target))
        try:
            reading.set_busy_timeout(5000)
            # One snapshot for the whole backup, which would otherwise restart at each write that it
            # sees.
            reading.execute(_BEGIN).fetchall()
            with writing.backup("main", reading, "main") as copying:
                while not copying.done:
                    copying.step(_PAGES)
            writing.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            writing.close()
            reading.close()
    except (apsw.CorruptError, apsw.NotADBError) as exc:
        raise connection.damaged_error(source, exc) from exc
    except apsw.Error as exc:
        raise StartupError(
            f"cannot copy {source} to {final_path} ({connection.error_text(exc)});"
            " nothing is left of it"
        ) from exc


def sync(path: Path) -> None:
    """Flush a file or a directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
