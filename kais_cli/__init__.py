"""The command line for working with blueprints, missions and knowledge."""

import sys

# httpx does without its own command line, which would load rich: 40 ms of every command.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
