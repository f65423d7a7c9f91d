"""Memory shared by a worker and its parent: the current leaf, readable after the worker is killed.

A template that hangs inside a C function cannot report anything. With this memory its error can
still name the leaf.
"""

from __future__ import annotations

import mmap
import os
import tempfile

_BYTES = 1024  # a longer path is cut; its start still shows where to look


def open_shared() -> int:
    """Open a file descriptor of shared memory; the caller passes it on and closes it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kais-render-progress")
    else:  # not Linux
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, _BYTES)
    return fd


def map_shared(fd: int) -> mmap.mmap:
    """Map the memory of a descriptor; parent and worker see the same bytes."""
    return mmap.mmap(fd, _BYTES)


def write(memory: mmap.mmap, leaf: str) -> None:
    """Write the leaf that is processed next; an empty string clears it."""
    text = leaf.encode()[: _BYTES - 1]
    memory[: len(text) + 1] = text + b"\0"


def read(memory: mmap.mmap) -> str:
    """Return the leaf that the worker processed last; empty if it has not reached one."""
    return memory[:].split(b"\0", 1)[0].decode(errors="replace")
