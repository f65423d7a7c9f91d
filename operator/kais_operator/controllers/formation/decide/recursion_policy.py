"""Decide whether a cell that another cell created is within the limits of all cells above it.

No limit is checked before a Cell is created, so twenty may be created at once. The oldest are
within the limits and the others are refused, whichever is reconciled first: the order decides, not
the moment.

What a cell wrote about a Cell that it created decides nothing:

    admission policy in force      kais.io/created-by is true, for every creator who may not approve
                                   cells; all cells that run under that account are the parents, and
                                   the recorded ancestors of the account stay above
    no policy                      every older cell that may call the Kubernetes API is a parent,
                                   with its recorded limits and age, and for a while after its
                                   deletion; approvals are annotations of its ServiceAccount, and
                                   labels do not count

In both cases a parentRef adds a parent and removes none. The operator created the Cells of a
Formation. A Cell that is being deleted counts, and limits others, until it is gone, because a
finalizer may keep it while its pods run. `spawn_records` reads and writes the records.
"""

from __future__ import annotations

import bisect
import functools
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kais import labels
from kais.resources.cell import Cell
from kais.resources.cell_template import Recursion, SpawnPolicy
from kais.resources.formation import Formation
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.formation.decide import deleted_parents, spawn_records
from kais_operator.controllers.formation.decide import formation as formations
from kais_operator.controllers.formation.decide.deleted_parents import DeletedParent
from kais_operator.controllers.formation.decide.spawn_records import NO_RECORDS, Records
from kais_operator.planning.plan import Action


@dataclass(frozen=True)
class Kin:
    """The cells that may have created a cell, and the evidence for that.

    Attributes:
        cells: the cells of the namespace, including those that are being deleted.
        has_policy: whether the admission policy of the chart is in force.
        of_formations: names of the cells that the operator created; needed without the policy.
        approvals: names of Cells that each ServiceAccount's annotation approves, by account;
            needed without the policy.
        records: earlier records of the operator; without the policy, `cells` are as recorded.
        deleted: deleted Cells whose recorded limits still apply; only without the policy.
    """

    cells: Sequence[Cell] = ()
    has_policy: bool = False
    of_formations: frozenset[str] = frozenset()
    approvals: Mapping[str, frozenset[str]] = field(default_factory=dict)
    records: Records = NO_RECORDS
    deleted: Sequence[DeletedParent] = ()


NO_KIN = Kin()


def of_formations(cells: Iterable[Cell], teams: Iterable[Formation]) -> frozenset[str]:
    """Return the names of the cells that the operator created: their controller declares them.

    An owner reference alone proves nothing, because the creator of a Cell may write it.
    """
    by_uid = {team.metadata.uid: team for team in teams}
    return frozenset(
        cell.metadata.name
        for cell in cells
        if (team := by_uid.get(cell.metadata.controller_uid or "")) is not None
        and formations.is_desired(team, cell.metadata.name)
    )


def problem(cell: Cell, kin: Kin) -> str | None:
    """Return why a cell may not have been created; None when it may, or no cell created it.

    With the policy, a deleted parent has no limits any more: only its creator may delete it.
    """
    family = _Family(cell, kin)
    for name, generation in family.above(cell).cells.items():
        refusal = _refusal(cell, family.by_name[name], generation, family)
        if refusal is not None:
            return refusal
    return None


def record(cell: Cell, kin: Kin, now: datetime) -> tuple[Action, ...]:
    """Record what a Cell that may have pods must not be able to change later."""
    if cell.metadata.name in kin.of_formations or not kin.cells:
        return ()
    if kin.has_policy:
        above = _Family(cell, kin).above(cell).accounts
        return spawn_records.record_ancestors(cell, above, kin.records, kin.cells)
    changes = deleted_parents.changed_records(kin.records, kin.cells, kin.of_formations, now)
    return spawn_records.record_limits(
        cell, kin.records, kin.cells, of_formations=kin.of_formations, changes=changes
    )


def record_deletions(cell: Cell, kin: Kin, now: datetime) -> tuple[Action, ...]:
    """Record which Cells are deleted, for a Cell that may have no pods."""
    if kin.has_policy or not kin.cells:
        return ()
    changes = deleted_parents.changed_records(kin.records, kin.cells, kin.of_formations, now)
    return spawn_records.write(cell, kin.records, changes)


def _refusal(cell: Cell, ancestor: Cell, generation: int, family: _Family) -> str | None:
    limits = _limits(ancestor)
    refusal = _policy_problem(cell, ancestor, family.kin) if generation == 1 else None
    if refusal is None and generation > limits.max_depth:
        refusal = (
            f"{ancestor.ref} allows {limits.max_depth} generations of cells below it, and this "
            f"is generation {generation}"
        )
    may_exceed = len(family.by_name) - len(family.deleted) > limits.max_descendants
    if refusal is None and may_exceed and family.rank(cell, ancestor) > limits.max_descendants:
        refusal = (
            f"{ancestor.ref} allows {limits.max_descendants} cells below it, and as many are "
            "older than this one"
        )
    return refusal and refusal + deleted_parents.note(family.deleted, ancestor)


