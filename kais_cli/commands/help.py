"""`kais help COMMAND`: the same as `kais COMMAND --help`."""

from __future__ import annotations

from typing import Annotated

import typer

from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

app = group("help", "")


@command(app, "help", needs_cluster=False)
def show_help(
    session: Session,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Such as: mission list.")
    ] = None,
) -> ExitStatus:
    """Show the help of a command, or of all commands."""
    from kais_cli import app as entry_point  # noqa: PLC0415 (it loads this module)

    return ExitStatus(entry_point.main([*(names or ()), "--help"], session.environment))
