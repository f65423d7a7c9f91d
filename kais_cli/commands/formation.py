"""`kais formation`: teams, who of them is ready, who may talk to whom, how many."""

from __future__ import annotations

from typing import Annotated

import typer

from kais.resources.cell import Cell
from kais.resources.formation import MAX_REPLICAS, Formation
from kais_cli import errors
from kais_cli.cluster import formation_scaling, resource_access
from kais_cli.commands.options import (
    AllNamespaces,
    DryRun,
    ListOutput,
    NoHeaders,
    ObjectOutput,
    Output,
    Selector,
    SortBy,
    Watch,
    dry_run_suffix,
    object_name,
)
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group
from kais_cli.views import formation, output
from kais_cli.views import topology as views_topology
from kais_cli.views.output import Format

app = group("formation", "Inspect and scale formations.")

Name = Annotated[
    str, typer.Argument(help="Name of the Formation.", callback=object_name("Formation"))
]


@command(app, "list")
def list_formations(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    output_: ListOutput = "table",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Watch = False,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
) -> ExitStatus:
    """List the formations of a namespace."""
    clock = session.environment.now
    table = resource_access.Table(
        formation.HEADERS, lambda body: formation.row(Formation.from_dict(body), now=clock())
    )
    selection = resource_access.Selection(
        all_namespaces, selector, watch, sort_by, has_headers=not no_headers
    )
    return resource_access.write_list(session, "Formation", output_, selection, table=table)


@command(app, "show")
def show(session: Session, name: Name, output_: ObjectOutput = "table") -> ExitStatus:
    """Show a formation: its cells, their readiness and its topology."""
    form = output.parse_object_format(output_)
    body = resource_access.get(session, "Formation", name)
    if form is not Format.TABLE:
        session.write(output.dump_object(body, form))
        return ExitStatus.SUCCEEDED
    cells = session.cluster.list("Cell", session.namespace)
    own = [cell for cell in cells if cell.get("spec", {}).get("formationRef") == name]
    formation_cells = resource_access.read_valid(session, Cell, own)
    session.write(formation.format_detail(Formation.from_dict(body), formation_cells))
    return ExitStatus.SUCCEEDED


@command(app, "topology")
def topology(session: Session, name: Name, output_: Output = Format.TABLE) -> ExitStatus:
    """Draw which cells may communicate; cells that are not named are isolated."""
    formation = Formation.from_dict(resource_access.get(session, "Formation", name))
    if output_ is Format.NAME:
        raise errors.UsageError("a topology has no name; use -o table, json or yaml")
    if output_ is Format.TABLE:
        session.write(views_topology.topology(formation))
    else:
        session.write(output.dump(views_topology.routes(formation), output_))
    return ExitStatus.SUCCEEDED


@command(app, "scale")
def scale(
    session: Session,
    name: Name,
    *,
    cell: Annotated[str, typer.Option(help="Name of the cell template.")],
    replicas: Annotated[
        int, typer.Option(min=1, max=MAX_REPLICAS, help="Desired number of cells.")
    ],
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Change the number of cells of a template; running cells are not restarted."""
    formation = Formation.from_dict(resource_access.get(session, "Formation", name))
    previous_replicas = formation_scaling.current_replicas(session, formation, cell)
    updated = formation_scaling.scale(session, formation, cell, replicas=replicas, dry_run=dry_run)
    if output_ is not Format.TABLE:
        session.write(output.dump_object(updated, output_))
        return ExitStatus.SUCCEEDED
    checked = dry_run_suffix(dry_run=dry_run)
    session.write(f"{name}: {cell} scaled from {previous_replicas} to {replicas}{checked}\n")
    return ExitStatus.SUCCEEDED