def _policy_problem(cell: Cell, parent: Cell, kin: Kin) -> str | None:
    policy = _limits(parent).spawn_policy
    if policy is SpawnPolicy.DISABLED:
        return f"{parent.ref} may not create cells (spawnPolicy: disabled)"
    is_labelled = kin.has_policy and labels.BLUEPRINT in cell.metadata.labels
    if policy is SpawnPolicy.BLUEPRINT_ONLY and not is_labelled:
        return f"{parent.ref} may create cells of Blueprints only (spawnPolicy: blueprint_only)"
    if policy is SpawnPolicy.APPROVAL_REQUIRED:
        return _approval_problem(cell, parent, kin)
    return None


def _approval_problem(cell: Cell, parent: Cell, kin: Kin) -> str | None:
    need = f"cells that {parent.ref} creates need approval (spawnPolicy: approval_required)"
    if kin.has_policy:
        is_approved = cell.metadata.annotations.get(labels.APPROVED) == labels.APPROVED_YES
        advice = f'annotate this one {labels.APPROVED}: "{labels.APPROVED_YES}"'
    else:
        account = cell_identity.account_name(parent)
        is_approved = cell.metadata.name in kin.approvals.get(account, frozenset())
        advice = (
            f"add {cell.metadata.name} to {labels.APPROVED_CELLS} of ServiceAccount"
            f"/{cell.metadata.namespace}/{account}"
        )
    return None if is_approved else f"{need}; {advice}"


class _Family:
    """The cells of a namespace and their parents, with indexes so that no search is quadratic."""

    def __init__(self, cell: Cell, kin: Kin) -> None:
        self.kin = kin
        self.deleted = {one.cell.metadata.name: one for one in kin.deleted}
        self.by_name = {
            **{name: one.cell for name, one in self.deleted.items()},
            **{one.metadata.name: one for one in kin.cells},
            cell.metadata.name: cell,
        }
        self._by_account: dict[str, list[str]] = {}
        for one in self.by_name.values():
            self._by_account.setdefault(cell_identity.account_name(one), []).append(
                one.metadata.name
            )
        self._callers = [
            one
            for name, one in self.by_name.items()
            if one.spec.api_access and name not in self.deleted
        ]

    def above(self, cell: Cell) -> _Relatives:
        """Return the cells above and the accounts that created them, with their generations."""
        older = _Once(self._callers, key=self._since)
        deleted = dict(self.deleted)

        def parents(node: _Node) -> Iterator[tuple[_Node, int]]:
            if node.is_account:
                yield from ((_Node(name), 0) for name in self._by_account.get(node.name, ()))
                recorded = self.kin.records.ancestors.get(node.name, {})
                yield from ((_Node(name, True), steps) for name, steps in recorded.items())
                return
            one = self.by_name[node.name]
            if one.spec.parent_ref is not None and one.spec.parent_ref in self.by_name:
                yield _Node(one.spec.parent_ref), 1
            account = spawn_records.creator(one)
            if self.kin.has_policy and account is not None:
                yield _Node(account, True), 1
            elif not self.kin.has_policy and node.name not in self.kin.of_formations:
                yield from ((_Node(name), 1) for name in older.up_to(_age(one)))
                for name in [name for name, parent in deleted.items() if parent.is_above(one)]:
                    del deleted[name]
                    yield _Node(name), 1

        return _reached(cell.metadata.name, parents)

    def rank(self, cell: Cell, ancestor: Cell) -> int:
        """Return the rank of a cell by age among all cells below an ancestor; the oldest has 1."""
        younger = _Once(self._free, key=_age, is_descending=True)
        births = _Births(self._births)

        def children(node: _Node) -> Iterator[tuple[_Node, int]]:
            if node.is_account:
                yield from ((_Node(name), 1) for name in self._by_creator.get(node.name, ()))
                yield from ((_Node(name, True), 1) for name in self._below.get(node.name, ()))
                return
            one = self.by_name[node.name]
            yield from ((_Node(name), 1) for name in self._by_parent.get(node.name, ()))
            if node.name in self.deleted:
                yield from ((_Node(name), 1) for name in births.take(self.deleted[node.name]))
            elif self.kin.has_policy:
                yield _Node(cell_identity.account_name(one), True), 0
            elif one.spec.api_access:
                yield from ((_Node(name), 1) for name in younger.up_to(self._since(one)))

        below = _reached(ancestor.metadata.name, children).cells
        present = (self.by_name[name] for name in below if name not in self.deleted)
        return 1 + sum(_age(one) < _age(cell) for one in present)

    def _since(self, cell: Cell) -> tuple[str, str]:
        """Return the age of a cell as a parent, in the form of `_age`."""
        since = None if self.kin.has_policy else spawn_records.since(cell, self.kin.records)
        return _age(cell) if since is None else (since.isoformat(), cell.metadata.name)

    @functools.cached_property
    def _by_parent(self) -> dict[str, list[str]]:
        return _grouped(self.by_name.values(), lambda cell: cell.spec.parent_ref)

    @functools.cached_property
    def _by_creator(self) -> dict[str, list[str]]:
        return _grouped(self.by_name.values(), spawn_records.creator)

    @functools.cached_property
    def _below(self) -> dict[str, list[str]]:
        """The accounts whose recorded ancestors include each account."""
        below: dict[str, list[str]] = {}
        for account, above in self.kin.records.ancestors.items():
            for name in above:
                below.setdefault(name, []).append(account)
        return below

    @functools.cached_property
    def _births(self) -> list[tuple[datetime, str]]:
        """The creation times of the cells that no Formation lists, in order."""
        metadata = [one.metadata for one in self._free]
        return sorted(
            (each.creation_timestamp, each.name) for each in metadata if each.creation_timestamp
        )

    @functools.cached_property
    def _free(self) -> list[Cell]:
        """The cells that no Formation lists."""
        cells = self.by_name.values()
        return [one for one in cells if one.metadata.name not in self.kin.of_formations]


