"""The program of a render worker: a separate process, so that a bad template harms nothing else.

`worker_handle` starts it as `python -m kais_rendering.worker_program`. It reads one JSON request
at a time and writes one answer, framed by `framing`; it exits at the end of its input. It runs what
users wrote (templates, regular expressions, YAML), so it gets no environment and no more memory
than its limit. Where the kernel has Landlock, it drops all access to the network and to files
except Python's before it reads the first request; see `confinement`. In a cluster its user cannot
read any token either; in a terminal it runs as the person who called it. Its parent enforces the
time limit; the alarm only ends a worker whose parent died.
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
from kais.resources import kinds
from kais_rendering import confinement, framing, operations, progress_memory

_ALARM_S = 60  # only for orphans: the parent gives up after 20 s


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(description="render templates, one JSON request at a time")
    parser.add_argument("--memory-mib", type=int, required=True)
    parser.add_argument("--progress-fd", type=int, required=True)
    arguments = parser.parse_args()
    kinds.build_validators()  # the time limits are for templates, not for this
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
    """Run one request; `progress` is called with each leaf before it is processed."""
    progress("parameters")
    try:
        return {"done": operations.run(json.loads(request), progress)}
    except MemoryError:
        return {"cap": "memory", "worn": True}
    except Exception as exc:  # noqa: BLE001 - whatever a template raises must not end the worker
        return {"failed": f"{type(exc).__name__}: {exc}"}


def limit_memory(more_bytes: int) -> int:
    """Let the process grow by `more_bytes` over its present size, and disable core dumps.

    Where the kernel does not report the size (macOS), only the time limit applies.

    Returns:
        The present size in bytes; 0 if it is unknown.
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
