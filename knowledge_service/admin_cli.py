"""Admin commands of `kais-knowledge`: each does one thing to a database file and reports it."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from knowledge_service import clock
from knowledge_service.errors import StartupError
from knowledge_service.event_log.log_export import ExportCounts
from knowledge_service.settings import AdminCommand
from knowledge_service.store.sqlite.maintenance import backup_and_restore, exports, offline_rebuild

WriteLine = Callable[[str], None]
_STDIO = Path("-")
_BROKEN_PIPE_STATUS = 141  # the status of a program that SIGPIPE ended


def run_command(command: AdminCommand, *, write_line: WriteLine) -> int:
    """Run one command; return the exit status, 1 when `verify` found problems.

    Raises:
        StartupError: the command failed; the message says why and what to do.
    """
    return _HANDLERS[command.command](command, write_line)


def _verify(command: AdminCommand, write_line: WriteLine) -> int:
    report = offline_rebuild.verify(_require_database(command.db))
    for problem in report.problems:
        write_line(problem)
    erased = f", {report.erased} of them erased" if report.erased else ""
    count = len(report.problems)
    problem_count = "1 problem" if count == 1 else f"{count} problems"
    write_line(
        f"{command.db}: {report.events} events{erased}:"
        f" {problem_count if count else 'no problems found'}"
    )
    if report.problems:
        write_line(_INTACT_LOG_ADVICE if report.has_whole_log else _DAMAGED_LOG_ADVICE)
    return 1 if report.problems else 0


_INTACT_LOG_ADVICE = (
    "the log itself is whole: `export` it and `import` that into a new file, or restore a copy"
)
_DAMAGED_LOG_ADVICE = "the log is not whole: restore a copy; intact data can be read with `export`"


def _rebuild(command: AdminCommand, write_line: WriteLine) -> int:
    result = offline_rebuild.rebuild(_require_database(command.db))
    changed = f"these tables differed from the log: {', '.join(result.changed)}"
    write_line(
        f"{command.db}: {result.events} events replayed;"
        f" {changed if result.changed else 'no change'}"
    )
    return 0


def _export(command: AdminCommand, write_line: WriteLine) -> int:
    source = _require_database(command.db)
    if command.file == _STDIO:
        try:
            counts = exports.export(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _BROKEN_PIPE_STATUS
        except OSError as exc:
            raise StartupError(f"cannot write the export ({exc.strerror})") from exc
    else:
        counts = _export_to(source, command.file)
    write_line(f"exported {counts.events} events and {counts.rows} rows")
    return 0


def _export_to(source: Path, file: Path) -> ExportCounts:
    """Write an export to a hidden draft, which gets its name when it is complete."""
    if os.path.lexists(file):
        raise _name_is_taken(file)
    draft = file.with_name(f".kais-export-{uuid.uuid4().hex}")
    try:
        counts = _write_draft(source, draft, file)
        backup_and_restore.sync(file.parent)
    except FileExistsError as exc:
        raise _name_is_taken(file) from exc
    except OSError as exc:
        raise StartupError(f"cannot write {file} ({exc.strerror}); nothing is left of it") from exc
    return counts


def _write_draft(source: Path, draft: Path, file: Path) -> ExportCounts:
    try:
        with draft.open("xb") as stream:
            counts = exports.export(source, stream)
            stream.flush()
            os.fsync(stream.fileno())
        _publish(draft, file)
    finally:
        draft.unlink(missing_ok=True)
    return counts


def _publish(draft: Path, file: Path) -> None:
    """Give a complete draft its name; raises `FileExistsError` if another file has it."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        file.touch(exist_ok=False)
        try:
            draft.replace(file)
        except BaseException:
            file.unlink()
            raise


def _name_is_taken(file: Path) -> StartupError:
    return StartupError(f"{file} exists already; choose another name")


def _import(command: AdminCommand, write_line: WriteLine) -> int:
    if command.file == _STDIO:
        counts = exports.import_export(command.db, sys.stdin.buffer)
    else:
        with _open_existing(command.file) as lines:
            counts = exports.import_export(command.db, lines)
    backup_and_restore.sync(command.db.parent)
    write_line(f"imported {counts.events} events and {counts.rows} rows into {command.db}")
    return 0


