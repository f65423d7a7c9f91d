"""The entry point of `kais-knowledge`."""

from __future__ import annotations

import signal
import sys

from knowledge_service import settings, startup_checks
from knowledge_service.errors import StartupError


def main() -> None:
    """Run the command line and exit.

    Exit status: 0 after a graceful stop or a successful admin command; 1 on failure, or when
    `verify` found problems; 2 for invalid arguments; 130 on SIGINT; 141 when the reader of an
    export went away; 143 on SIGTERM while the database is opened or during an admin command.
    """
    # Process 1 of a container ignores SIGTERM without a handler.
    signal.signal(signal.SIGTERM, _end)
    options = settings.parse(sys.argv[1:])
    try:
        if isinstance(options, settings.Settings):
            startup_checks.check_settings(options)
            from knowledge_service import process  # noqa: PLC0415 - usage errors need no web server

            process.serve(options)
        else:
            from knowledge_service import admin_cli  # noqa: PLC0415 - as above

            sys.exit(admin_cli.run_command(options, write_line=_write_line))
    except KeyboardInterrupt:
        sys.exit(130)
    except StartupError as exc:
        sys.stderr.write(f"kais-knowledge: {exc}\n")
        sys.exit(1)


def _end(_number: int, _frame: object) -> None:
    sys.exit(143)


def _write_line(line: str) -> None:
    """Write to standard error; standard output may carry an export."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
