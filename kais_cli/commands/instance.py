"""`kais instance`: list, show, follow and delete instances of blueprints, and read their logs."""

from __future__ import annotations

from typing import Annotated

import typer

from kais.resources.blueprint_instance import BlueprintInstance
from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.commands.options import (
    AllNamespaces,
    Container,
    Follow,
    For,
    ListOutput,
    NoHeaders,
    ObjectOutput,
    Output,
    Previous,
    Selector,
    Since,
    SortBy,
    Tail,
    Timeout,
    Timestamps,
    Watch,
    log_options,
    object_name,
)
from kais_cli.exit_status import ExitStatus
from kais_cli.runs import logs as runs_logs
from kais_cli.runs import report
from kais_cli.session import Session, command, group
from kais_cli.views import instance, output
from kais_cli.views.output import Format, Listing

app = group("instance", "Inspect, follow and delete instances of blueprints.")

KIND = "BlueprintInstance"
Name = Annotated[
    str, typer.Argument(help="Name of the BlueprintInstance.", callback=object_name(KIND))
]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of BlueprintInstances.")]


@command(app, "list")
def list_instances(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    output_: ListOutput = "table",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Watch = False,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
) -> ExitStatus:
    """List the instances of a namespace."""
    clock = session.environment.now
    table = resource_access.Table(
        instance.HEADERS, lambda body: instance.row(BlueprintInstance.from_dict(body), now=clock())
    )
    selection = resource_access.Selection(
        all_namespaces, selector, watch, sort_by, has_headers=not no_headers
    )
    return resource_access.write_list(session, KIND, output_, selection, table=table)


@command(app, "show")
def show(session: Session, name: Name, output_: ObjectOutput = "table") -> ExitStatus:
    """Show an instance: its parameters, what it created, its outcome and conditions."""
    form = output.parse_object_format(output_)
    body = resource_access.get(session, KIND, name)
    return resource_access.write_object(
        session,
        body,
        form,
        detail=lambda body: instance.format_instance(BlueprintInstance.from_dict(body)),
    )


@command(app, "wait")
def wait(
    session: Session,
    name: Name,
    for_: For = None,
    timeout: Timeout = "30m",
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Wait for the end of an instance's run; the exit status reflects its outcome.

    With --for, wait for that state instead; the exit status is 0 when the instance is in it.
    """
    if for_ is not None:
        return report.wait_for(session, KIND, name, for_, form=output_, timeout=timeout)
    body = resource_access.get(session, KIND, name)
    return report.follow_existing_instance(
        session, body, form=output_, timeout=report.parse_timeout(timeout)
    )


@command(app, "logs")
def logs(  # noqa: PLR0913 (one argument per option)
    session: Session,
    name: Name,
    *,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Number of the attempt. Default: the latest.")
    ] = None,
    tail: Tail = 1000,
    follow: Follow = False,
    container: Container = None,
    since: Since = None,
    previous: Previous = False,
    timestamps: Timestamps = False,
) -> ExitStatus:
    """Print the logs of an attempt of an instance's mission: its work and its checks.

    With --follow, a sidecar is followed at the same time as the work, and each line begins with its
    pod and container.
    """
    options = log_options(
        tail, follow=follow, since=since, previous=previous, timestamps=timestamps
    )
    parsed = BlueprintInstance.from_dict(resource_access.get(session, KIND, name))
    if parsed.status.mission is None:
        raise errors.Refused(
            f"{parsed.ref} has no mission, so it has no attempts; the logs of its cells are in"
            " `kais cell logs`"
        )
    runs_logs.write(
        session, parsed.status.mission, attempt=attempt, container=container, options=options
    )
    return ExitStatus.SUCCEEDED


@command(app, "delete")
def delete(session: Session, name: Names, *, output_: Output = Format.TABLE) -> ExitStatus:
    """Delete instances with their formations and missions; their facts stay.

    Deletes none if one of them does not exist. A running mission ends as Cancelled, which does not
    affect success rates.
    """
    names = list(dict.fromkeys(map(object_name(KIND), name)))
    bodies = [resource_access.get(session, KIND, each) for each in names]
    for each in names:
        session.cluster.delete(KIND, session.namespace, each)
        if output_ is Format.TABLE:
            session.note(f"{KIND}/{session.namespace}/{each} is being deleted")
    if output_ is Format.TABLE:
        session.write(output.format_names(bodies, kind=KIND))
    elif len(bodies) == 1 or output_ is Format.NAME:
        session.write("".join(output.dump_object(body, output_) for body in bodies))
    else:
        session.write(output.dump_list(bodies, Listing(output_.value)))
    return ExitStatus.SUCCEEDED
