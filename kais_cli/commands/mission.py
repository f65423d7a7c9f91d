"""`kais mission`: what is under way, what came of it, and watching it."""

from __future__ import annotations

from typing import Annotated

import typer

from kais.resources.mission import Mission
from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.commands.options import (
    AllNamespaces,
    For,
    ListOutput,
    NoHeaders,
    ObjectOutput,
    Output,
    RunNumber,
    Selector,
    SortBy,
    Timeout,
    Watch,
    object_name,
)
from kais_cli.exit_status import ExitStatus
from kais_cli.runs import earlier_runs, report
from kais_cli.session import Session, command, group
from kais_cli.views import mission, output
from kais_cli.views.output import Format

app = group("mission", "Inspect and control missions.")

Name = Annotated[str, typer.Argument(help="Name of the Mission.", callback=object_name("Mission"))]


@command(app, "list")
def list_missions(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    output_: ListOutput = "table",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Watch = False,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
) -> ExitStatus:
    """List the missions of a namespace."""
    clock = session.environment.now
    table = resource_access.Table(
        mission.MISSION_HEADERS,
        lambda body: mission.mission_row(Mission.from_dict(body), now=clock()),
    )
    selection = resource_access.Selection(
        all_namespaces, selector, watch, sort_by, has_headers=not no_headers
    )
    return resource_access.write_list(session, "Mission", output_, selection, table=table)


@command(app, "show")
def show(session: Session, name: Name, output_: ObjectOutput = "table") -> ExitStatus:
    """Show a mission: its attempts, checks, result and conditions."""
    form = output.parse_object_format(output_)
    body = resource_access.get(session, "Mission", name)
    width = session.environment.width
    return resource_access.write_object(
        session,
        body,
        form,
        detail=lambda body: mission.format_mission(Mission.from_dict(body), width=width),
    )


@command(app, "watch")
def watch(
    session: Session, name: Name, timeout: Timeout = "30m", output_: Output = Format.TABLE
) -> ExitStatus:
    """Follow a mission to its end; the exit status reflects its outcome."""
    resource_access.get(session, "Mission", name)
    return report.follow_mission(session, name, form=output_, timeout=report.parse_timeout(timeout))


@command(app, "wait")
def wait(
    session: Session,
    name: Name,
    run: RunNumber = None,
    for_: For = None,
    timeout: Timeout = "30m",
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Wait for the end of a run, as `watch` does; the exit status reflects its outcome.

    With --run, the run may be an earlier one, which has ended: its outcome comes from the ledger.
    With --for, wait for that state instead; the exit status is 0 when the mission is in it.
    """
    if for_ is not None:
        if run is not None:
            raise errors.UsageError("--for is about the current run; leave out --run")
        return report.wait_for(session, "Mission", name, for_, form=output_, timeout=timeout)
    mission = Mission.from_dict(resource_access.get(session, "Mission", name))
    earlier_run = earlier_runs.earlier_run(mission, run)
    if earlier_run is not None:
        return earlier_runs.report_outcome(session, mission, earlier_run, form=output_)
    return report.follow_mission(session, name, form=output_, timeout=report.parse_timeout(timeout))
