"""Configures glibc's malloc: memory that a burst no longer needs returns to the kernel.

By default each large block that is freed raises the threshold from which malloc returns memory, up
to 64 MiB, so the operator held what its largest list or response had needed. After a burst of 300
instances it held 123 MiB, with a fixed threshold 115, for the same processor time.
"""

from __future__ import annotations

import ctypes

# <malloc.h> of the GNU C library.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_DEFAULT_BYTES = 128 << 10  # what both are until malloc adapts them


def configure() -> bool:
    """Keep malloc from adapting its thresholds; False for a C library without mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    options = (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD)
    return all(mallopt(option, _DEFAULT_BYTES) for option in options)
