"""`kais mission`: what is under way, what came of it, and watching it."""

from __future__ import annotations

from typing import Annotated

import typer

from kais.resources.mission import Mission
from kais_cli import errors, output, pages, tables, uses
from kais_cli.exit_status import ExitStatus
from kais_cli.options import Output, Timeout
from kais_cli.output import Format
from kais_cli.ports import Body
from kais_cli.session import Session, command, group

app = group("mission", "Look at missions and steer them.")

Name = Annotated[str, typer.Argument(help="Name of the Mission.")]


@command(app, "list")
def list_missions(session: Session, output_: Output = Format.TABLE) -> ExitStatus:
    """List the missions of a namespace."""
    bodies = session.cluster.list("Mission", session.namespace)
    if output_ is Format.NAME:
        session.write(output.names(bodies, kind="Mission"))
    elif output_ is not Format.TABLE:
        session.write(output.dump([output.stored(body) for body in bodies], output_))
    elif not bodies:
        session.note(f"no missions in namespace {session.namespace}")
    else:
        found = [Mission.from_dict(body) for body in bodies]
        session.write(tables.missions(found, now=session.environment.now()))
    return ExitStatus.SUCCEEDED


@command(app, "show")
def show(session: Session, name: Name, output_: Output = Format.TABLE) -> ExitStatus:
    """Show a mission: its attempts, checks, result and conditions."""
    body = get(session, name)
    if output_ is Format.TABLE:
        session.write(pages.mission(Mission.from_dict(body), width=session.environment.width))
    else:
        session.write(tables.one(body, output_))
    return ExitStatus.SUCCEEDED


@command(app, "watch")
def watch(
    session: Session, name: Name, timeout: Timeout = "30m", output_: Output = Format.TABLE
) -> ExitStatus:
    """Follow a mission to its end, and end with the status of its outcome."""
    get(session, name)
    return uses.follow_mission(session, name, form=output_, timeout=uses.patience(timeout))


def get(session: Session, name: str) -> Body:
    """Read a Mission of the session's namespace.

    Raises:
        Refused: there is none of that name.
    """
    body = session.cluster.get("Mission", session.namespace, name)
    if body is None:
        raise errors.Refused(
            f"Mission/{session.namespace}/{name} does not exist; see `kais mission list`"
        )
    return body
