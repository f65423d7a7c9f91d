"""Whether a cell that another cell made may be: the limits of all cells above it.

Nobody asks before a Cell is created, so twenty may be created at once. The oldest are within the
limits and the others are refused, whoever is looked at first: the order decides, not the moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kais import labels
from kais.resources.cell import Cell
from kais.resources.workload import Recursion, SpawnPolicy


def problem(cell: Cell, kin: Sequence[Cell]) -> str | None:
    """Say why a cell may not have been made; None when it may, or when no cell made it.

    `kin` are the cells of its namespace. A parent that is gone has no limits any more.
    """
    by_name = {one.metadata.name: one for one in kin} | {cell.metadata.name: cell}
    above = list(_ancestors(cell, by_name))
    if not above:
        return None
    refusal = _policy_problem(cell, above[0])
    for generations, ancestor in enumerate(above, start=1):
        limits = _limits(ancestor)
        if refusal is None and generations > limits.max_depth:
            refusal = (
                f"{ancestor.ref} allows {limits.max_depth} generations of cells below it, and this "
                f"is generation {generations}"
            )
        if refusal is None and _rank(cell, ancestor, by_name) > limits.max_descendants:
            refusal = (
                f"{ancestor.ref} allows {limits.max_descendants} cells below it, and as many are "
                "older than this one"
            )
    return refusal


def _policy_problem(cell: Cell, parent: Cell) -> str | None:
    policy = _limits(parent).spawn_policy
    if policy is SpawnPolicy.DISABLED:
        return f"{parent.ref} may make no cells (spawnPolicy: disabled)"
    if policy is SpawnPolicy.BLUEPRINT_ONLY and labels.BLUEPRINT not in cell.metadata.labels:
        return f"{parent.ref} makes cells of Blueprints only (spawnPolicy: blueprint_only)"
    is_approved = cell.metadata.annotations.get(labels.APPROVED) == labels.APPROVED_YES
    if policy is SpawnPolicy.APPROVAL_REQUIRED and not is_approved:
        return (
            f"cells that {parent.ref} makes need approval (spawnPolicy: approval_required); "
            f'annotate this one {labels.APPROVED}: "{labels.APPROVED_YES}"'
        )
    return None


def _limits(cell: Cell) -> Recursion:
    return cell.spec.recursion or Recursion()


def _ancestors(cell: Cell, by_name: Mapping[str, Cell]) -> Iterator[Cell]:
    """Give the cells above, nearest first; a circle ends where it closes."""
    seen = {cell.metadata.name}
    name = cell.spec.parent_ref
    while name is not None and name in by_name and name not in seen:
        seen.add(name)
        yield by_name[name]
        name = by_name[name].spec.parent_ref


def _rank(cell: Cell, ancestor: Cell, by_name: Mapping[str, Cell]) -> int:
    """Count the cells below an ancestor up to this one, oldest first."""
    below = [
        one
        for one in by_name.values()
        if any(a.metadata.name == ancestor.metadata.name for a in _ancestors(one, by_name))
    ]
    return 1 + sum(_age(one) < _age(cell) for one in below)


def _age(cell: Cell) -> tuple[str, str]:
    created = cell.metadata.creation_timestamp
    return (created.isoformat() if created else "", cell.metadata.name)
