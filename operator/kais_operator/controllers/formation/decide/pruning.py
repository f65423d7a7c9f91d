"""Delete the Cells that a Formation no longer declares, and keep what they have cost.

Cells are pruned by inventory: those with the label of the formation and its UID as controller owner
that are no longer desired, the newest first. A budget counts what its team has spent in all, so the
cost of a cell is recorded on the Formation before the cell is deleted, and the cell is deleted only
as it was then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kais.resources.formation import Formation
from kais_operator.planning import cell_cost_annotation, children, removed_cost_annotation
from kais_operator.planning.cell_cost_annotation import CellUsage
from kais_operator.planning.plan import Action, Body, Delete
from kais_operator.planning.removed_cost_annotation import MAX_LEAVING


@dataclass(frozen=True)
class Pruning:
    """The writes that remove cells, and when to remove those that wait; None if none does."""

    actions: tuple[Action, ...] = ()
    requeue_after: timedelta | None = None


def prune(
    formation: Formation, cells: Mapping[str, Body], desired: Collection[str], now: datetime
) -> Pruning:
    """Choose the writes that remove the cells of a formation except those with desired names."""
    surplus = [body for body in _own(formation, cells.values()) if _name(body) not in desired]
    if not surplus:
        return Pruning()
    surplus.sort(key=_creation_order, reverse=True)
    costs = removed_cost_annotation.read(formation)
    spent = {_uid(body): usage for body in surplus if (usage := _usage(body)) is not None}
    leaving = _leaving(spent, costs.leaving)
    actions: list[Action] = []
    if any(costs.leaving.get(uid) != usage for uid, usage in leaving.items()):
        present = {_uid(body) for body in _own(formation, cells.values())}
        recorded = costs.with_leaving(leaving, present=present, now=now)
        actions.append(removed_cost_annotation.write(formation, recorded))
    removed = [body for body in surplus if _uid(body) not in spent or _uid(body) in leaving]
    actions += [_delete(body) for body in removed if "deletionTimestamp" not in body["metadata"]]
    waits = len(removed) < len(surplus)
    return Pruning(tuple(actions), timedelta(seconds=1) if waits else None)


def usages(formation: Formation, cells: Mapping[str, Body]) -> list[CellUsage]:
    """Return what the present cells of a formation, and those that it removed, have cost."""
    own = list(_own(formation, cells.values()))
    present = [usage for body in own if (usage := _usage(body)) is not None]
    removed = removed_cost_annotation.read(formation)
    return [*present, *removed.usages({_uid(body) for body in own})]


def _leaving(spent: Mapping[str, CellUsage], recorded: Collection[str]) -> dict[str, CellUsage]:
    """Choose the cells that are removed now: those on record first, and then the newest."""
    uids = sorted(spent, key=lambda uid: uid not in recorded)
    return {uid: spent[uid] for uid in uids[:MAX_LEAVING]}


def _own(formation: Formation, bodies: Iterable[Body]) -> Iterable[Body]:
    uid = formation.metadata.uid
    return (body for body in bodies if children.controller_uid(body) == uid)


def _delete(body: Body) -> Delete:
    metadata = body["metadata"]
    version = metadata["resourceVersion"] if _has_mind(body) else None
    return Delete(children.ref_of(body), uid=metadata["uid"], resource_version=version)


def _has_mind(body: Body) -> bool:
    """Whether runs of the cell cost something."""
    return bool((body.get("spec") or {}).get("mind")) or _usage(body) is not None


def _usage(body: Body) -> CellUsage | None:
    return cell_cost_annotation.read_annotations(body["metadata"].get("annotations") or {})


def _uid(body: Body) -> str:
    return str(body["metadata"]["uid"])


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _creation_order(body: Body) -> tuple[str, str]:
    return (body["metadata"].get("creationTimestamp", ""), _name(body))
