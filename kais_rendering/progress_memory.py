"""Memory that the renderer and its worker share: the leaf at work, readable after a kill.

A template that hangs inside one call of C code can say nothing any more; this is how its error
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
        fd = os.memfd_create("kais-render-place")
    else:  # not Linux
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, _BYTES)
    return fd


def share(fd: int) -> mmap.mmap:
    """Map it; parent and worker see the same bytes."""
    return mmap.mmap(fd, _BYTES)


def note(place: mmap.mmap, leaf: str) -> None:
    """Leave word of the leaf that is touched next."""
    text = leaf.encode()[: _BYTES - 1]
    place[: len(text) + 1] = text + b"\0"


def read(place: mmap.mmap) -> str:
    """Read the worker's last word, empty when it has touched no leaf yet."""
    return place[:].split(b"\0", 1)[0].decode(errors="replace")
