"""How the C library hands out memory: from one place for all threads, and what is freed is kept.

By default each thread has a place of its own, and what one of them keeps of the index lies among
what was only of use while it answered, so that little of it is ever given back: a service that saw
1,000,000 facts at once held 407 MiB, with one place 319. What is free at the end of the
place stays up to a bound, because the next recall needs as much, and the kernel clears every page
that it gives anew.
"""

from __future__ import annotations

import ctypes

# <malloc.h> of the GNU C library.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_TRIM_THRESHOLD_BYTES, _MMAP_THRESHOLD_BYTES = (
    32 << 20,
    16 << 20,
)  # arbitrary; scores of 1,000,000 facts are 8 MiB


def configure() -> bool:
    """Have all threads that begin later take memory from one place; False where that is unknown."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library, which has no such places either
        return False
    chosen = {
        _M_ARENA_MAX: 1,
        _M_TRIM_THRESHOLD: _TRIM_THRESHOLD_BYTES,
        _M_MMAP_THRESHOLD: _MMAP_THRESHOLD_BYTES,
    }
    taken = [mallopt(option, value) for option, value in chosen.items()]
    return all(taken)
