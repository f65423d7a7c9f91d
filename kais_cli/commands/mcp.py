"""`kais mcp`: the tools of an MCP client on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

app = group("mcp", "Serve the Model Context Protocol on standard input and output.")


@command(app, "mcp")
def serve(
    session: Session,
    *,
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="SETS",
            help="Tool sets, separated by commas: knowledge, kais, graph, charts. Default:"
            " knowledge,kais, and graph with --memory-path.",
        ),
    ] = None,
    memory_path: Annotated[
        Path | None,
        typer.Option(help="Memory file of server-memory; imported first, then it follows."),
    ] = None,
    allow_launch: Annotated[
        bool,
        typer.Option(
            "--allow-launch",
            help="Add kais_launch_team and kais_send_message, which start work and can cost money.",
        ),
    ] = False,
) -> ExitStatus:
    """Serve tools to the MCP client that starts this command.

    The client calls as an agent on your behalf: it sees no drafts, and reviews nothing. The command
    ends when the client closes standard input.
    """
    try:
        from kais_cli.mcp import serving  # noqa: PLC0415 (loads the SDK)
    except ModuleNotFoundError as exc:
        raise errors.UsageError(
            f"`kais mcp` needs the package {exc.name}: install kais[cli,mcp]"
        ) from exc
    chosen = tools or ("graph" if memory_path else "knowledge,kais")
    serving.serve(
        session,
        tool_set_names=chosen.split(","),
        can_launch=allow_launch,
        memory_path=memory_path,
    )
    return ExitStatus.SUCCEEDED
