"""The file tools of a mind: they reach `shared/` and the cell's own `private/`, and nothing else.

Each part of a path is opened relative to the folder before it and never through a link, so neither
`..` nor a link that another cell places in the workspace leads out.
"""

from __future__ import annotations

import codecs
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal

from agent_runtime.errors import ToolError
from agent_runtime.prompt import FILE_TAG, FILES_TAG, Framing
from kais import topology_files
from kais.agent_tools import AgentTool

READ_BYTES: Final = 64 * 1024
WRITE_BYTES: Final = 1024 * 1024
MAX_ENTRIES: Final = 500
LISTED_CHARACTERS: Final = 48 * 1024
"""Longest list of a folder; escaped, it stays below the limit that would cut its frame."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_OFFSET: Final = 2**62
_HINT: Final = "paths start with shared/ or private/"


@dataclass(frozen=True)
class Workspace:
    """The two folders of a cell, under the names that its mind uses."""

    shared: Path
    private: Path
    framing: Framing
    written_sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of the files that were written, by path."""

    def tools(self) -> dict[AgentTool, Callable[..., Any]]:
        """Return the tools by their names."""
        return {
            AgentTool.READ_FILE: self.read_file,
            AgentTool.WRITE_FILE: self.write_file,
            AgentTool.LIST_FILES: self.list_files,
        }

    async def read_file(self, path: str, offset: int = 0) -> str:
        """Read a text file of the workspace, at most 64 KiB of it.

        Args:
            path: Path such as shared/report.md.
            offset: Number of bytes to skip, for the next part of a long file.
        """
        if not 0 <= offset <= _MAX_OFFSET:
            raise ToolError(f"offset must be between 0 and {_MAX_OFFSET}")
        with self._parent(path) as (folder, name), _open(name, "rb", folder=folder) as file:
            _require_file(file.fileno(), path)
            file.seek(offset)
            content = file.read(READ_BYTES + 1)
        is_cut = len(content) > READ_BYTES
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(content[:READ_BYTES], final=not is_cut)
        frame = self.framing.wrap(FILE_TAG, text, {"path": path})
        if is_cut:
            split_character, _ = decoder.getstate()  # its bytes belong to the next part
            next_offset = offset + READ_BYTES - len(split_character)
            return f"{frame}\n[cut; continue with offset {next_offset}]"
        return frame

    async def write_file(self, path: str, content: str) -> str:
        """Write a text file of the workspace; an existing file is replaced.

        Args:
            path: Path such as shared/report.md; missing folders are created.
            content: The whole content, at most 1 MiB.
        """
        data = content.encode("utf-8", "replace")
        if len(data) > WRITE_BYTES:
            raise ToolError(f"the content has {len(data)} bytes, and the maximum is {WRITE_BYTES}")
        with (
            self._parent(path, creates=True) as (folder, name),
            _open(name, "wb", folder=folder) as file,
        ):
            _require_file(file.fileno(), path)
            file.truncate()
            file.write(data)
        self.written_sizes[path] = len(data)
        return f"wrote {len(data)} bytes to {path}"

    async def list_files(self, path: str = "") -> str:
        """List a folder of the workspace: one entry in each line, folders with a slash.

        Args:
            path: Path such as shared/reports; empty lists the two folders.
        """
        if not path.strip("/"):
            return "private/\nshared/"
        with self._folder(_parts(path), path) as folder, os.scandir(folder) as entries:
            names = sorted(_entry(entry) for entry in entries)
        if not names:
            return "the folder is empty"
        return self.framing.wrap(FILES_TAG, "\n".join(_bounded(names)), {"path": path})

    @contextmanager
    def _parent(self, path: str, *, creates: bool = False) -> Iterator[tuple[int, str]]:
        parts = _parts(path)
        if len(parts) == 1:
            raise ToolError(f"{path} is a folder")
        with self._folder(parts[:-1], path, creates=creates) as folder:
            yield folder, parts[-1]

    @contextmanager
    def _folder(self, parts: list[str], path: str, *, creates: bool = False) -> Iterator[int]:
        root = self.shared if parts[0] == "shared" else self.private
        folder = -1
        try:
            folder = os.open(root, _FOLDER)
            for part in parts[1:]:
                if creates:
                    _make_folder(part, folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        except OSError as exc:
            raise ToolError(_explanation(exc, path)) from exc
        finally:
            if folder >= 0:
                os.close(folder)


def _parts(path: str) -> list[str]:
    parts = path.removesuffix("/").split("/")
    is_valid = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    if not is_valid or parts[0] not in ("shared", "private"):
        raise ToolError(f"{path!r} is not a path of the workspace; {_HINT}, without . and ..")
    if parts[:2] == ["shared", topology_files.BLACKBOARD_FOLDER]:
        raise ToolError(f"{path} belongs to the tool blackboard")
    return parts


def _open(name: str, mode: Literal["rb", "wb"], *, folder: int) -> IO[bytes]:
    """Open a file of a folder, and leave no descriptor behind if the name is a folder.

    `os.fdopen` would leave one: it does not close what it refuses.
    """
    flags = _FILE | (os.O_RDONLY if mode == "rb" else os.O_WRONLY | os.O_CREAT)
    return open(name, mode, opener=lambda *_: os.open(name, flags, 0o644, dir_fd=folder))


def _make_folder(name: str, folder: int) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        return


def _require_file(handle: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise ToolError(f"{path} is no file")


def _entry(entry: os.DirEntry[str]) -> str:
    """Return the name of an entry; a name that is not UTF-8 is listed, but cannot be opened."""
    name = os.fsencode(entry.name).decode("utf-8", "replace")
    return f"{name}/" if entry.is_dir(follow_symlinks=False) else name


def _bounded(names: list[str]) -> list[str]:
    """Leave out the entries that do not fit, and say how many."""
    lengths = itertools.accumulate(len(name) + 1 for name in names)
    count = sum(length <= LISTED_CHARACTERS for length in itertools.islice(lengths, MAX_ENTRIES))
    return names if count == len(names) else [*names[:count], f"[{len(names) - count} more]"]


def _explanation(error: OSError, path: str) -> str:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return f"{path} leads through a link, and links are not followed"
    if error.errno == errno.ENOENT:
        return f"{path} does not exist"
    if error.errno in (errno.ENOTDIR, errno.EISDIR):
        return f"{path}: a file is where a folder is needed, a folder where a file, or a link"
    return f"{path}: {error.strerror or error}"
