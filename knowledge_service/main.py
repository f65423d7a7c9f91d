"""`kais-knowledge`: the process. Settings in, exit status out."""

from __future__ import annotations

import sys

from knowledge_service import settings
from knowledge_service.errors import StartupError


def main() -> None:
    """Run the command line and exit: 0 after a graceful stop, 1 when it cannot start."""
    chosen = settings.parse(sys.argv[1:])
    from knowledge_service import serving  # noqa: PLC0415 - usage errors answer without its weight

    try:
        serving.serve(chosen)
    except StartupError as exc:
        sys.stderr.write(f"kais-knowledge: {exc}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
