"""Whether a cell that another cell made may be: the limits of all cells above it.

Nobody asks before a Cell is created, so twenty may be created at once. The oldest are within the
limits and the others are refused, whoever is looked at first: the order decides, not the moment.

What a cell wrote about a Cell that it made decides nothing:

    admission policy in force      kais.io/created-by is true, for every creator who may not approve
                                   cells; all cells that run under that account are the parents
    no policy                      every older cell that may call the Kubernetes API is a parent;
                                   approvals stand on its ServiceAccount, labels do not count
In both cases a parentRef adds a parent and takes none away. A Cell of a Formation was made by the
operator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kais import labels
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.workload import Recursion, SpawnPolicy
from kais_operator.decide.cells import placing
from kais_operator.decide.formations import formation as formations


@dataclass(frozen=True)
class Kin:
    """The cells among which one was made, and what else tells who made it.

    Attributes:
        cells: the cells of the namespace that are not being deleted.
        has_policy: whether the admission policy of the chart is in force.
        of_formations: names of the cells that the operator made; needed without the policy.
        approvals: names of Cells that each ServiceAccount's annotation approves, by account;
            needed without the policy.
    """

    cells: Sequence[Cell] = ()
    has_policy: bool = False
    of_formations: frozenset[str] = frozenset()
    approvals: Mapping[str, frozenset[str]] = field(default_factory=dict)


NO_KIN = Kin()


def of_formations(cells: Iterable[Cell], teams: Iterable[Formation]) -> frozenset[str]:
    """Name the cells that the operator made: their controller lists them in its spec.

    An owner reference alone proves nothing, since the creator of a Cell may write it.
    """
    by_uid = {team.metadata.uid: team for team in teams}
    return frozenset(
        cell.metadata.name
        for cell in cells
        if (team := by_uid.get(cell.metadata.controller_uid or "")) is not None
        and formations.is_wanted(team, cell.metadata.name)
    )


def creator(cell: Cell) -> str | None:
    """Give the ServiceAccount of the namespace that created a Cell, as the policy vouches for."""
    user = cell.metadata.annotations.get(labels.CREATED_BY, "")
    prefix = f"system:serviceaccount:{cell.metadata.namespace}:"
    return user.removeprefix(prefix) if user.startswith(prefix) else None


def problem(cell: Cell, kin: Kin) -> str | None:
    """Say why a cell may not have been made; None when it may, or when no cell made it.

    A parent that is gone has no limits any more.
    """
    family = _Family(cell, kin)
    for name, generation in family.above(cell).items():
        refusal = _refusal(cell, family.by_name[name], generation, family)
        if refusal is not None:
            return refusal
    return None


def _refusal(cell: Cell, ancestor: Cell, generation: int, family: _Family) -> str | None:
    limits = _limits(ancestor)
    refusal = _policy_problem(cell, ancestor, family.kin) if generation == 1 else None
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


def _policy_problem(cell: Cell, parent: Cell, kin: Kin) -> str | None:
    policy = _limits(parent).spawn_policy
    if policy is SpawnPolicy.DISABLED:
        return f"{parent.ref} may make no cells (spawnPolicy: disabled)"
    is_labelled = kin.has_policy and labels.BLUEPRINT in cell.metadata.labels
    if policy is SpawnPolicy.BLUEPRINT_ONLY and not is_labelled:
        return f"{parent.ref} makes cells of Blueprints only (spawnPolicy: blueprint_only)"
    if policy is SpawnPolicy.APPROVAL_REQUIRED:
        return _approval_problem(cell, parent, kin)
    return None


def _approval_problem(cell: Cell, parent: Cell, kin: Kin) -> str | None:
    need = f"cells that {parent.ref} makes need approval (spawnPolicy: approval_required)"
    if kin.has_policy:
        is_approved = cell.metadata.annotations.get(labels.APPROVED) == labels.APPROVED_YES
        advice = f'annotate this one {labels.APPROVED}: "{labels.APPROVED_YES}"'
    else:
        account = placing.account_name(parent)
        is_approved = cell.metadata.name in kin.approvals.get(account, frozenset())
        advice = (
            f"add {cell.metadata.name} to {labels.APPROVED_CELLS} of ServiceAccount"
            f"/{cell.metadata.namespace}/{account}"
        )
    return None if is_approved else f"{need}; {advice}"


class _Family:
    """The cells of a namespace with the parents of each, indexed so that no look is quadratic."""

    def __init__(self, cell: Cell, kin: Kin) -> None:
        self.kin = kin
        self.by_name = {one.metadata.name: one for one in kin.cells} | {cell.metadata.name: cell}
        self._by_account: dict[str, list[str]] = {}
        for one in self.by_name.values():
            self._by_account.setdefault(placing.account_name(one), []).append(one.metadata.name)
        self._callers = [one for one in self.by_name.values() if one.spec.api_access]

    def above(self, cell: Cell) -> dict[str, int]:
        """Give the names of the cells above, each with its generation, nearest first."""
        older = _Once(self._callers, key=_age)
        accounts: set[str] = set()

        def parents(name: str) -> Iterator[str]:
            one = self.by_name[name]
            if one.spec.parent_ref is not None and one.spec.parent_ref in self.by_name:
                yield one.spec.parent_ref
            account = creator(one) or ""
            if self.kin.has_policy and account not in accounts:
                accounts.add(account)
                yield from self._by_account.get(account, ())
            elif not self.kin.has_policy and name not in self.kin.of_formations:
                yield from older.up_to(one)

        return _reached(cell.metadata.name, parents)

    def rank(self, cell: Cell, ancestor: Cell) -> int:
        """Count the cells below an ancestor up to this one, oldest first."""
        younger = _Once(self._free, key=_age, is_descending=True)
        accounts: set[str] = set()

        def children(name: str) -> Iterator[str]:
            one, account = self.by_name[name], placing.account_name(self.by_name[name])
            yield from self._by_parent.get(name, ())
            if self.kin.has_policy and account not in accounts:
                accounts.add(account)
                yield from self._by_creator.get(account, ())
            elif not self.kin.has_policy and one.spec.api_access:
                yield from younger.up_to(one)

        below = _reached(ancestor.metadata.name, children)
        return 1 + sum(_age(self.by_name[name]) < _age(cell) for name in below)

    @functools.cached_property
    def _by_parent(self) -> dict[str, list[str]]:
        return _grouped(self.by_name.values(), lambda cell: cell.spec.parent_ref)

    @functools.cached_property
    def _by_creator(self) -> dict[str, list[str]]:
        return _grouped(self.by_name.values(), creator)

    @functools.cached_property
    def _free(self) -> list[Cell]:
        """The cells that no Formation lists."""
        cells = self.by_name.values()
        return [one for one in cells if one.metadata.name not in self.kin.of_formations]


class _Once:
    """Cells in an order, each given to the first who asks for those before its own place."""

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
        """Give the names of the cells before `end` that are still free."""
        while self._next < len(self._cells):
            cell = self._cells[self._next]
            one, last = self._key(cell), self._key(end)
            if not (one > last if self._is_descending else one < last):
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


def _reached(start: str, neighbours: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """Give what is reached from a name, each with its fewest steps; a circle ends there.

    `neighbours` may leave out what it gave before: that was reached in no more steps.
    """
    steps, row = {start: 0}, [start]
    while row:
        following = []
        for name in row:
            for other in neighbours(name):
                if other not in steps:
                    steps[other] = steps[name] + 1
                    following.append(other)
        row = following
    del steps[start]
    return steps


def _limits(cell: Cell) -> Recursion:
    return cell.spec.recursion or Recursion()


def _age(cell: Cell) -> tuple[str, str]:
    created = cell.metadata.creation_timestamp
    return (created.isoformat() if created else "", cell.metadata.name)
