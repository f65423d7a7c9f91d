"""Decide whether a cell that another cell created is within the limits of all cells above it.

No limit is checked before a Cell is created, so twenty may be created at once. The oldest are
within the limits and the others are refused, whichever is reconciled first: only the order of
creation decides.

What a cell wrote about a Cell that it created decides nothing:

    admission policy in force      kais.io/created-by is true, for every creator who may not approve
                                   cells; all cells that run under that account are the parents, and
                                   the recorded ancestors of the account stay above
    no policy                      every older cell that may call the Kubernetes API is a parent,
                                   with its recorded limits; approvals are annotations of its
                                   ServiceAccount, and labels do not count

In both cases a parentRef adds a parent and removes none. The operator created the Cells of a
Formation. A Cell that is being deleted counts, and limits others, until it is gone, because a
finalizer may keep it while its pods run. `spawn_limit_records` reads and writes the records.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kais import labels
from kais.resources.cell import Cell
from kais.resources.cell_template import Recursion, SpawnPolicy
from kais.resources.formation import Formation
from kais_operator.controllers.cell.decide import cell_identity, spawn_limit_records
from kais_operator.controllers.cell.decide.spawn_limit_records import NO_RECORDS, Records
from kais_operator.controllers.formation.decide import formation as formations
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Action


@dataclass(frozen=True)
class Ancestry:
    """The cells that may have created a cell, and the evidence for that.

    Attributes:
        cells: the cells of the namespace, including those that are being deleted.
        has_policy: whether the admission policy of the chart is in force.
        of_formations: names of the cells that the operator created; needed without the policy.
        approvals: names of Cells that each ServiceAccount's annotation approves, by account;
            needed without the policy.
        records: earlier records of the operator; without the policy, `cells` are as recorded.
    """

    cells: Sequence[Cell] = ()
    has_policy: bool = False
    of_formations: frozenset[str] = frozenset()
    approvals: Mapping[str, frozenset[str]] = field(default_factory=dict)
    records: Records = NO_RECORDS


NO_ANCESTRY = Ancestry()


def formation_cell_names(cells: Iterable[Cell], teams: Iterable[Formation]) -> frozenset[str]:
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


def find_violation(cell: Cell, ancestry: Ancestry) -> str | None:
    """Return why a cell may not have been created; None when it may, or no cell created it.

    The limits of a deleted parent no longer apply.
    """
    family = _Family(cell, ancestry)
    for name, generation in family.above(cell).cells.items():
        refusal = _refusal(cell, family.by_name[name], generation, family)
        if refusal is not None:
            return refusal
    return None


def approval_note(cell: Cell, ancestry: Ancestry) -> str | None:
    """Return who approved a cell whose creator requires it; None if no approval is needed."""
    if not (ancestry.has_policy and _is_approved(cell)):
        return None
    family = _Family(cell, ancestry)
    needs_approval = any(
        generation == 1
        and _limits(family.by_name[name]).spawn_policy is SpawnPolicy.APPROVAL_REQUIRED
        for name, generation in family.above(cell).cells.items()
    )
    if not needs_approval:
        return None
    author = annotation_values.parse_user_name(cell.metadata.annotations.get(labels.APPROVED_BY))
    return f"(approved by {author})" if author else "(approved; by whom is not on record)"


def record_actions(cell: Cell, ancestry: Ancestry) -> tuple[Action, ...]:
    """Record what a Cell that may have pods must not be able to change later."""
    if cell.metadata.name in ancestry.of_formations or not ancestry.cells:
        return ()
    if ancestry.has_policy:
        above = _Family(cell, ancestry).above(cell).accounts
        return spawn_limit_records.record_ancestors(cell, above, ancestry.records, ancestry.cells)
    return spawn_limit_records.record_limits(cell, ancestry.records, ancestry.cells)


def _refusal(cell: Cell, ancestor: Cell, generation: int, family: _Family) -> str | None:
    limits = _limits(ancestor)
    refusal = _policy_problem(cell, ancestor, family.ancestry) if generation == 1 else None
    if refusal is None and generation > limits.max_depth:
        refusal = (
            f"{ancestor.ref} allows {limits.max_depth} generations of cells below it, and this "
            f"is generation {generation}"
        )
    may_exceed = len(family.by_name) > limits.max_descendants
    if refusal is None and may_exceed and family.rank(cell, ancestor) > limits.max_descendants:
        refusal = (
            f"{ancestor.ref} allows {limits.max_descendants} cells below it, and as many are "
            "older than this one"
        )
    return refusal


def _policy_problem(cell: Cell, parent: Cell, ancestry: Ancestry) -> str | None:
    policy = _limits(parent).spawn_policy
    if policy is SpawnPolicy.DISABLED:
        return f"{parent.ref} may not create cells (spawnPolicy: disabled)"
    is_labelled = ancestry.has_policy and labels.BLUEPRINT in cell.metadata.labels
    if policy is SpawnPolicy.BLUEPRINT_ONLY and not is_labelled:
        return f"{parent.ref} may create cells of Blueprints only (spawnPolicy: blueprint_only)"
    if policy is SpawnPolicy.APPROVAL_REQUIRED:
        return _approval_problem(cell, parent, ancestry)
    return None


def _approval_problem(cell: Cell, parent: Cell, ancestry: Ancestry) -> str | None:
    need = f"cells that {parent.ref} creates need approval (spawnPolicy: approval_required)"
    if ancestry.has_policy:
        is_approved = _is_approved(cell)
        advice = f"approve this one with `kais cell approve {cell.metadata.name}`"
    else:
        account = cell_identity.account_name(parent)
        is_approved = cell.metadata.name in ancestry.approvals.get(account, frozenset())
        advice = (
            f"add {cell.metadata.name} to {labels.APPROVED_CELLS} of ServiceAccount"
            f"/{cell.metadata.namespace}/{account}"
        )
    return None if is_approved else f"{need}; {advice}"


def _is_approved(cell: Cell) -> bool:
    return cell.metadata.annotations.get(labels.APPROVED) == labels.APPROVED_YES


class _Family:
    """The cells of a namespace and their parents, with indexes so that no search is quadratic."""

    def __init__(self, cell: Cell, ancestry: Ancestry) -> None:
        self.ancestry = ancestry
        self.by_name = {member.metadata.name: member for member in ancestry.cells} | {
            cell.metadata.name: cell
        }
        self._by_account: dict[str, list[str]] = {}
        for member in self.by_name.values():
            self._by_account.setdefault(cell_identity.account_name(member), []).append(
                member.metadata.name
            )
        self._callers = [member for member in self.by_name.values() if member.spec.api_access]

    def above(self, cell: Cell) -> _Relatives:
        """Return the cells above and the accounts that created them, with their generations."""
        older = _CellsByAge(self._callers, key=_age)

        def parents(node: _Node) -> Iterator[tuple[_Node, int]]:
            if node.is_account:
                yield from ((_Node(name), 0) for name in self._by_account.get(node.name, ()))
                recorded = self.ancestry.records.ancestors.get(node.name, {})
                yield from ((_Node(name, True), steps) for name, steps in recorded.items())
                return
            member = self.by_name[node.name]
            if member.spec.parent_ref is not None and member.spec.parent_ref in self.by_name:
                yield _Node(member.spec.parent_ref), 1
            account = spawn_limit_records.creator(member)
            if self.ancestry.has_policy and account is not None:
                yield _Node(account, True), 1
            elif not self.ancestry.has_policy and node.name not in self.ancestry.of_formations:
                yield from ((_Node(name), 1) for name in older.up_to(member))

        return _find_relatives(cell.metadata.name, parents)

    def rank(self, cell: Cell, ancestor: Cell) -> int:
        """Return the rank of a cell by age among all cells below an ancestor; the oldest has 1."""
        younger = _CellsByAge(self._free, key=_age, is_descending=True)

        def children(node: _Node) -> Iterator[tuple[_Node, int]]:
            if node.is_account:
                yield from ((_Node(name), 1) for name in self._by_creator.get(node.name, ()))
                yield from ((_Node(name, True), 1) for name in self._below.get(node.name, ()))
                return
            member = self.by_name[node.name]
            yield from ((_Node(name), 1) for name in self._by_parent.get(node.name, ()))
            if self.ancestry.has_policy:
                yield _Node(cell_identity.account_name(member), True), 0
            elif member.spec.api_access:
                yield from ((_Node(name), 1) for name in younger.up_to(member))

        below = _find_relatives(ancestor.metadata.name, children).cells
        return 1 + sum(_age(self.by_name[name]) < _age(cell) for name in below)

    @functools.cached_property
    def _by_parent(self) -> dict[str, list[str]]:
        return _grouped(self.by_name.values(), lambda cell: cell.spec.parent_ref)

    @functools.cached_property
    def _by_creator(self) -> dict[str, list[str]]:
        return _grouped(self.by_name.values(), spawn_limit_records.creator)

    @functools.cached_property
    def _below(self) -> dict[str, list[str]]:
        """The accounts whose recorded ancestors include each account."""
        below: dict[str, list[str]] = {}
        for account, above in self.ancestry.records.ancestors.items():
            for name in above:
                below.setdefault(name, []).append(account)
        return below

    @functools.cached_property
    def _free(self) -> list[Cell]:
        """The cells that no Formation lists."""
        cells = self.by_name.values()
        return [
            member for member in cells if member.metadata.name not in self.ancestry.of_formations
        ]


class _CellsByAge:
    """Cells by age, to iterate over once: each `up_to` continues where the last one ended."""

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

    def up_to(self, end: Cell) -> Iterator[str]:
        """Yield the names of the remaining cells before `end`."""
        while self._next < len(self._cells):
            cell = self._cells[self._next]
            key, last = self._key(cell), self._key(end)
            if not (key > last if self._is_descending else key < last):
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


def _find_relatives(
    start: str, neighbours: Callable[[_Node], Iterable[tuple[_Node, int]]]
) -> _Relatives:
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
        for neighbour, step in neighbours(node):
            if neighbour not in steps:
                heapq.heappush(waiting, (distance + step, neighbour))
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
