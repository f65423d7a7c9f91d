"""Memory that a worker and its parent share: the leaf at work, readable after a kill.

A template that hangs inside one call of C code can report nothing any more; this is how its error
names the leaf all the same.
"""

from __future__ import annotations

import mmap
import os
import tempfile

_BYTES = 1024  # a longer path is cut: it still says where to look


def open_shared() -> int:
    """Open a file descriptor of shared memory, to be passed on and closed by the caller."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kais-render-progress")
    else:  # not Linux
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, _BYTES)
    return fd


def map_shared(fd: int) -> mmap.mmap:
    """Map it; parent and worker see the same bytes."""
    return mmap.mmap(fd, _BYTES)


def write(memory: mmap.mmap, leaf: str) -> None:
    """Write the leaf that is touched next; the empty text clears it."""
    text = leaf.encode()[: _BYTES - 1]
    memory[: len(text) + 1] = text + b"\0"


def read(memory: mmap.mmap) -> str:
    """Read the leaf that the worker touched last; empty when it has touched none yet."""
    return memory[:].split(b"\0", 1)[0].decode(errors="replace")
