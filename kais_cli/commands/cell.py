"""`kais cell`: the cells of a namespace, the logs of their pods, and approval by a person."""

from __future__ import annotations

from typing import Annotated

import typer

from kais import labels
from kais.conditions import ConditionType
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais_cli import errors
from kais_cli.cluster import annotation_verbs, resource_access
from kais_cli.commands.options import (
    AllNamespaces,
    Container,
    DryRun,
    Follow,
    ListOutput,
    NoHeaders,
    ObjectOutput,
    Output,
    Previous,
    Selector,
    Since,
    SortBy,
    Tail,
    Timestamps,
    Watch,
    dry_run_suffix,
    log_options,
    object_name,
)
from kais_cli.exit_status import ExitStatus
from kais_cli.runs import logs as runs_logs
from kais_cli.session import Session, command, group
from kais_cli.views import conditions, formation, output
from kais_cli.views.output import Format

app = group("cell", "Inspect and approve cells, and read their logs.")

Name = Annotated[str, typer.Argument(help="Name of the Cell.", callback=object_name("Cell"))]


@command(app, "list")
def list_cells(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    output_: ListOutput = "table",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Watch = False,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
) -> ExitStatus:
    """List the cells of a namespace."""
    clock = session.environment.now
    table = resource_access.Table(
        formation.CELL_LIST_HEADERS,
        lambda body: formation.cell_list_row(Cell.from_dict(body), now=clock()),
    )
    selection = resource_access.Selection(
        all_namespaces, selector, watch, sort_by, has_headers=not no_headers
    )
    return resource_access.write_list(session, "Cell", output_, selection, table=table)


@command(app, "show")
def show(session: Session, name: Name, output_: ObjectOutput = "table") -> ExitStatus:
    """Show a cell: its state and conditions."""
    form = output.parse_object_format(output_)
    body = resource_access.get(session, "Cell", name)
    return resource_access.write_object(
        session, body, form, detail=lambda body: _detail(Cell.from_dict(body))
    )


def _detail(cell: Cell) -> str:
    metadata = cell.metadata
    return (
        f"{metadata.name} in {metadata.namespace}: {cell.spec.effective_mode},"
        f" {formation.cell_status(cell)}\n\nConditions:\n{conditions.format_conditions(cell)}"
    )


@command(app, "logs")
def logs(  # noqa: PLR0913 (one argument per option)
    session: Session,
    name: Name,
    *,
    tail: Tail = 1000,
    follow: Follow = False,
    container: Container = None,
    since: Since = None,
    previous: Previous = False,
    timestamps: Timestamps = False,
) -> ExitStatus:
    """Print the logs of a cell's pods: the replicas of a service, or the latest attempt.

    Several replicas are followed at the same time, at most 50, and each line begins with its pod
    and container, as in `kubectl logs --prefix`; so are sidecars.
    """
    options = log_options(
        tail, follow=follow, since=since, previous=previous, timestamps=timestamps
    )
    resource_access.get(session, "Cell", name)
    runs_logs.write_cell(session, name, container=container, options=options)
    return ExitStatus.SUCCEEDED


@command(app, "approve")
def approve(
    session: Session, name: Name, dry_run: DryRun = False, output_: Output = Format.TABLE
) -> ExitStatus:
    """Approve a cell that another cell created and that waits for it.

    Your name, as the API server knows it, is on record beside the approval.
    """
    cell = Cell.from_dict(resource_access.get(session, "Cell", name))
    applied = cell.condition(ConditionType.APPLIED)
    if applied is None or applied.reason != Reason.SPAWN_REFUSED:
        raise errors.Refused(
            f"{cell.ref} waits for no approval; see `kais cell show {name} -n {session.namespace}`"
        )
    if labels.APPROVED_CELLS in applied.message:
        raise errors.Refused(f"{cell.ref}: {applied.message}")
    user = session.cluster.user_name()
    approval = {labels.APPROVED: labels.APPROVED_YES, labels.APPROVED_BY: user}
    annotated = annotation_verbs.annotate(session, "Cell", name, approval, dry_run=dry_run)
    message = f"{cell.ref}: approved by {user}{dry_run_suffix(dry_run=dry_run)}"
    return resource_access.write_acknowledgement(session, annotated, message, output_)
