"""Restrict this process: files except Python's, the network, and signals to other processes.

Uses Landlock, see landlock(7). Neither the process nor its children can regain the access, and no
special permission or user is required. On a kernel without Landlock nothing changes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1  # flag of create_ruleset: return the version
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38  # of prctl
_READ = 1 << 2 | 1 << 3  # files and folders
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""The number of file rights by version of Landlock, from that version on."""
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets and signals of others


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def confine() -> bool:
    """Drop all access except reading Python's folders and this process's entry in /proc.

    Returns:
        Whether the access was dropped. Nothing changes without Landlock, or where the kernel
            refuses.
    """
    try:
        _restrict()
    except OSError:
        return False
    return True


def _restrict() -> None:
    if sys.platform != "linux":
        raise OSError("only Linux has Landlock")
    version = _call(_CREATE_RULESET, None, 0, _VERSION)
    ruleset = _ruleset(version)
    fd = _call(_CREATE_RULESET, ctypes.byref(ruleset), _size(version), 0)
    try:
        for folder in _folders():
            _allow(fd, folder)
        if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        _call(_RESTRICT_SELF, fd, 0)
    finally:
        os.close(fd)


def _ruleset(version: int) -> _Ruleset:
    rights = max(count for since, count in _FILE_RIGHTS.items() if since <= version)
    return _Ruleset(
        files=2**rights - 1,
        network=_TCP if version >= _NETWORK_SINCE else 0,
        scopes=_SCOPES if version >= _SCOPES_SINCE else 0,
    )


def _size(version: int) -> int:
    """Return the size in bytes of the ruleset of a version; the kernel refuses a larger one."""
    fields = 1 + (version >= _NETWORK_SINCE) + (version >= _SCOPES_SINCE)
    return fields * ctypes.sizeof(ctypes.c_uint64)


def _folders() -> Iterator[Path]:
    """Yield the folders that imports read, now or later."""
    candidates = {
        *sys.path,
        sys.prefix,
        sys.base_prefix,
        "/lib",
        "/usr/lib",
        f"/proc/{os.getpid()}",
    }
    for name in sorted(candidates):
        folder = Path(name)
        if name and folder.is_dir():
            yield folder


def _allow(ruleset: int, folder: Path) -> None:
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights=_READ, folder=fd)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(fd)


def _call(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    c_arguments = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    result = int(library.syscall(ctypes.c_long(number), *c_arguments))
    if result < 0:
        number_of_error = ctypes.get_errno()
        raise OSError(number_of_error, f"landlock: {os.strerror(number_of_error)}")
    return result
