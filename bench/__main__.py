"""`python -m bench [NAME]...`, of renders, commands, service, marks, upkeep, recall, control_plane.

Without a name all are measured, and docs/benchmarks.md is written.

With names, only those are measured and printed, and the file stays as it is. `service` and `upkeep`
alone take options, as `--quick` or `--sizes 10000 --scopes 10`.
"""

import importlib
import sys
from pathlib import Path

from bench.figures import machine

ALL = ("renders", "commands", "service", "marks", "upkeep", "recall", "control_plane")
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Made by `make bench`. These are starting points: figures of one run on one machine, with everything
(API server, store, operator and the measuring client) sharing its cores.

"""
NOTES = Path(__file__).with_name("notes.md")


def main() -> None:
    """Run the named benches, or all of them, and write the page."""
    named = sys.argv[1:]
    if named[:1] in (["service"], ["upkeep"]) and named[1:2] and named[1].startswith("--"):
        print(importlib.import_module(f"bench.{named[0]}").run(named[1:]))
        return
    sections = [importlib.import_module(f"bench.{name}").run() for name in named or ALL]
    if named:
        print("\n\n".join(sections))
        return
    page = HEAD + "Machine: " + machine() + "\n\n" + "\n\n".join(sections) + "\n"
    PAGE.write_text(page + "\n" + NOTES.read_text())
    print(page)


if __name__ == "__main__":
    main()
