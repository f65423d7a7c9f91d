"""Measure what docs/benchmarks.md reports: `python -m bench [NAME]...`, by the names of `BENCHES`.

Without a name all are measured, and docs/benchmarks.md is written.

With names, only those are measured and printed, and the file stays as it is. `service`,
`maintenance`, `recall_rates` and `kro` alone take options, as `--quick`, `--facts 100000` or
`--sizes 10000 --scopes 10`.
"""

import importlib
import sys
from pathlib import Path

from bench.figures import machine

BENCHES = (
    *("renders", "commands", "service", "in_process", "recall_cost", "maintenance"),
    *("mcp", "recall", "recall_rates", "control_plane", "minds", "kro"),
)
WITH_OPTIONS = (["service"], ["maintenance"], ["recall_rates"], ["kro"])
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Everything shares the cores of one machine: API server, store, operator and the measuring client.
Take the figures as a starting point. Other guests of the machine shared it: the same code took up
to a third longer in some minutes than in others.

To reproduce the figures, run `make bench` on an idle machine (about two hours); it writes this
page. To measure one subject, name it: `.venv/bin/python -m bench recall`. The subjects are
`renders`, `commands`, `service`, `in_process`, `recall_cost`, `maintenance`, `mcp`, `recall`,
`recall_rates`, `control_plane`, `minds` and `kro`.
The reasons for these figures are in the [decisions](decisions/README.md).

"""


def main() -> None:
    """Run the named benches, or all of them, and write the page."""
    names = sys.argv[1:]
    if names[:1] in WITH_OPTIONS and names[1:2] and names[1].startswith("--"):
        print(importlib.import_module(f"bench.{names[0]}").run(names[1:]))
        return
    if not {"-h", "--help"}.isdisjoint(names):
        print(__doc__)
        return
    if unknown := [name for name in names if name not in BENCHES]:
        sys.exit(f"no bench is named {unknown[0]!r}\n\n{__doc__}")
    sections = [importlib.import_module(f"bench.{name}").run() for name in names or BENCHES]
    if names:
        print("\n\n".join(sections))
        return
    page = HEAD + "Machine: " + machine() + "\n\n" + "\n\n".join(sections) + "\n"
    PAGE.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
