"""A memory file that follows the graph; nothing is read back from it.

Additions are appended. Updates and deletions write a new file and rename it into place. Beside
the file are a record of the last save, which all processes share under a lock, and a copy after
every hundredth save. A file that another program changed is put aside, never overwritten. New
files get the mode of the memory file, or 0600, and are never written through a link.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from kais_cli import errors

_SAVES_PER_COPY = 100
_MAX_COPIES = 10
_MODE = 0o600  # of a file that replaces none
_LIMIT_BYTES = 1_000_000_000
_WARNING_BYTES = 900_000_000


def check_path(path: Path) -> Path:
    """Return the path of a memory file; a relative one is below the working directory.

    Raises:
        UsageError: the path has `..`, is or passes through a symbolic link, or is no file.
    """
    if ".." in path.parts:
        raise errors.UsageError(f"{path}: a memory path may not contain ..")
    absolute = path if path.is_absolute() else Path.cwd() / path
    for part in (path, *path.parents):
        if part.is_symlink():
            raise errors.UsageError(f"{part} is a symbolic link; name the file itself")
    if absolute.exists() and not absolute.is_file():
        raise errors.UsageError(f"{path} is not a file")
    if not absolute.parent.is_dir():
        raise errors.UsageError(f"{absolute.parent} is not a directory; create it first")
    return absolute


def list_copies(path: Path) -> list[Path]:
    """Return the copies of a memory file, which lie beside it, oldest first."""
    name = re.compile(
        re.escape(f"{path.stem}-backup-")
        + r"\d{4}-\d\d-\d\d(T\d\d-\d\d-\d\d-\d{6})?"
        + re.escape(path.suffix)
    )
    return sorted(file for file in path.parent.iterdir() if name.fullmatch(file.name))


def identify(file: BinaryIO) -> list[int]:
    """Return the inode, size and modification time of an open file."""
    status = os.fstat(file.fileno())
    return [status.st_ino, status.st_size, status.st_mtime_ns]


LastSave = tuple[int, tuple[int, ...]]
"""The number of saves of a memory file, and the identity of the file after the last one."""


def _last_save(state: dict[str, Any]) -> LastSave:
    return int(state.get("saves", 0)), tuple(state.get("identity", ()))


@dataclass
class Mirror:
    """The memory file at `path`, which `check_path` returned.

    `scope` is that of its entities, None for all that the client sees. Every method but
    `open` raises `UsageError` if the last save of the file was of another scope, or if the file
    cannot be written.
    """

    path: Path
    report: Callable[[str], None]
    now: Callable[[], datetime]
    scope: str | None = None
    _has_warned: bool = False

    def open(self) -> BinaryIO:
        """Open the file to read it; raises `OSError` for a link."""
        return os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb")

    def check_scope(self) -> None:
        """Check that the file, if it exists, is not that of another scope."""
        with self._locked():
            pass

    def last_save(self) -> LastSave:
        """Return what changes with each save or import of the file, by any process."""
        with self._locked() as state:
            return _last_save(state)

    def append(self, lines: Iterable[str], *, after: LastSave | None = None) -> bool:
        """Append lines; return False if the file has to be rewritten instead.

        That is so if the file was saved since `after`, the `last_save` before the service made the
        change: then the file may have these lines, or what they say may no longer be true.
        """
        with self._locked() as state:
            if not self._is_current(state) or after not in (None, _last_save(state)):
                return False
            flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
            with os.fdopen(os.open(self.path, flags), "r+b") as file:
                if identify(file) != state["identity"]:
                    return False
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
                file.write("".join(lines).encode("utf-8", "surrogatepass"))
                file.flush()
                os.fsync(file.fileno())
                identity = identify(file)
            self._record_save(state, identity)
        return True

    def rewrite(self, lines: Iterable[str]) -> None:
        """Write a new file beside the old one, and rename it into place."""
        with self._locked() as state:
            draft = self.path.with_name(f".{self.path.name}.new")
            try:
                with self._create(draft) as file:
                    for line in lines:
                        file.write(line.encode("utf-8", "surrogatepass"))
                    file.flush()
                    os.fsync(file.fileno())
                    identity = identify(file)
                if os.path.lexists(self.path) and not self._is_current(state):
                    self._put_aside("it was changed by another program")
                draft.replace(self.path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            self._record_save(state, identity)

    def adopt(self, identity: list[int], *, is_damaged: bool) -> None:
        """Accept the file as saved after its import; put a damaged file aside.

        `identity` is that of the file before the import. If the file has changed since, the next
        save puts it aside.
        """
        with self._locked() as state:
            if not os.path.lexists(self.path):
                return
            if is_damaged:
                self._put_aside("some of its lines could not be imported")
            else:
                state["identity"], state["scope"] = identity, self.scope

    def is_current(self, identity: list[int]) -> bool:
        """Return whether the file with an identity is as the last save left it."""
        with self._locked() as state:
            return bool(state.get("identity") == identity)

    def _is_current(self, state: dict[str, Any]) -> bool:
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return False
        identity = [status.st_ino, status.st_size, status.st_mtime_ns]
        return bool(state.get("identity") == identity)

    def _create(self, path: Path) -> BinaryIO:
        """Create a file with the mode of the memory file; replace an existing one."""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            mode = _MODE
        else:
            mode = stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else _MODE
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.fdopen(os.open(path, flags, _MODE), "wb")
        os.fchmod(file.fileno(), mode)
        return file

    def _put_aside(self, reason: str) -> None:
        aside = self._name_beside("aside")
        self.path.rename(aside)
        self.report(f"{self.path} was put aside as {aside.name}: {reason}")

    def _record_save(self, state: dict[str, Any], identity: list[int]) -> None:
        state["identity"], state["scope"] = identity, self.scope
        state["saves"] = int(state.get("saves", 0)) + 1
        if state["saves"] % _SAVES_PER_COPY == 0:
            copy = self._name_beside("backup")
            draft = self.path.with_name(f".{copy.name}.new")
            with self.open() as source, self._create(draft) as target:
                shutil.copyfileobj(source, target)
            draft.replace(copy)
            for old in list_copies(self.path)[:-_MAX_COPIES]:
                old.unlink()
        size = identity[1]
        if size >= _WARNING_BYTES and not self._has_warned:
            self._has_warned = True
            self.report(
                f"{self.path} has {size / 1e6:,.0f} of at most {_LIMIT_BYTES / 1e6:,.0f} MB; move"
                " completed charts to another file with `kais knowledge charts archive --to FILE`"
            )

    def _name_beside(self, purpose: str) -> Path:
        timestamp = f"{self.now():%Y-%m-%dT%H-%M-%S-%f}"
        return self.path.with_name(f"{self.path.stem}-{purpose}-{timestamp}{self.path.suffix}")

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        """Yield the record of the last save, which is written back if the block succeeds."""
        try:
            with self._open_record() as state:
                yield state
        except OSError as exc:
            raise errors.UsageError(
                f"cannot write {self.path} or a file beside it: {exc.strerror or exc}; check the"
                " folder, or name another file"
            ) from exc

    @contextmanager
    def _open_record(self) -> Iterator[dict[str, Any]]:
        lock_path = self.path.with_name(f".{self.path.name}.saves")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(lock_path, flags, 0o600), "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                state = json.loads(file.read() or "{}")
            except ValueError:
                state = {}
            self._check_scope(state)
            yield state
            file.seek(0)
            file.truncate()
            json.dump(state, file)

    def _check_scope(self, state: dict[str, Any]) -> None:
        saved = state.get("scope", self.scope)
        if saved != self.scope and os.path.lexists(self.path):
            raise errors.UsageError(
                f"{self.path} follows {saved or 'all visible scopes'}, not"
                f" {self.scope or 'all visible scopes'}; name another file"
            )
