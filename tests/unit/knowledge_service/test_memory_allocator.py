"""Threads of the service take memory from one place."""

from __future__ import annotations

import subprocess
import sys

# Each thread takes and frees 64 KiB, so that a place of its own would be made for it.
_THREADS = """
import ctypes
import threading
from knowledge_service import memory_allocator
print(memory_allocator.configure())
held = []
barrier = threading.Barrier(6)
def take():
    barrier.wait()
    held.append([bytearray(n) for n in range(2_000, 60_000, 500)])
    barrier.wait()
threads = [threading.Thread(target=take) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def test_threads_share_one_place() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _THREADS], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["True"]
    assert result.stderr.count("Arena ") == 1
