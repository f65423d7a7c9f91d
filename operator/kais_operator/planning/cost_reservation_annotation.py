"""What open runs may still cost: an annotation of the object whose limits they share.

A run reserves before its attempt starts. Its entry is dropped after its cost is counted on the
cell, so between the two writes its cost counts twice, but it is never left out. Entries do not
expire, so a clock that jumps releases nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from kais import labels
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import ObjectRef, PatchMetadata, Plan

MAX_RESERVATIONS = 500
"""The maximum number of entries; with ordinary names, less than half of an annotation's limit."""

Account = Formation | Cell


@dataclass(frozen=True, order=True)
class Reservation:
    """The reservation of one run for one cell, in US dollars.

    Attributes:
        run_id: the run.
        cell: name of the Cell.
        mission: name of the Mission, in the namespace of the cell.
        spent: what the run had cost on the cell when the entry was written.
        reserved: what its open attempt may cost in addition.
    """

    run_id: str
    cell: str
    mission: str
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)

    @property
    def total(self) -> Decimal:
        """The amount that counts for the run until it has ended."""
        return self.spent + self.reserved


def read(account: Account) -> tuple[Reservation, ...]:
    """Read the entries of an object, in their order.

    Empty when the annotation is not valid, or was copied from another object.
    """
    try:
        value = annotation_values.parse(account.metadata.annotations.get(labels.RESERVATIONS))
        if value is None or value["uid"] != account.metadata.uid:
            return ()
        entries = tuple(_parse(*entry) for entry in value["runs"][:MAX_RESERVATIONS])
    except annotation_values.BROKEN:
        return ()
    return tuple(sorted(entries))


def write(account: Account, reservations: Iterable[Reservation]) -> PatchMetadata:
    """Return the write that replaces the entries, on exactly the version that was observed."""
    metadata = account.metadata
    entries = sorted(reservations)
    return PatchMetadata(
        ObjectRef(account.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={labels.RESERVATIONS: _dump(metadata.uid, entries) if entries else None},
    )


def without(account: Account, run_ids: Collection[str]) -> PatchMetadata:
    """Return the write that drops the entries of these runs."""
    return write(account, (entry for entry in read(account) if entry.run_id not in run_ids))


def release_vanished(plan: Plan, account: Account, run_ids: Collection[str]) -> Plan:
    """Append the write that drops entries of vanished runs; a refusal then stops no other write.

    A Plan that patches the object already is left as it is: the next one drops the entries.
    """
    if not run_ids or account.is_deleting:
        return plan
    release = without(account, run_ids)
    if any(isinstance(a, PatchMetadata) and a.ref == release.ref for a in plan.actions):
        return plan
    return replace(plan, actions=(*plan.actions, release))


def _dump(uid: str, reservations: Sequence[Reservation]) -> str:
    entries = [
        [entry.run_id, entry.cell, entry.mission, f"{entry.spent:f}", f"{entry.reserved:f}"]
        for entry in reservations
    ]
    return json.dumps({"uid": uid, "runs": entries}, sort_keys=True, separators=(",", ":"))


def _parse(run_id: str, cell: str, mission: str, spent: str, reserved: str) -> Reservation:
    return Reservation(
        annotation_values.parse_text(run_id),
        annotation_values.parse_text(cell),
        annotation_values.parse_text(mission),
        annotation_values.parse_cost(spent),
        annotation_values.parse_cost(reserved),
    )
