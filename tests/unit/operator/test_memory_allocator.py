"""The operator returns memory that it no longer needs."""

from __future__ import annotations

import subprocess
import sys

# A large block is freed, as after a list; then 30 MB are taken in small blocks and freed.
_BURST = """
import ctypes, os, resource
from kais_operator import memory_allocator
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
statm = os.open("/proc/self/statm", os.O_RDONLY)
def resident_mb():
    return int(os.pread(statm, 99, 0).split()[1]) * resource.getpagesize() / 1e6
print(memory_allocator.configure())
libc.free(libc.malloc(30_000_000))
blocks = [None] * 500
for number in range(500):
    blocks[number] = libc.malloc(60_000)
    libc.memset(blocks[number], 1, 60_000)
held = resident_mb()
for block in reversed(blocks):
    libc.free(block)
print(held - resident_mb())
"""


def test_memory_of_a_burst_returns_to_the_kernel() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _BURST], capture_output=True, text=True, check=True
    )
    is_configured, returned_mb = result.stdout.split()
    assert is_configured == "True"
    assert float(returned_mb) > 25