class _Births:
    """Cells by creation time; each is returned once, for the first deleted parent above it."""

    def __init__(self, births: Sequence[tuple[datetime, str]]) -> None:
        self._births = list(births)

    def take(self, parent: DeletedParent) -> list[str]:
        """Remove and return the names of the remaining cells below a deleted parent."""
        began = parent.cell.metadata.creation_timestamp
        if began is None:
            return []
        first = bisect.bisect_right(self._births, began, key=_birth)
        end = len(self._births)
        if parent.until is not None:
            end = bisect.bisect_right(self._births, parent.until, key=_birth)
        names = [name for _, name in self._births[first:end]]
        del self._births[first:end]
        return names


def _birth(entry: tuple[datetime, str]) -> datetime:
    return entry[0]


class _Once:
    """Sorted cells; each is returned once, to the first caller whose limit lies after it."""

    def __init__(
        self,
        cells: Iterable[Cell],
        *,
        key: Callable[[Cell], tuple[str, str]],
        is_descending: bool = False,
    ) -> None:
        self._cells = sorted(cells, key=key, reverse=is_descending)
        self._key = key
        self._is_descending = is_descending
        self._next = 0

    def up_to(self, end: tuple[str, str]) -> Iterator[str]:
        """Yield the names of the remaining cells before `end`."""
        while self._next < len(self._cells):
            cell = self._cells[self._next]
            key = self._key(cell)
            if not (key > end if self._is_descending else key < end):
                return
            self._next += 1
            yield cell.metadata.name


def _grouped(cells: Iterable[Cell], group_of: Callable[[Cell], str | None]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for cell in cells:
        group = group_of(cell)
        if group is not None:
            groups.setdefault(group, []).append(cell.metadata.name)
    return groups


class _Node(NamedTuple):
    """A cell or an account in the graph of parents."""

    name: str
    is_account: bool = False


@dataclass(frozen=True)
class _Relatives:
    """The cells and accounts reached from a cell, each with its fewest generations."""

    cells: Mapping[str, int]
    accounts: Mapping[str, int]


def _reached(start: str, neighbours: Callable[[_Node], Iterable[tuple[_Node, int]]]) -> _Relatives:
    """Search along the shortest paths, nearest first; cycles end the search.

    `neighbours` may omit nodes that it returned before: they were reached in no more steps.
    """
    steps: dict[_Node, int] = {}
    waiting = [(0, _Node(start))]
    while waiting:
        distance, node = heapq.heappop(waiting)
        if node in steps:
            continue
        steps[node] = distance
        for other, step in neighbours(node):
            if other not in steps:
                heapq.heappush(waiting, (distance + step, other))
    del steps[_Node(start)]
    return _Relatives(
        cells={node.name: n for node, n in steps.items() if not node.is_account},
        accounts={node.name: n for node, n in steps.items() if node.is_account},
    )


def _limits(cell: Cell) -> Recursion:
    return cell.spec.recursion or Recursion()


def _age(cell: Cell) -> tuple[str, str]:
    created = cell.metadata.creation_timestamp
    return (created.isoformat() if created else "", cell.metadata.name)
