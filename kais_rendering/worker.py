"""The program that renders: a process of its own, so that a bad template harms nothing else.

Started by `process` as `python -m kais_rendering.worker`. One JSON request comes in and one answer
goes out, in turn, framed by `framing`; the end of the input ends the program. It runs what users
wrote (templates, regular expressions, YAML), so it gets no environment and no more memory than its
limit. Before it reads the first request it gives up all access to the network and to files but
Python's own, where the kernel has Landlock; see `confinement`. In a cluster its user has no token
either; in a terminal it is the person's own. Its parent watches the time; the alarm only ends a
worker whose parent died without a word.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from kais import templates
from kais_rendering import confinement, framing, operations, progress_memory

_ALARM_S = 60  # only for orphans: the parent gives up after 20 s on the clock


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(description="render templates, one JSON request at a time")
    parser.add_argument("--memory-mib", type=int, required=True)
    parser.add_argument("--progress-fd", type=int, required=True)
    arguments = parser.parse_args()
    progress = progress_memory.map_shared(arguments.progress_fd)
    allowed = arguments.memory_mib * 2**20
    idle = limit_memory(allowed)
    _send({"ready": True, "confined": confinement.confine()})
    while (request := framing.read_blocking(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_REAL, _ALARM_S)
        answer = answer_to(request, progress=lambda leaf: progress_memory.write(progress, leaf))
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send({**answer, "worn": (_size_bytes() or 0) > idle + allowed // 2})
    return 0


def answer_to(request: bytes, *, progress: templates.Progress) -> dict[str, Any]:
    """Run one request; `progress` is called with each leaf before it is touched."""
    progress("parameters")
    try:
        return {"done": operations.run(json.loads(request), progress)}
    except MemoryError:
        return {"cap": "memory", "worn": True}
    except Exception as exc:  # noqa: BLE001 - whatever a template raises must not end the worker
        return {"failed": f"{type(exc).__name__}: {exc}"}


def limit_memory(more_bytes: int) -> int:
    """Let the process grow by that much over what it has now, and write no core.

    Where the kernel tells no size (macOS), only the time limit holds.

    Returns:
        The size that it has now, in bytes; 0 where it is not known.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = _size_bytes()
    if size is not None:
        resource.setrlimit(resource.RLIMIT_AS, (size + more_bytes, size + more_bytes))
    return size or 0


def _size_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return None
    return pages * resource.getpagesize()


def _send(answer: dict[str, Any]) -> None:
    payload = json.dumps(answer, separators=(",", ":")).encode()
    sys.stdout.buffer.write(framing.frame(payload))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
