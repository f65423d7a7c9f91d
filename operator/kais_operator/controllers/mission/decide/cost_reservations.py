"""Reserve the maximum cost of an attempt against the limits that several missions share.

    next attempt  -> reserve what its limits leave, then start it; wait while others hold a part
    attempt open  -> the reservation stays, whatever the clock says
    run waits     -> only what the run has spent stays: for a person, a suspension, a pause
    run ended     -> count the cost on the cell, then drop the entry, then mark the mission

All missions of a Formation reserve on the Formation, those of a lone cell on the Cell. The write is
refused unless the object is as it was read, so two missions never reserve the same money. The cells
are read after that object, because a cost is counted on the cell before its entry is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from kais import labels
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    budgets,
    entrypoint,
    outcome_annotation,
    reviewer_cells,
)
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.budgets import Limit, RunCosts, Sharing
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam, NotReady
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved, run_id_of
from kais_operator.planning import (
    annotation_values,
    cell_cost_annotation,
    cost_reservation_annotation,
)
from kais_operator.planning.cost_reservation_annotation import (
    MAX_RESERVATIONS,
    Account,
    Reservation,
)
from kais_operator.planning.plan import Action, PatchMetadata

Step = tuple[NotReady | None, tuple[Action, ...], timedelta | None]
READ_AGAIN: Step = (None, (), timedelta(seconds=1))
"""The step of a decision that needs the account and the cells as the API server has them."""
_RETRY_INTERVAL = timedelta(seconds=10)
"""Delay for missions that wait: no watch event reports a mission that vanished. Arbitrary."""
_BETWEEN_ATTEMPTS = (Reason.RETRYING, Reason.DELETING, Reason.WAITING_FOR_PODS)
"""Obstacles that end soon, or with a deadline of the run, so it holds its reservation."""
_WORKING = (State.WAITING, State.RUNNING)


@dataclass(frozen=True)
class Claim:
    """The maximum cost of an attempt, and the step that is needed before it starts.

    Attributes:
        left: US dollars; None if no shared limit applies.
        step: the reservation to write, or what the attempt waits for; None if it may start.
    """

    left: Decimal | None = None
    step: Step | None = None


def accounts_of(team: MissionTeam, *cells: Cell | None) -> tuple[Account, ...]:
    """Return where runs of these cells have reserved, the account for new reservations first.

    A Formation may have been created after a run of its cell had begun, so both are read.
    """
    formation = (team.formation,) if team.formation is not None else ()
    return (*formation, *(cell for cell in cells if cell is not None))


def claim(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    cell: Cell,
    *,
    now: datetime,
    is_reviewer: bool = False,
) -> Claim:
    """Decide what the next attempt of a cell, or its review, may cost. Reads no clock."""
    limits = _shared_limits(observed, cell, now)
    if limits is None:
        return Claim()
    costs = RunCosts.of(observed.history.with_restarting(attempts), is_reviewer=is_reviewer)
    view = _View(observed, cell, limits, costs)
    if view.room > 0:
        return Claim(min(view.room, view.full))
    if view.waits:
        obstacle = NotReady(Reason.BUDGET_RESERVED, view.message())
        return Claim(Decimal(0), (obstacle, (), _RETRY_INTERVAL))
    account = accounts_of(observed.team, cell)[0]
    own = _own(observed, account)
    entry = view.entry(view.available)
    entries = [e for e in _trimmed(own, _costs(observed, attempts)) if e.cell != entry.cell]
    entries.append(entry)
    if sorted(entries) == sorted(own):
        return Claim(view.available)
    if not observed.has_fresh_team:
        return Claim(view.available, READ_AGAIN)
    patch = cost_reservation_annotation.write(account, [*_others(observed, account), *entries])
    return Claim(view.available, (None, (patch,), READ_AGAIN[2]))


def limit_of_pods(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    cell: Cell,
    left: Decimal | None,
    *,
    now: datetime,
) -> Decimal | None:
    """Return the limit of an attempt: its gate subtracts what pods of a deleted Job have cost.

    If a report of these pods is lost, no further pod starts and all of the limit counts as spent,
    so it is what they may have cost. It is at most what the limits leave without that cost: who may
    edit the Mission may change the record of these pods before the gate reads it again.
    """
    restarting = observed.history.restarting
    limits = _shared_limits(observed, cell, now)
    if left is None or limits is None or restarting is None or restarting.usage is None:
        return left
    view = _View(observed, cell, limits, RunCosts.of(attempts))
    has_lost_report = None in restarting.pod_usages.values()
    added = Decimal(0) if has_lost_report else left
    return min(added + restarting.usage.cost, view.available)


def left_to_message(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    cell: Cell,
    *,
    now: datetime,
    is_reviewer: bool = False,
) -> Decimal | None:
    """Return what the message of an open attempt may cost; None without a limit."""
    claimed = claim(observed, attempts, cell, now=now, is_reviewer=is_reviewer)
    if claimed.left is not None:
        return claimed.left
    spending = budgets.spending_of(
        observed.mission, cell, observed.team, attempts, now=now, is_reviewer=is_reviewer
    )
    return budgets.left_to_service(cell, spending)


def adjust(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    obstacle: NotReady | None,
    *,
    now: datetime,
) -> PatchMetadata | None:
    """Choose the next write that lowers what a run has reserved to what it needs.

    Work in progress without an entry gets one: a person edited the annotation, or an older version
    started the work. `obstacle` is what the next attempt waits for.
    """
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    if isinstance(cell, NotReady):
        return None
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    if _is_review_next(attempts, reviewer, obstacle):
        return None
    working, is_open = _working_cell(attempts, cell, reviewer, obstacle)
    name = working.metadata.name if working is not None else None
    costs = _costs(observed, attempts)
    accounts = accounts_of(observed.team, cell, reviewer)
    for account in accounts:
        own = _own(observed, account)
        entries = _trimmed(own, costs, except_cell=name)
        if entries != own:
            others = _others(observed, account)
            return cost_reservation_annotation.write(account, [*others, *entries])
    is_entered = any(entry.cell == name for a in accounts for entry in _own(observed, a))
    if working is None or not is_open or is_entered:
        return None
    return _entered_again(observed, attempts, working, now, is_reviewer=working is reviewer)


def _entered_again(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    working: Cell,
    now: datetime,
    *,
    is_reviewer: bool,
) -> PatchMetadata | None:
    """Reserve for work in progress all that it may spend, whatever others have reserved."""
    limits = _shared_limits(observed, working, now)
    if limits is None:
        return None
    view = _View(observed, working, limits, RunCosts.of(attempts, is_reviewer=is_reviewer))
    account = accounts_of(observed.team, working)[0]
    entries = [*_others(observed, account), *_own(observed, account), view.entry(view.full)]
    if len(entries) > MAX_RESERVATIONS:
        return None
    return cost_reservation_annotation.write(account, entries)


def narrowest_limit(observed: MissionObserved, cell: Cell, *, now: datetime) -> str:
    """Describe the limit that leaves least to a run beside others; empty without limits."""
    limits = budgets.limits_of(observed.mission, cell, observed.team, now=now)
    if not limits:
        return ""
    view = _View(observed, cell, limits, RunCosts(own=Decimal(0), run=Decimal(0)))
    lefts = [(view.left(limit), limit) for limit in limits]
    left, limit = min(lefts, key=lambda each: each[0])
    hint = "; costs leave it an hour after their run" if limit.is_hourly else ""
    return f"{limit.name} had {_dollars(max(Decimal(0), left))} left for this run{hint}"


def release(accounts: Iterable[Account], run_id: str) -> PatchMetadata | None:
    """Choose the next write that drops the entries of an ended run; None if there are none."""
    for account in accounts:
        entries = cost_reservation_annotation.read(account)
        others = [entry for entry in entries if entry.run_id != run_id]
        if len(others) < len(entries):
            return cost_reservation_annotation.write(account, others)
    return None


def is_over(mission: Mission, run_id: str) -> bool:
    """Whether a run of a mission neither works nor has a cost that is still to be counted."""
    if annotation_values.run_id(mission.metadata.annotations) != run_id:
        return True
    run_outcome = outcome_annotation.read(mission, None)
    if run_outcome is None:
        return False
    return run_outcome.usage is None or budgets.is_counted(mission, run_id)


def reservations_of_others(observed: MissionObserved) -> tuple[Reservation, ...]:
    """Return the entries of other runs on the accounts of a mission."""
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    cells = () if isinstance(cell, NotReady) else (cell,)
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    accounts = accounts_of(observed.team, *cells, reviewer)
    return tuple(entry for account in accounts for entry in _others(observed, account))


def has_shared_limits(observed: MissionObserved, now: datetime) -> bool:
    """Whether the entry cell or the reviewer share a limit with other missions."""
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    cells = (None if isinstance(cell, NotReady) else cell, reviewer)
    return any(
        each is not None and _shared_limits(observed, each, now) is not None for each in cells
    )


def _shared_limits(observed: MissionObserved, cell: Cell, now: datetime) -> list[Limit] | None:
    """Return the limits on a cell with a mind; None if it shares none with other runs."""
    if cell.spec.mind is None:
        return None
    limits = budgets.limits_of(observed.mission, cell, observed.team, now=now)
    is_shared = any(limit.sharing is not Sharing.RUN for limit in limits)
    return limits if is_shared else None


def _working_cell(
    attempts: Sequence[Attempt], cell: Cell, reviewer: Cell | None, obstacle: NotReady | None
) -> tuple[Cell | None, bool]:
    """Return which cell works, or is about to; and whether its work is in progress."""
    last = attempts[-1] if attempts else None
    if last is None or last.is_over:
        return (cell if _is_next(obstacle) else None), False
    if last.state is State.REVIEWING:
        return (reviewer, True) if last.review is not None else (None, False)
    return cell, last.state in _WORKING


def _is_review_next(
    attempts: Sequence[Attempt], reviewer: Cell | None, obstacle: NotReady | None
) -> bool:
    """Whether a cell is asked for a review now; the plan may contain the message.

    One write turns the reservation of the work into that of the review.
    """
    last = attempts[-1] if attempts else None
    is_reviewing = last is not None and last.state is State.REVIEWING and last.review is None
    return is_reviewing and reviewer is not None and _is_next(obstacle)


def _is_next(obstacle: NotReady | None) -> bool:
    return obstacle is None or obstacle.reason in _BETWEEN_ATTEMPTS


def _costs(observed: MissionObserved, attempts: Sequence[Attempt]) -> dict[str, Decimal]:
    """Return what the run has cost so far, by the name of the cell."""
    costs = {}
    attempts = observed.history.with_restarting(attempts)
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    if reviewer is not None:
        costs[reviewer.metadata.name] = RunCosts.of(attempts, is_reviewer=True).own
    if isinstance(cell, Cell):
        costs[cell.metadata.name] = RunCosts.of(attempts).own
    return costs


def _trimmed(
    own: Sequence[Reservation], costs: Mapping[str, Decimal], *, except_cell: str | None = None
) -> list[Reservation]:
    """Lower entries to what the run has spent, except that of the cell that works."""
    entries = [
        entry
        if entry.cell == except_cell or entry.reserved == 0
        else replace(entry, spent=costs.get(entry.cell, entry.spent), reserved=Decimal(0))
        for entry in own
    ]
    return [entry for entry in entries if entry.cell == except_cell or entry.total > 0]


def _own(observed: MissionObserved, account: Account) -> list[Reservation]:
    run_id = run_id_of(observed.mission)
    entries = cost_reservation_annotation.read(account)
    return [entry for entry in entries if entry.run_id == run_id]


def _others(observed: MissionObserved, account: Account) -> list[Reservation]:
    run_id = run_id_of(observed.mission)
    return [
        entry
        for entry in cost_reservation_annotation.read(account)
        if entry.run_id != run_id and entry.run_id not in observed.released_runs
    ]


def _uncounted(team: MissionTeam, entries: Sequence[Reservation]) -> list[Reservation]:
    """Leave out entries whose cost is part of the sum on their cell, because they count twice."""
    names = {entry.cell for entry in entries}
    cells = {name: team.members.get(name) or team.cells.get(name) for name in names}
    usages = {
        name: cell_cost_annotation.read(cell) for name, cell in cells.items() if cell is not None
    }
    return [
        entry
        for entry in entries
        if (usage := usages.get(entry.cell)) is None or not usage.has(entry.run_id)
    ]


class _View:
    """The limits of one run on one cell, less what others have spent and reserved."""

    def __init__(
        self, observed: MissionObserved, cell: Cell, limits: Sequence[Limit], costs: RunCosts
    ) -> None:
        accounts = accounts_of(observed.team, cell)
        self._mission, self._cell, self._account = observed.mission, cell, accounts[0]
        self._limits, self._costs = limits, costs
        self._own = [entry for account in accounts for entry in _own(observed, account)]
        others = [entry for account in accounts for entry in _others(observed, account)]
        self._others = _uncounted(observed.team, others)
        self.full = self._least(lambda entry: entry.spent)
        """The amount that all limits leave once the others release their reservations."""
        self.available = self._least(lambda entry: entry.total)
        """The amount that all limits leave now."""

    @property
    def room(self) -> Decimal:
        """The amount of its own entry that the run may still spend."""
        totals = [entry.total for entry in self._own if entry.cell == self._cell.metadata.name]
        return max(totals, default=Decimal(0)) - self._costs.own

    @property
    def waits(self) -> bool:
        """Whether others hold a part that they may release, or there are too many entries.

        A run that has cost something does not wait for what others have spent, because they would
        wait for it in turn, forever.
        """
        if not self._own and len(self._others) >= MAX_RESERVATIONS:
            return True
        is_spent = self.available == 0 and self._least(lambda _: Decimal(0)) > 0
        return self.available < self.full or (is_spent and self._costs.run == 0)

    def entry(self, reserved: Decimal) -> Reservation:
        """Return the entry for the work of the cell."""
        return Reservation(
            run_id=run_id_of(self._mission) or "",
            cell=self._cell.metadata.name,
            mission=self._mission.metadata.name,
            spent=self._costs.own,
            reserved=reserved,
        )

    def message(self) -> str:
        """Name the limit that leaves too little, where its reservations are, and what to do.

        The message has no sums or names of others: each start and end of a run changes them, and
        the status of every mission that waits would be written again.
        """
        if not self._own and len(self._others) >= MAX_RESERVATIONS:
            return (
                f"{MAX_RESERVATIONS} runs of the team have reserved costs, which is the maximum;"
                " this mission starts when one of them ends"
            )
        shared = [limit for limit in self._limits if limit.sharing is not Sharing.RUN]
        limit = min(shared, key=self.left)
        own = next((each for each in self._limits if each.sharing is Sharing.RUN), None)
        most = _dollars(own.amount) if own is not None else "all of it, without budget.maxCost"
        return (
            f"{limit.name} is {_dollars(limit.amount)}, and other missions have spent or reserved "
            f"so much that less is left than this mission may cost ({most}); it starts when they "
            "leave enough; "
            f"{labels.RESERVATIONS} of {self._account.ref} lists them; to let more run at the same "
            "time, set budget.maxCost of the missions, or raise the limit"
        )

    def left(self, limit: Limit) -> Decimal:
        """Return what a limit leaves now; may be negative."""
        return self._left(limit, lambda entry: entry.total)

    def _least(self, amount: Callable[[Reservation], Decimal]) -> Decimal:
        lefts = [self._left(limit, amount) for limit in self._limits]
        return budgets.least(lefts) or Decimal(0)

    def _left(self, limit: Limit, amount: Callable[[Reservation], Decimal]) -> Decimal:
        taken = sum((amount(entry) for entry in self._sharing(limit)), Decimal(0))
        return limit.left(self._costs) - taken

    def _sharing(self, limit: Limit) -> list[Reservation]:
        """Return the entries of others that count for a limit."""
        if limit.sharing is Sharing.RUN:
            return []
        is_team, name = limit.sharing is Sharing.TEAM, self._cell.metadata.name
        return [entry for entry in self._others if is_team or entry.cell == name]


def _dollars(amount: Decimal) -> str:
    return f"${amount.normalize():f}"
