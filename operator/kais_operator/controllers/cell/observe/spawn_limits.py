"""Read what shows whether another cell created a Cell, and whether it was allowed to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kais import labels
from kais.resources.cell import Cell
from kais.resources.cell_template import SpawnPolicy
from kais.resources.formation import Formation
from kais_operator.controllers.cell.decide import cell_identity, spawn_limit_records, spawn_limits
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.controllers.cell.decide.spawn_limit_records import Records
from kais_operator.controllers.cell.decide.spawn_limits import NO_ANCESTRY, Ancestry
from kais_operator.controllers.shared.observe import shared_reads
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import Cluster, World


async def read_ancestry(world: World, cell_in_formation: CellInFormation) -> Ancestry:
    """Read the cells that may have created this one; NO_ANCESTRY when no cell can have done so."""
    cluster, cell = world.cluster, cell_in_formation.cell
    namespace = cell.metadata.namespace
    has_parent = cell.spec.parent_ref is not None
    if world.placement.has_spawn_policy:
        if not has_parent and spawn_limit_records.creator(cell) is None:
            return NO_ANCESTRY
        records = await _records(cluster, cell, fresh=True)
        return Ancestry(await _cells(cluster, namespace), has_policy=True, records=records)
    is_formation_cell = bool(
        cell_in_formation.formation
        and spawn_limits.formation_cell_names([cell], [cell_in_formation.formation])
    )
    if not has_parent and is_formation_cell:
        return NO_ANCESTRY  # others are not read: in a large team, each cell would read them
    bodies = await cluster.list("Cell", namespace)
    has_caller = any((body.get("spec") or {}).get("apiAccess") for body in bodies)
    records = await _records(cluster, cell, fresh=has_caller)
    if not has_parent and not has_caller and not records.limits:
        return NO_ANCESTRY
    cells = _readable(bodies)
    teams = [
        shared_reads.parse_resource(Formation, body)
        for body in await cluster.list("Formation", namespace)
    ]
    of_formations = spawn_limits.formation_cell_names(
        cells, [team for team in teams if isinstance(team, Formation)]
    )
    recorded = [
        relative
        if relative.metadata.name in of_formations
        else spawn_limit_records.as_recorded(relative, records)
        for relative in cells
    ]
    return Ancestry(
        recorded,
        of_formations=of_formations,
        approvals=await _approvals(cluster, recorded),
        records=records,
    )


async def _records(cluster: Cluster, cell: Cell, *, fresh: bool) -> Records:
    return spawn_limit_records.read(
        await cluster.get(spawn_limit_records.holder_ref(cell), fresh=fresh)
    )


async def _cells(cluster: Cluster, namespace: str) -> tuple[Cell, ...]:
    return _readable(await cluster.list("Cell", namespace))


def _readable(bodies: Sequence[Body]) -> tuple[Cell, ...]:
    parsed = [shared_reads.parse_resource(Cell, body) for body in bodies]
    return tuple(relative for relative in parsed if isinstance(relative, Cell))


async def _approvals(cluster: Cluster, cells: Sequence[Cell]) -> dict[str, frozenset[str]]:
    """Read which cells the accounts of parents approve, where that is required.

    No watch reports these annotations.
    """
    approvals: dict[str, frozenset[str]] = {}
    for cell in cells:
        recursion, account = cell.spec.recursion, cell_identity.account_name(cell)
        needs_approval = recursion and recursion.spawn_policy is SpawnPolicy.APPROVAL_REQUIRED
        if not needs_approval or account in approvals:
            continue
        ref = ObjectRef("ServiceAccount", cell.metadata.namespace, account)
        body = await cluster.get(ref, fresh=True) or {"metadata": {}}
        text = (body["metadata"].get("annotations") or {}).get(labels.APPROVED_CELLS, "")
        approvals[account] = frozenset(re.split(r"[\s,]+", text.strip()))
    return approvals
