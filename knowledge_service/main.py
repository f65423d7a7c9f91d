"""`kais-knowledge`: the process. Settings in, exit status out."""

from __future__ import annotations

import signal
import sys

from knowledge_service import settings, startup_checks
from knowledge_service.errors import StartupError


def main() -> None:
    """Run the command line and exit.

    0 after a graceful stop or a done errand; 1 when it cannot be done or something is wrong; 2 for
    a mistake in the arguments; 130 when interrupted; 141 when the reader of an export went away;
    143 when told to end before it serves, or during an errand.
    """
    # As process 1 of a container it would not hear the signal otherwise.
    signal.signal(signal.SIGTERM, _end)
    options = settings.parse(sys.argv[1:])
    try:
        if isinstance(options, settings.Settings):
            startup_checks.check_settings(options)
            from knowledge_service import server  # noqa: PLC0415 - usage errors need no web server

            server.serve(options)
        else:
            from knowledge_service import admin_commands  # noqa: PLC0415 - as above

            sys.exit(admin_commands.run_command(options, write_line=_write_line))
    except KeyboardInterrupt:
        sys.exit(130)
    except StartupError as exc:
        sys.stderr.write(f"kais-knowledge: {exc}\n")
        sys.exit(1)


def _end(_number: int, _frame: object) -> None:
    sys.exit(143)


def _write_line(line: str) -> None:
    """Tell the person who waits; standard output may be carrying an export."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
