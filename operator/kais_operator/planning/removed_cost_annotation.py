"""What the cells that a Formation removed had cost: an annotation of the Formation.

    before a cell is deleted   -> an entry with its UID and what it has cost
    while the cell exists      -> its own annotation counts, and not the entry
    when the cell is gone      -> the entry counts; the next write adds it to the sum

So a write that is repeated counts nothing twice, and a cell that is created again under the same
name has an entry of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from kais import labels
from kais.agent_results import AgentUsage
from kais.resources.formation import Formation
from kais_operator.planning import annotation_values, cell_cost_annotation
from kais_operator.planning.cell_cost_annotation import CellUsage
from kais_operator.planning.plan import ObjectRef, PatchMetadata

MAX_LEAVING = 10
"""Cells with a cost that are removed at the same time. Each entry names at most 50 runs, so all
together take less than half of an annotation's limit.
"""


@dataclass(frozen=True)
class RemovedCosts:
    """The costs of removed cells.

    Attributes:
        gone: the sum over cells that are gone, and runs that ended after their cell was gone; None
            without any.
        leaving: what each cell had cost when it was about to be deleted, by UID.
    """

    gone: CellUsage | None = None
    leaving: Mapping[str, CellUsage] = field(default_factory=dict)

    def usages(self, present: Collection[str]) -> list[CellUsage]:
        """Return what counts beside the cells with these UIDs, which exist."""
        left = [usage for uid, usage in self.leaving.items() if uid not in present]
        return left if self.gone is None else [self.gone, *left]

    def cost(self, present: Collection[str]) -> Decimal:
        """Return the sum of the same, in US dollars."""
        return sum((usage.cost for usage in self.usages(present)), Decimal(0))

    def has(self, run_id: str) -> bool:
        """Whether a run is counted already, here or on a cell before it was removed."""
        return any(usage.has(run_id) for usage in self.usages(()))

    def add(self, run_id: str, usage: AgentUsage, *, ended_at: datetime) -> RemovedCosts:
        """Return the costs with one more run, whose cell is gone."""
        gone = self.gone or CellUsage()
        return replace(self, gone=gone.add(run_id, usage, ended_at=ended_at))

    def with_leaving(
        self, leaving: Mapping[str, CellUsage], *, present: Collection[str], now: datetime
    ) -> RemovedCosts:
        """Return the costs with cells that are about to be deleted; those gone join the sum."""
        kept = {uid: usage for uid, usage in self.leaving.items() if uid in present}
        gone = cell_cost_annotation.merge(self.usages(present), now)
        return RemovedCosts(gone, {**kept, **leaving})


def read(formation: Formation | None) -> RemovedCosts:
    """Read the costs; none when the annotation is not valid, or was copied from another object."""
    if formation is None:
        return RemovedCosts()
    try:
        value = annotation_values.parse(formation.metadata.annotations.get(labels.REMOVED_USAGE))
        if value is None or value["uid"] != formation.metadata.uid:
            return RemovedCosts()
        gone, leaving = value.get("gone"), value.get("leaving") or {}
        return RemovedCosts(
            cell_cost_annotation.parse(gone) if gone is not None else None,
            {uid: cell_cost_annotation.parse(usage) for uid, usage in leaving.items()},
        )
    except annotation_values.BROKEN:
        return RemovedCosts()


def write(formation: Formation, costs: RemovedCosts) -> PatchMetadata:
    """Return the write that replaces the costs, on exactly the version that was observed."""
    metadata = formation.metadata
    return PatchMetadata(
        ObjectRef(formation.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={labels.REMOVED_USAGE: _dump(metadata.uid, costs)},
    )


def _dump(uid: str, costs: RemovedCosts) -> str:
    leaving = {cell: cell_cost_annotation.to_value(usage) for cell, usage in costs.leaving.items()}
    gone = cell_cost_annotation.to_value(costs.gone) if costs.gone is not None else None
    value = {"uid": uid, "gone": gone, "leaving": leaving}
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
