"""The program that renders: a process of its own, so that a bad template harms nothing else.

Started by `process` as `python -m kais_rendering.worker`. One JSON object
per line comes in and one goes out, in turn; the end of the input ends the program. It runs what
users wrote (templates, regular expressions), so it gets no environment and no more memory than its
cap. It runs as the operator's user, since a pod without privileges has no other: before it reads
the first request it gives up all access to the network and to files but Python's own, so that it
cannot read the operator's tokens; see `confinement`. Time is its parent's to watch; the alarm only
ends a worker whose parent died without a word.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import sys
from pathlib import Path
from typing import IO, Any

from kais import blueprints, templates
from kais_rendering import confinement, progress_memory

_ALARM_S = 60  # only for orphans: the parent gives up after 20 s on the clock


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(description="render templates, one JSON request per line")
    parser.add_argument("--memory-mib", type=int, required=True)
    parser.add_argument("--place-fd", type=int, required=True)
    given = parser.parse_args()
    place = progress_memory.share(given.place_fd)
    allowed = given.memory_mib * 2**20
    idle = limit_memory(allowed)
    _say(sys.stdout, {"ready": True, "confined": confinement.confine()})
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_REAL, _ALARM_S)
        answer = answer_to(line, progress=lambda leaf: progress_memory.note(place, leaf))
        signal.setitimer(signal.ITIMER_REAL, 0)
        _say(sys.stdout, {**answer, "worn": (_size_bytes() or 0) > idle + allowed // 2})
    return 0


def answer_to(line: str, *, progress: templates.Progress) -> dict[str, Any]:
    """Run one request; `progress` is told each leaf before it is touched."""
    progress("parameters")
    try:
        return {"done": _run(json.loads(line), progress)}
    except MemoryError:
        return {"cap": "memory", "worn": True}
    except Exception as exc:  # noqa: BLE001 - whatever a template raises must not end the worker
        return {"failed": f"{type(exc).__name__}: {exc}"}


def _run(request: dict[str, Any], progress: templates.Progress) -> dict[str, Any]:
    if request["op"] == "find":
        return _find(request["pattern"], request["text"], ignore_case=request["ignore_case"])
    if request["op"] == "compile":
        return blueprints.compile_blueprint(request["spec"], progress=progress).to_dict()
    return blueprints.render_blueprint(**request["arguments"], progress=progress).to_dict()


def _find(pattern: str, text: str, *, ignore_case: bool) -> dict[str, Any]:
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as exc:
        return {"problem": f"{pattern!r} is no regular expression: {exc}"}
    return {"found": compiled.search(text) is not None}


def limit_memory(more_bytes: int) -> int:
    """Let the process grow by that much over what it has now, and write no core.

    Where the kernel tells no size (macOS), only the time limit holds.

    Returns:
        The size that it has now, in bytes; 0 where it is not told.
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


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, separators=(",", ":")) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
