"""`kais mission`: what is under way, what came of it, and watching it."""

from __future__ import annotations

from typing import Annotated

import typer

from kais.resources.mission import Mission
from kais_cli.cluster import resource_access
from kais_cli.commands.options import Output, Timeout
from kais_cli.exit_status import ExitStatus
from kais_cli.runs import report
from kais_cli.session import Session, command, group
from kais_cli.views import blueprint, tables
from kais_cli.views.output import Format

app = group("mission", "Inspect and control missions.")

Name = Annotated[str, typer.Argument(help="Name of the Mission.")]


@command(app, "list")
def list_missions(session: Session, output_: Output = Format.TABLE) -> ExitStatus:
    """List the missions of a namespace."""
    now = session.environment.now()
    return resource_access.write_list(
        session,
        "Mission",
        output_,
        table=lambda bodies: tables.format_missions(map(Mission.from_dict, bodies), now=now),
    )


@command(app, "show")
def show(session: Session, name: Name, output_: Output = Format.TABLE) -> ExitStatus:
    """Show a mission: its attempts, checks, result and conditions."""
    body = resource_access.get(session, "Mission", name)
    if output_ is Format.TABLE:
        session.write(
            blueprint.format_mission(Mission.from_dict(body), width=session.environment.width)
        )
    else:
        session.write(tables.dump_object(body, output_))
    return ExitStatus.SUCCEEDED


@command(app, "watch")
def watch(
    session: Session, name: Name, timeout: Timeout = "30m", output_: Output = Format.TABLE
) -> ExitStatus:
    """Follow a mission to its end; the exit status reflects its outcome."""
    resource_access.get(session, "Mission", name)
    return report.follow_mission(session, name, form=output_, timeout=report.parse_timeout(timeout))
