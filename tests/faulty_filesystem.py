"""A disk that can lose its power, be full, or fail, under the real store: a VFS of SQLite's.

What SQLite writes goes to real files, as into a machine's memory, where it is read back. Beside
them the disk knows what is surely on it: what was synced. When its power is cut, any part of the
rest may have got there, in any order, in sectors:

    xWrite -> file (what readers see)      and  loose changes
    xSync  -> loose changes become kept
    cut    -> kept + some sectors of the loose changes = what the next start finds
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
_NAME = "kais-test-disk"
_REAL = "unix"


@dataclass
class _Image:
    """One file as the disk has it. `kept` is None while the disk knows of no such file."""

    kept: bytearray | None
    loose: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes as (offset, data), and changes of size as (size, None)."""
    is_gone: bool = False
    """Removed, and the folder not synced since, so that it may be there again."""

    def settle(self) -> None:
        """Put all loose changes on the disk."""
        self.kept = self.kept or bytearray()
        for change in self.loose:
            _apply(self.kept, *change)
        self.loose.clear()


class Disk:
    """What happens to the files below a folder. Set `fault` and `cut_at` at any time.

    `fault` maps a call (`write`, `sync`) to the error it is answered with. `cut_at` is the number
    of the changing call at which the power goes.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.calls = 0
        self.cut_at: int | None = None
        self.fault: dict[str, apsw.Error] = {}
        self._random = random.Random(seed)  # noqa: S311 - chance, not secrets
        self._images: dict[str, _Image] = {}
        self._lock = threading.Lock()

    @property
    def is_off(self) -> bool:
        """Tell whether the power is gone."""
        return self.cut_at is not None and self.calls >= self.cut_at

    def opened(self, name: str) -> None:
        """Note a file; what was there before this disk is on it."""
        with self._lock:
            path = Path(name)
            known = self._images.get(name)
            if known is None or known.is_gone:
                content = bytearray(path.read_bytes()) if path.exists() else None
                self._images[name] = _Image(content)

    def changed(self, name: str, at: int, data: bytes | None) -> None:
        """Note a write or a new size; raises when it does not get through."""
        with self._lock:
            self._refuse_when_off()
            self._fail("write")
            self.calls += 1
            self._images[name].loose.append((at, data))
            self._refuse_when_off()

    def synced(self, name: str) -> None:
        """Make a file's changes last, unless that fails; then they are never tried again."""
        with self._lock:
            self._refuse_when_off()
            self.calls += 1
            self._refuse_when_off()
            image = self._images[name]
            if "sync" in self.fault:
                # The kernel takes the pages for written after it has reported the error once.
                image.kept = self._survived(image)
                image.loose.clear()
            self._fail("sync")
            if image.kept is None:  # SQLite syncs the folder with a file's first sync
                self._sync_folder()
            image.settle()

    def deleted(self, name: str, *, is_lasting: bool) -> None:
        """Note that a name is gone, at once or perhaps."""
        with self._lock:
            self._refuse_when_off()
            self.calls += 1
            if name in self._images:
                self._images[name].loose.clear()
                self._images[name].is_gone = True
            if is_lasting:
                self._sync_folder()

    def survive(self, to: Path) -> Path:
        """Write what is on the disk after the cut into another folder, and return that."""
        to.mkdir(parents=True)
        for name, image in self._images.items():
            found = self._survived(image)
            if found is not None:
                (to / Path(name).name).write_bytes(found)
        return to

    def _sync_folder(self) -> None:
        for name in [name for name, image in self._images.items() if image.is_gone]:
            del self._images[name]

    def _survived(self, image: _Image) -> bytearray | None:
        is_doubtful = image.is_gone or image.kept is None
        if is_doubtful and self._random.random() < 0.5:
            return None
        found = bytearray(image.kept or b"")
        share = self._random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        pieces = [piece for change in image.loose for piece in _sectors(*change)]
        pieces = [piece for piece in pieces if self._random.random() < share]
        self._random.shuffle(pieces)
        for piece in pieces:
            _apply(found, *piece)
        return found

    def _refuse_when_off(self) -> None:
        if self.is_off:
            raise error(apsw.IOError, "the power is gone")

    def _fail(self, call: str) -> None:
        if call in self.fault:
            raise self.fault[call]


def error(kind: type[apsw.Error], message: str, extended: int = 0) -> apsw.Error:
    """Make an error as SQLite has it, with its extended code."""
    made: Any = kind(message)
    if extended:
        made.extendedresult = extended
    found: apsw.Error = made
    return found


@contextmanager
def mounted(disk: Disk) -> Iterator[Disk]:
    """Have every connection that is opened meanwhile use the disk."""
    vfs = _Vfs(disk)
    apsw.set_default_vfs(_NAME)
    try:
        yield disk
    finally:
        apsw.set_default_vfs(_REAL)
        vfs.unregister()


def _apply(image: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del image[at:]
        image.extend(bytes(at - len(image)))
        return
    image.extend(bytes(max(0, at - len(image))))
    image[at : at + len(data)] = data


def _sectors(at: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    if data is None:
        yield at, None
        return
    end = at + len(data)
    while at < end:
        until = min(end, (at // SECTOR + 1) * SECTOR)
        yield at, data[: until - at]
        at, data = until, data[until - at :]


class _File(apsw.VFSFile):
    """One file of the disk, whose bytes are in a real one."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        disk.opened(self._name)
        super().__init__(_REAL, name, flags)

    def excepthook(self, *_: Any) -> Any:
        """Let pass what SQLite lets pass: a checkpoint that fails is tried again later."""

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.changed(self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.changed(self._name, newsize, None)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        # Nothing but the disk's own books asks for the real one.
        self._disk.synced(self._name)


class _Vfs(apsw.VFS):
    """Puts the files of a disk on it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(_NAME, _REAL)

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if name is None or Path(path).parent != self._disk.folder:
            return super().xOpen(name, flags)
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if Path(filename).parent == self._disk.folder:
            self._disk.deleted(filename, is_lasting=bool(syncdir))
        super().xDelete(filename, syncdir)