def _backup(command: AdminCommand, write_line: WriteLine) -> int:
    if command.bucket:
        return _backup_to_bucket(command, write_line)
    if not command.file.is_dir():
        if command.keep is not None:
            raise StartupError(f"{command.file} is no folder; --keep counts the copies of a folder")
        events = backup_and_restore.backup(command.db, command.file)
        write_line(f"{command.file}: a verified copy of {command.db} with {events} events")
        return 0
    dated = backup_and_restore.dated_path(command.file, clock.now())
    events = backup_and_restore.backup(command.db, dated)
    write_line(f"{dated}: a verified copy of {command.db} with {events} events")
    if command.keep is not None:
        for deleted in backup_and_restore.delete_old_copies(command.file, command.keep):
            write_line(f"{deleted}: deleted; the folder keeps {command.keep}")
        for deleted in backup_and_restore.delete_interrupted_copies(command.file, clock.now()):
            write_line(f"{deleted}: deleted; its backup was interrupted")
    return 0


def _backup_to_bucket(command: AdminCommand, write_line: WriteLine) -> int:
    from knowledge_service import backup_bucket  # noqa: PLC0415 - a library that only buckets need

    bucket = backup_bucket.BackupBucket(command.bucket)
    with _temporary_folder("kais-backup-") as folder:
        copy = backup_and_restore.dated_path(folder, clock.now())
        events = backup_and_restore.backup(command.db, copy)
        bucket.upload(copy)
    write_line(
        f"{bucket.address}/{copy.name}: a verified copy of {command.db} with {events} events"
    )
    if command.keep is not None:
        old = [
            name
            for name in bucket.names(backup_and_restore.DATED_NAME)[: -command.keep]
            if name != copy.name
        ]
        bucket.delete(old)
        for name in old:
            write_line(f"{bucket.address}/{name}: deleted; the bucket keeps {command.keep}")
    return 0


def _restore_from_bucket(command: AdminCommand, write_line: WriteLine) -> int:
    from knowledge_service import backup_bucket  # noqa: PLC0415 - a library that only buckets need

    folder, _, name = command.bucket.rpartition("/")
    is_copy = backup_and_restore.DATED_NAME.fullmatch(name) is not None
    bucket = backup_bucket.BackupBucket(folder if is_copy else command.bucket)
    copies = [name] if is_copy else bucket.names(backup_and_restore.DATED_NAME)
    if not copies:
        raise StartupError(f"{bucket.address} has no copy, such as knowledge-20261123T021700Z.db")
    backup_and_restore.require_unserved(command.db)  # before a download that may take long
    # Next to the database, because the copy is moved from there into its place.
    with _temporary_folder("kais-restore-", command.db.parent) as temporary:
        copy = temporary / copies[-1]
        bucket.download(copy.name, copy)
        events, aside = backup_and_restore.restore(
            copy, command.db, now=clock.now(), download_of=f"{bucket.address}/{copy.name}"
        )
    displaced = f"; what was there is now {aside}" if aside else ""
    write_line(
        f"{command.db}: restored from {bucket.address}/{copy.name} with {events} events{displaced}"
    )
    return 0


@contextmanager
def _temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as exc:
        folder_name = parent or "the folder for temporary files (TMPDIR)"
        raise StartupError(f"cannot create a folder in {folder_name} ({exc.strerror})") from exc
    with folder as name:
        yield Path(name)


def _restore(command: AdminCommand, write_line: WriteLine) -> int:
    if command.bucket:
        return _restore_from_bucket(command, write_line)
    events, aside = backup_and_restore.restore(command.file, command.db, now=clock.now())
    displaced = f"; what was there is now {aside}" if aside else ""
    write_line(f"{command.db}: restored from {command.file} with {events} events{displaced}")
    return 0


def _require_database(path: Path) -> Path:
    if not path.exists():
        raise StartupError(f"there is no database {path}; name one with --db")
    return path


def _open_existing(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as exc:
        raise StartupError(f"cannot read {path} ({exc.strerror})") from exc


_HANDLERS: Mapping[str, Callable[[AdminCommand, WriteLine], int]] = {
    "verify": _verify,
    "rebuild": _rebuild,
    "export": _export,
    "import": _import,
    "backup": _backup,
    "restore": _restore,
}
