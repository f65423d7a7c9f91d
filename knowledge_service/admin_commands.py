"""What `kais-knowledge` does besides serving: one errand on a file, and words about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from knowledge_service import clock
from knowledge_service.errors import StartupError
from knowledge_service.event_log.log_export import ExportCounts
from knowledge_service.settings import Errand
from knowledge_service.store.sqlite.maintenance import backup, exports, offline

Say = Callable[[str], None]
_STREAM = Path("-")
_READER_GONE = 141  # what a shell says of a program whose reader went away


def run(errand: Errand, *, say: Say) -> int:
    """Do one errand; return the exit status: 1 when what was looked at is not in order.

    Raises:
        StartupError: it cannot be done; the message says why and what to do.
    """
    return _ERRANDS[errand.command](errand, say)


def _verify(errand: Errand, say: Say) -> int:
    report = offline.verify(_existing(errand.db))
    for problem in report.problems:
        say(problem)
    erased = f", {report.erased} of them erased" if report.erased else ""
    count = len(report.problems)
    found = "1 problem" if count == 1 else f"{count} problems"
    say(f"{errand.db}: {report.events} events{erased}: {found if count else 'all in order'}")
    if report.problems:
        say(_WHOLE_LOG if report.has_whole_log else _TORN_LOG)
    return 1 if report.problems else 0


_WHOLE_LOG = (
    "the log itself is whole: `export` it and `import` that into a new file, or restore a copy"
)
_TORN_LOG = "the log is not whole: restore a copy; what is still in order can be read by `export`"


def _rebuild(errand: Errand, say: Say) -> int:
    made = offline.rebuild(_existing(errand.db))
    changed = f"these were other than the log says: {', '.join(made.changed)}"
    say(f"{errand.db}: {made.events} events replayed; {changed if made.changed else 'no change'}")
    return 0


def _export(errand: Errand, say: Say) -> int:
    source = _existing(errand.db)
    if errand.file == _STREAM:
        try:
            counts = exports.export(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _READER_GONE
        except OSError as exc:
            raise StartupError(f"cannot write the export ({exc.strerror})") from exc
    else:
        counts = _export_to(source, errand.file)
    say(f"exported {counts.events} events and {counts.rows} rows")
    return 0


def _export_to(source: Path, file: Path) -> ExportCounts:
    """Write an export that has its name only when it is whole."""
    if file.exists():
        raise StartupError(f"{file} exists already; choose another name")
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        with unfinished.open("wb") as out:
            counts = exports.export(source, out)
            out.flush()
            os.fsync(out.fileno())
        unfinished.rename(file)
        backup.sync(file.parent)
    except OSError as exc:
        raise StartupError(f"cannot write {file} ({exc.strerror}); nothing is left of it") from exc
    finally:
        unfinished.unlink(missing_ok=True)
    return counts


def _import(errand: Errand, say: Say) -> int:
    if errand.file == _STREAM:
        counts = exports.take(errand.db, sys.stdin.buffer)
    else:
        with _old(errand.file) as lines:
            counts = exports.take(errand.db, lines)
    backup.sync(errand.db.parent)
    say(f"imported {counts.events} events and {counts.rows} rows into {errand.db}")
    return 0


def _backup(errand: Errand, say: Say) -> int:
    events = backup.backup(errand.db, errand.file)
    say(f"{errand.file}: a verified copy of {errand.db} with {events} events")
    return 0


def _restore(errand: Errand, say: Say) -> int:
    events, aside = backup.restore(errand.file, errand.db, now=clock.now())
    kept = f"; what was there is now {aside}" if aside else ""
    say(f"{errand.db}: restored from {errand.file} with {events} events{kept}")
    return 0


def _existing(path: Path) -> Path:
    if not path.exists():
        raise StartupError(f"there is no database {path}; name one with --db")
    return path


def _old(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as exc:
        raise StartupError(f"cannot read {path} ({exc.strerror})") from exc


_ERRANDS: Mapping[str, Callable[[Errand, Say], int]] = {
    "verify": _verify,
    "rebuild": _rebuild,
    "export": _export,
    "import": _import,
    "backup": _backup,
    "restore": _restore,
}
