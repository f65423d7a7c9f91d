"""Count the cost of ended runs on their cells, and compute what budgets leave to an attempt.

The writes that count a run are ordered so that they can be repeated after any interruption: first
the sum on the Cell, which names the run, then the release of its reservation, then a mark on the
Mission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from enum import Enum

from kais import budget_shares, labels
from kais.agent_results import AgentUsage
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.field_types import rfc3339
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_record
from kais_operator.controllers.mission.decide.attempt_state import Attempt
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam, NotReady
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import cell_cost_annotation, removed_cost_annotation
from kais_operator.planning.cell_cost_annotation import CellUsage
from kais_operator.planning.plan import ObjectRef, PatchMetadata

_UNIT = Decimal("1e-12")
"""The unit of budgets; tickets have at most 18 decimals, and `$1 / 3` has more."""
_MAX_BUDGET = Decimal(10**15)


@dataclass(frozen=True)
class Spending:
    """The cost so far, and the rest of the budgets when an attempt starts, in US dollars.

    Attributes:
        cell: what the cell has cost in all.
        cell_hour: what it has cost within the last hour.
        left: what mission and formation leave to the attempt; None without such a limit.
    """

    cell: Decimal = Decimal(0)
    cell_hour: Decimal = Decimal(0)
    left: Decimal | None = None


def is_counted(mission: Mission, run_id: str) -> bool:
    """Whether the cost of the run is part of the sum on its cell."""
    return mission.metadata.annotations.get(labels.USAGE_COUNTED) == run_id


@dataclass(frozen=True)
class CountWrites:
    """The next writes that count an ended run, in this order.

    Attributes:
        patches: of the cells, and of the object where the run has reserved.
        mark: the annotation of the Mission that ends the count; empty while other writes follow,
            and when nothing is left to count.
    """

    patches: tuple[PatchMetadata, ...] = ()
    mark: Mapping[str, str] = field(default_factory=dict)


def count_run(  # noqa: PLR0913 - each is one write, or decides about one
    mission: Mission,
    cell: Cell | None,
    run_outcome: RunOutcome,
    *,
    run_id: str,
    now: datetime,
    reviewer: Cell | None = None,
    formation: Formation | None = None,
    release: PatchMetadata | None = None,
) -> CountWrites:
    """Choose the next writes that count an ended run.

    `cell` is the entry cell, and `reviewer` the cell that reviewed its work; None if it is gone.
    What a cell that is gone has cost is counted on its `formation`.
    `release` drops what the run has reserved: after the cost is counted, and before the mark, so
    that no interruption leaves the run in neither sum.
    """
    if run_outcome.usage is None or is_counted(mission, run_id):
        return CountWrites(() if release is None else (release,))
    review = run_outcome.review_usage
    work = run_outcome.usage if review is None else run_outcome.usage - review
    ended_at = run_outcome.finished_at or now
    patches = []
    gone: AgentUsage | None = None
    # A cell that counted the run may have been removed since, and another one be the entry now.
    costs = removed_cost_annotation.read(formation)
    for counted_cell, usage in ((cell, work), (reviewer, review)):
        if usage is None or costs.has(run_id):
            continue
        if counted_cell is None:
            gone = usage if gone is None else gone + usage
            continue
        patch = _count_on(counted_cell, usage, run_id=run_id, ended_at=ended_at)
        patches += [patch] if patch is not None else []
    if formation is not None and not formation.is_deleting and gone is not None:
        costs = costs.add(run_id, gone, ended_at=ended_at)
        patches.append(removed_cost_annotation.write(formation, costs))
    if release is None:
        return CountWrites(tuple(patches), {labels.USAGE_COUNTED: run_id})
    return CountWrites(tuple(patches) or (release,))  # a cell may hold both, and is patched once


def _count_on(
    cell: Cell, usage: AgentUsage, *, run_id: str, ended_at: datetime
) -> PatchMetadata | None:
    """Choose the write that adds a run to the sum on a cell; None if the sum contains it."""
    counted = cell_cost_annotation.read(cell) or CellUsage()
    if counted.has(run_id):
        return None
    total = counted.add(run_id, usage, ended_at=ended_at)
    return PatchMetadata(
        ObjectRef(cell.kind, cell.metadata.namespace, cell.metadata.name),
        resource_version=cell.metadata.resource_version,
        annotations={labels.CELL_USAGE: cell_cost_annotation.dump(total)},
    )


def spending_of(
    mission: Mission,
    cell: Cell,
    team: MissionTeam,
    attempts: Sequence[Attempt],
    *,
    now: datetime,
    is_reviewer: bool = False,
) -> Spending:
    """Compute what is spent and left for the next attempt of a cell with a mind, or its review."""
    costs = RunCosts.of(attempts, is_reviewer=is_reviewer)
    counted = cell_cost_annotation.read(cell) or CellUsage()
    left = [limit.left(costs) for limit in _limits_of_team(mission, cell, team, now=now)]
    return Spending(
        counted.cost + costs.own, counted.cost_within_hour(now) + costs.own, least(left)
    )


@dataclass(frozen=True)
class RunCosts:
    """The costs of a run so far: on the cell that works next, and on all cells."""

    own: Decimal
    run: Decimal

    @classmethod
    def of(cls, attempts: Sequence[Attempt], *, is_reviewer: bool = False) -> RunCosts:
        """Add up the attempts and their reviews."""
        run_cost = _cost(attempt_record.run_usage(attempts))
        review_cost = _cost(attempt_record.review_usage(attempts))
        return cls(review_cost if is_reviewer else run_cost - review_cost, run_cost)


class Sharing(Enum):
    """The runs that share a limit."""

    RUN = "one run"
    CELL = "the runs of one cell"
    TEAM = "the runs of all cells"


@dataclass(frozen=True)
class Limit:
    """One limit on the cost of a run.

    Attributes:
        name: the field and the object that declares it.
        amount: US dollars.
        counted: the part of it that ended runs have used.
        sharing: whose runs share it.
        is_hourly: whether it is a limit within an hour.
    """

    name: str
    amount: Decimal
    counted: Decimal = Decimal(0)
    sharing: Sharing = Sharing.RUN
    is_hourly: bool = False

    def left(self, costs: RunCosts) -> Decimal:
        """Return what ended runs and this run leave of it; may be negative."""
        own_cost = costs.own if self.sharing is Sharing.CELL else costs.run
        return self.amount - self.counted - own_cost


def limits_of(mission: Mission, cell: Cell, team: MissionTeam, *, now: datetime) -> list[Limit]:
    """Return every limit on the work of a cell: of mission, formation and cell."""
    limits = _limits_of_team(mission, cell, team, now=now)
    counted, declared = cell_cost_annotation.read(cell) or CellUsage(), cell.spec.resources
    if declared is not None and declared.max_total_cost is not None:
        name = f"resources.maxTotalCost of {cell.ref}"
        total = Decimal(str(declared.max_total_cost))
        limits.append(Limit(name, total, counted.cost, Sharing.CELL))
    if declared is not None and declared.max_cost_per_hour is not None:
        name = f"resources.maxCostPerHour of {cell.ref}"
        hour = Decimal(str(declared.max_cost_per_hour))
        limits.append(Limit(name, hour, counted.cost_within_hour(now), Sharing.CELL, True))
    return limits


def _limits_of_team(
    mission: Mission, cell: Cell, team: MissionTeam, *, now: datetime
) -> list[Limit]:
    limits = []
    if mission.spec.budget is not None and mission.spec.budget.max_cost is not None:
        amount = Decimal(str(mission.spec.budget.max_cost))
        limits.append(Limit("budget.maxCost of the mission", amount))
    formation = team.formation
    total, per_hour = _total_limit(formation), _limit_per_hour(formation)
    if formation is not None and total is not None:
        counted = cell_cost_annotation.read(cell) or CellUsage()
        share = _share_of(formation, cell, team, total)
        field_name = f"budget.maxTotalCost of {formation.ref}"
        cost = sum((usage.cost for usage in _usages(team)), Decimal(0))
        limits.append(Limit(f"the share of {field_name}", share, counted.cost, Sharing.CELL))
        limits.append(Limit(field_name, total, cost, Sharing.TEAM))
    if formation is not None and per_hour is not None:
        cost = sum((usage.cost_within_hour(now) for usage in _usages(team)), Decimal(0))
        name = f"budget.maxCostPerHour of {formation.ref}"
        limits.append(Limit(name, per_hour, cost, Sharing.TEAM, is_hourly=True))
    return limits


def _cost(usage: AgentUsage | None) -> Decimal:
    return usage.cost if usage is not None else Decimal(0)


def left_to_service(cell: Cell, spending: Spending) -> Decimal | None:
    """Return what mission, formation and the limits of a Service cell leave to an attempt.

    A Task gets the limits of its cell and what is spent as variables of its pod. The pod of a
    Service cell outlives its attempts, so its limits come with each message.
    """
    limits = cell.spec.resources
    budgets = [spending.left] if spending.left is not None else []
    if limits is not None and limits.max_total_cost is not None:
        budgets.append(Decimal(str(limits.max_total_cost)) - spending.cell)
    if limits is not None and limits.max_cost_per_hour is not None:
        budgets.append(Decimal(str(limits.max_cost_per_hour)) - spending.cell_hour)
    return least(budgets)


def least(budgets: Sequence[Decimal]) -> Decimal | None:
    """Return the smallest amount, at least 0 and rounded down to a unit; None without any."""
    if not budgets:
        return None
    smallest = min(_MAX_BUDGET, max(Decimal(0), min(budgets)))
    return smallest.quantize(_UNIT, ROUND_FLOOR).normalize()


def paused(team: MissionTeam, now: datetime) -> tuple[NotReady, timedelta] | None:
    """Return until when a team waits because its limit per hour is used up; None if it is not."""
    formation, limit = team.formation, _limit_per_hour(team.formation)
    if formation is None or limit is None:
        return None
    resumes_at = cell_cost_annotation.hour_over_until(_usages(team), limit, now)
    if resumes_at is None:
        return None
    message = (
        f"{formation.ref} is paused until {rfc3339(resumes_at)}: it has spent "
        f"budget.maxCostPerHour (${limit:f}) within the last hour"
    )
    return NotReady(Reason.PAUSED, message), resumes_at - now


def _share_of(formation: Formation, cell: Cell, team: MissionTeam, total: Decimal) -> Decimal:
    """Return the share of a cell in what removed cells have left of the total."""
    removed = removed_cost_annotation.read(formation).cost(_uids(team))
    template = cell.metadata.labels.get(labels.CELL_TEMPLATE)
    return budget_shares.share(formation.spec, template, max(Decimal(0), total - removed))


def _total_limit(formation: Formation | None) -> Decimal | None:
    budget = formation.spec.budget if formation is not None else None
    if budget is None or budget.max_total_cost is None:
        return None
    return Decimal(str(budget.max_total_cost))


def _limit_per_hour(formation: Formation | None) -> Decimal | None:
    budget = formation.spec.budget if formation is not None else None
    if budget is None or budget.max_cost_per_hour is None:
        return None
    return Decimal(str(budget.max_cost_per_hour))


def _usages(team: MissionTeam) -> list[CellUsage]:
    """Return what the present cells of a team, and those that were removed, have cost."""
    read = [cell_cost_annotation.read(cell) for cell in (team.members or team.cells).values()]
    removed = removed_cost_annotation.read(team.formation).usages(_uids(team))
    return [*(usage for usage in read if usage is not None), *removed]


def _uids(team: MissionTeam) -> set[str]:
    return {cell.metadata.uid for cell in (team.members or team.cells).values()}
