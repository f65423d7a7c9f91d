"""The program `kais-file-check PATH…`: whether files are there, inside the workspace only.

It runs as a container of an attempt's pod, with the workspace mounted read-only and nothing else.
Paths are taken from the shared folder on; a path or a link that leads out of the workspace counts
as an error, whatever is there.

    exit 0: all are there      1: some are missing, named in one line      2: a path leads out
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

WORKSPACE = Path("/workspace")
SHARED = "shared"


def look(paths: Sequence[str], *, workspace: Path = WORKSPACE) -> tuple[int, str]:
    """Look for the paths; gives the exit status and what to print."""
    root = workspace.resolve()
    outside, missing = [], []
    for path in paths:
        target = (root / SHARED / path).resolve()
        if not target.is_relative_to(root):
            outside.append(path)
        elif not target.exists():
            missing.append(path)
    if outside:
        return 2, f"not inside the workspace: {', '.join(outside)}"
    return (1, f"missing: {', '.join(missing)}") if missing else (0, "")


def main() -> None:
    """Run as a program."""
    paths = [text for text in sys.argv[1:] if text != "--"]
    status, words = look(paths)
    if words:
        print(words)  # noqa: T201 - what the check says
    sys.exit(status)


if __name__ == "__main__":
    main()
