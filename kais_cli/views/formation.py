"""Format formations for people: one line each, or a page of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kais.conditions import ConditionType
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais_cli.views import blueprint, output, topology


def format_list(formations: Iterable[Formation], *, now: datetime) -> str:
    """Format a list of formations."""
    headers = ("NAME", "TOPOLOGY", "CELLS", "READY", "AGE")
    return output.format_table(headers, [_row(formation, now) for formation in formations])


def format_detail(formation: Formation, cells: Sequence[Cell]) -> str:
    """Format one formation: its origin, cells, topology and conditions."""
    parts = [f"{formation.metadata.name} in {formation.metadata.namespace}\n"]
    owner = next(iter(formation.metadata.owner_references), None)
    if owner is not None:
        parts.append(f"  made by {owner.kind}/{formation.metadata.namespace}/{owner.name}\n")
    rows = [_cell_row(cell) for cell in sorted(cells, key=lambda cell: cell.metadata.name)]
    listed = output.format_table(("CELL", "MODE", "STATUS", "READY", "MESSAGE"), rows)
    parts += ["\nCells:\n", output.indent(listed) if rows else "  none yet\n"]
    parts += ["\nTopology:\n", output.indent(topology.topology(formation))]
    parts += ["\nConditions:\n", blueprint.format_conditions(formation)]
    return "".join(parts)


def _row(formation: Formation, now: datetime) -> tuple[object, ...]:
    status = formation.status
    ready = formation.condition(ConditionType.READY)
    return (
        formation.metadata.name,
        formation.spec.topology.type,
        f"{status.ready_cells or 0}/{status.total_cells or 0}",
        ready.status if ready else None,
        output.format_age(formation.metadata.creation_timestamp, now),
    )


def _cell_row(cell: Cell) -> tuple[object, ...]:
    ready = cell.condition(ConditionType.READY)
    return (
        cell.metadata.name,
        cell.spec.mode,
        cell.status.phase,
        ready.status if ready else None,
        ready.message if ready else "the operator has not looked at it",
    )
