"""Format formations for people: one line each, or a page of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kais.conditions import ConditionType
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais_cli.views import conditions, quantities, table_layout, text_layout, topology

HEADERS = ("NAME", "TOPOLOGY", "CELLS", "READY", "AGE")
CELL_LIST_HEADERS = ("NAME", "FORMATION", "MODE", "STATUS", "READY", "AGE")
CELL_HEADERS = ("CELL", "MODE", "STATUS", "READY", "MESSAGE")


def format_detail(formation: Formation, cells: Sequence[Cell]) -> str:
    """Format one formation: its origin, cells, topology and conditions."""
    parts = [f"{formation.metadata.name} in {formation.metadata.namespace}\n"]
    owner = next(iter(formation.metadata.owner_references), None)
    if owner is not None:
        parts.append(f"  made by {owner.kind}/{formation.metadata.namespace}/{owner.name}\n")
    rows = [_cell_row(cell) for cell in sorted(cells, key=lambda cell: cell.metadata.name)]
    listed = table_layout.format_table(CELL_HEADERS, rows)
    parts += ["\nCells:\n", text_layout.indent(listed) if rows else "  none yet\n"]
    parts += ["\nTopology:\n", text_layout.indent(topology.topology(formation))]
    parts += ["\nConditions:\n", conditions.format_conditions(formation)]
    return "".join(parts)


def row(formation: Formation, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of a formation in a list."""
    status = formation.status
    ready = formation.condition(ConditionType.READY)
    return (
        formation.metadata.name,
        formation.spec.topology.type,
        f"{status.ready_cells or 0}/{status.total_cells or 0}",
        ready.status if ready else None,
        quantities.format_age(formation.metadata.creation_timestamp, now),
    )


def cell_list_row(cell: Cell, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of a row about a Cell in a list."""
    ready = cell.condition(ConditionType.READY)
    return (
        cell.metadata.name,
        cell.spec.formation_ref,
        cell.spec.effective_mode,
        cell_status(cell),
        ready.status if ready else None,
        quantities.format_age(cell.metadata.creation_timestamp, now),
    )


def cell_status(cell: Cell) -> str:
    """Return the state of a cell in one word, the same as in `kubectl get`."""
    display = cell.status.display
    return (display.status if display else None) or cell.status.phase or "Pending"


def _cell_row(cell: Cell) -> tuple[object, ...]:
    ready = cell.condition(ConditionType.READY)
    return (
        cell.metadata.name,
        cell.spec.effective_mode,
        cell_status(cell),
        ready.status if ready else None,
        ready.message if ready else "the operator has not processed it",
    )
