"""Deleted cells that could create cells: their recorded limits still apply to their descendants.

Without the admission policy, the operator cannot know who deleted a Cell: a person, or a cell below
it that wants to lose its limits. So the recorded limits of a deleted Cell still apply to Cells that
were created while it existed, or within `AFTERMATH` of the moment in which the operator missed it,
and to the Cells below these. They apply as long as one of these Cells exists. A person ends that by
removing the record.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kais.resources.cell import Cell
from kais.resources.cell_template import Recursion, SpawnPolicy
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.formation.decide import spawn_records
from kais_operator.controllers.formation.decide.spawn_records import Limits, Records

AFTERMATH = timedelta(hours=1)
"""An arbitrary time, far longer than the 30 s that a pod of a deleted Cell has to end."""


@dataclass(frozen=True)
class DeletedParent:
    """A deleted Cell whose limits still apply.

    Attributes:
        cell: the Cell as recorded.
        until: the latest creation time of Cells below it; None until its deletion is recorded.
    """

    cell: Cell
    until: datetime | None

    def is_above(self, cell: Cell) -> bool:
        """Whether a Cell was created while this one, or a pod of it, existed."""
        created, began = cell.metadata.creation_timestamp, self.cell.metadata.creation_timestamp
        if created is None or began is None or created <= began:
            return False
        return self.until is None or created <= self.until


def from_records(cell: Cell, records: Records, cells: Iterable[Cell]) -> tuple[DeletedParent, ...]:
    """Return the recorded Cells that are not in `cells`; `cell` is any Cell of the namespace."""
    present = {one.metadata.name for one in cells} | {cell.metadata.name}
    return tuple(
        DeletedParent(_as_cell(cell, name, limits, limits.recursion), _until(limits))
        for name, limits in records.limits.items()
        if name not in present and limits.recursion is not None and limits.created is not None
    )


def changed_records(
    records: Records, cells: Sequence[Cell], of_formations: frozenset[str], now: datetime
) -> dict[str, str | None]:
    """Return the changed records, by annotation: noted deletions, and None for obsolete records."""
    present = {one.metadata.name for one in cells}
    births = _births(records, cells, of_formations)
    changes: dict[str, str | None] = {}
    for name, limits in records.limits.items():
        until = _until(limits)
        if name in present:
            if limits.missing_since is not None:
                changes |= spawn_records.annotation(name, limits, missing_since=None)
        elif limits.created is None or _is_implied(limits, records, cells):
            changes[spawn_records.limits_key(name)] = None
        elif until is None:
            changes |= spawn_records.annotation(name, limits, missing_since=now)
        elif until < now and not _has_birth(births, limits.created, until):
            changes[spawn_records.limits_key(name)] = None
    return changes


def _as_cell(other: Cell, name: str, limits: Limits, recursion: Recursion | None) -> Cell:
    metadata: dict[str, Any] = {
        "name": name,
        "uid": limits.uid,
        "creation_timestamp": limits.created,
        "labels": {},
        "annotations": {},
        "owner_references": [],
    }
    spec = {
        "api_access": True,
        "service_account_name": limits.account,
        "recursion": recursion,
        "parent_ref": None,
    }
    return other.model_copy(
        update={
            "metadata": other.metadata.model_copy(update=metadata),
            "spec": other.spec.model_copy(update=spec),
        }
    )


def _until(limits: Limits) -> datetime | None:
    return None if limits.missing_since is None else limits.missing_since + AFTERMATH


def _births(
    records: Records, cells: Iterable[Cell], of_formations: frozenset[str]
) -> list[datetime]:
    """Return the sorted creation times of Cells that may be below a deleted one."""
    free = (one for one in cells if one.metadata.name not in of_formations)
    births = [one.metadata.creation_timestamp for one in free]
    births += [limits.created for limits in records.limits.values()]
    return sorted(birth for birth in births if birth is not None)


def _has_birth(births: Sequence[datetime], after: datetime, until: datetime) -> bool:
    return bisect.bisect_right(births, after) < bisect.bisect_right(births, until)


def _is_implied(limits: Limits, records: Records, cells: Iterable[Cell]) -> bool:
    """Whether an older existing Cell has limits that are at least as tight."""
    if limits.recursion is None or limits.created is None:
        return False
    return any(
        one.spec.api_access
        and (since := spawn_records.since(one, records)) is not None
        and since <= limits.created
        and _is_as_tight(one, limits, limits.recursion)
        for one in cells
    )


def _is_as_tight(cell: Cell, limits: Limits, recursion: Recursion) -> bool:
    own = cell.spec.recursion or Recursion()
    if own.max_depth > recursion.max_depth or own.max_descendants > recursion.max_descendants:
        return False
    match recursion.spawn_policy:
        case SpawnPolicy.OPEN:
            return True
        case SpawnPolicy.APPROVAL_REQUIRED:
            account = cell_identity.account_name(cell)
            return own.spawn_policy is recursion.spawn_policy and account == limits.account
    return own.spawn_policy is recursion.spawn_policy


def note(parents: Mapping[str, DeletedParent], cell: Cell) -> str:
    """Describe why a deleted Cell limits others, and how a person ends that; empty for others."""
    if cell.metadata.name not in parents:
        return ""
    return (
        f" ({cell.ref} is deleted; its limits hold for Cells created until an hour after. To end "
        f"them, remove the annotation {spawn_records.limits_key(cell.metadata.name)} of "
        f"ServiceAccount {spawn_records.holder_name(cell)})"
    )
