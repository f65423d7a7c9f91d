"""The program `kais-file-check PATH…`: checks that files exist inside the workspace.

It runs as a container of an attempt's pod, with the workspace mounted read-only and nothing else.
The rule is that of `kais.workspace_paths`, which has the same program for the shell of an image
that is not ours.

    exit 0: all exist    1: some are missing, listed on one line    2: a path leaves the workspace
"""

from __future__ import annotations

import os.path
import sys
from collections.abc import Sequence
from pathlib import Path

from kais import workspace_paths


def check_paths(
    paths: Sequence[str], *, workspace: str = workspace_paths.WORKSPACE
) -> tuple[int, str]:
    """Check the paths; return the exit status and the text to print."""
    root = Path(workspace).resolve()
    outside, missing = [], []
    for path in paths:
        candidate = workspace_paths.resolve_path(path, workspace=workspace)
        target = None if candidate is None else Path(os.path.realpath(candidate))
        if target is None or not target.is_relative_to(root):
            outside.append(path)
        elif not target.exists():
            missing.append(path)
    if outside:
        return 2, workspace_paths.outside_message(outside)
    return (1, f"missing: {', '.join(missing)}") if missing else (0, "")


def main() -> None:
    """Run as a program."""
    paths = [text for text in sys.argv[1:] if text != "--"]
    status, message = check_paths(paths)
    if message:
        print(message)  # noqa: T201 - the message of the check
    sys.exit(status)


if __name__ == "__main__":
    main()
