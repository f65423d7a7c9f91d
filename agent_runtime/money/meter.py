"""The meter of a cell: reserves the worst case of a call before it is sent, and settles it after.

A call that could exceed a limit is not sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol

from agent_runtime.errors import AgentError
from agent_runtime.money.ledger import HOUR_S, Ledger, Totals
from agent_runtime.money.prices import CallUsage, ModelPrice
from kais.agent_results import AgentUsage, FailureClass


class Clock(Protocol):
    """The wall clock, in seconds since 1970."""

    def now_s(self) -> float:
        """Return the time."""


@dataclass(frozen=True, kw_only=True)
class CostLimits:
    """The limits on the cost of a cell, in US dollars; None is no limit.

    Attributes:
        max_total: limit of the cell over all its pods; earlier pods have used `spent` of it.
        max_per_hour: limit within an hour; earlier pods have used `spent_hour` of it.
        max_share: limit of this pod, derived from the limits of cell, mission and formation.
        max_task: limit of one task, from the budget of its run.
    """

    max_total: Decimal | None = None
    max_per_hour: Decimal | None = None
    max_share: Decimal | None = None
    max_task: Decimal | None = None
    spent: Decimal = Decimal(0)
    spent_hour: Decimal = Decimal(0)

    @property
    def has_budget(self) -> bool:
        """Whether any limit is set."""
        limits = (self.max_total, self.max_per_hour, self.max_share, self.max_task)
        return any(limit is not None for limit in limits)


def exceeded_limit(limits: CostLimits, totals: Totals, cost: Decimal) -> str | None:
    """Say which limit a call of this cost would exceed; None if it may be sent."""
    checks = (
        ("resources.maxTotalCost", limits.max_total, limits.spent + totals.spent),
        ("resources.maxCostPerHour", limits.max_per_hour, limits.spent_hour + totals.spent_hour),
        ("the budget of this attempt", limits.max_share, totals.spent),
        ("the budget of the run", limits.max_task, totals.task_spent),
    )
    for name, limit, spent in checks:
        if limit is None:
            continue
        if limit == 0 and cost > 0:
            return f"{name} is 0, which allows no paid calls"
        if spent + cost > limit:
            return (
                f"{name} is {_dollars(limit)}, of which {_dollars(spent)} is spent or reserved, "
                f"and the next call may cost {_dollars(cost)}"
            )
    return None


class Meter:
    """Counts the calls of one cell against its limits; `task` is the task that they are for."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        price: ModelPrice | None,
        limits: CostLimits,
        clock: Clock,
        task: str = "",
    ) -> None:
        self._task = task
        self._ledger = ledger
        self._price = price
        self._limits = limits
        self._clock = clock
        self._latest: Totals | None = None
        self._peer_cost = Decimal(0)

    @property
    def has_budget(self) -> bool:
        """Whether a limit on cost is set."""
        return self._limits.has_budget

    def check_price(self, model: str) -> None:
        """Require a price if there is a budget.

        Raises:
            AgentError: The price is unknown, so the budget could not hold.
        """
        if self._price is None and self._limits.has_budget:
            raise AgentError(
                FailureClass.BUDGET,
                f"the price of model {model} is unknown, so its budget cannot be held; add the "
                "price to the values of the chart (agents.prices), or remove the budget",
            )

    def reserve(self, worst_case: CallUsage) -> int:
        """Reserve the worst case of a call, and return the id of the call.

        Raises:
            AgentError: A limit does not allow the call.
        """
        cost = self._price.cost(worst_case) if self._price else Decimal(0)
        now_s = self._clock.now_s()
        with self._ledger.transaction():
            totals = self._ledger.totals(now_s=now_s, task=self._task)
            counted = replace(totals, task_spent=totals.task_spent + self._peer_cost)
            problem = exceeded_limit(self._limits, counted, cost)
            if problem is not None:
                raise AgentError(FailureClass.BUDGET, f"{problem}{self._until(problem, now_s)}")
            call = self._ledger.open_call(started_at=now_s, reserved=cost, task=self._task)
        self._latest = replace(
            totals, task_spent=totals.task_spent + cost, estimated=totals.estimated + cost
        )
        return call

    def settle(self, call: int, usage: CallUsage, *, is_measured: bool) -> None:
        """Replace the reservation by the cost; without measured usage the reservation stays."""
        if not is_measured:
            self._ledger.estimate(call, usage)
            return
        cost = self._price.cost(usage) if self._price else Decimal(0)
        self._ledger.settle(call, cost=cost, usage=usage)

    def release(self, call: int) -> None:
        """Drop the reservation of a call that was not processed."""
        self._ledger.release(call)

    def keep(self, call: int) -> None:
        """Count the reservation of a call whose end is unknown as its cost."""
        self._ledger.estimate(call, None)

    def set_peer_cost(self, cost: Decimal) -> None:
        """Set what all peers have cost the run of the task so far."""
        self._peer_cost = cost

    def remaining(self) -> Decimal | None:
        """Return what the run of the task may still cost; None is no limit.

        Raises:
            AgentError: The ledger cannot be read.
        """
        if self._limits.max_task is None:
            return None
        totals = self._ledger.totals(now_s=self._clock.now_s(), task=self._task)
        return self._limits.max_task - totals.task_spent - self._peer_cost

    def usage(self, *, tool_calls: int) -> AgentUsage:
        """Return what the cell has used so far in this pod for the task.

        If the ledger can no longer be read, this is the usage at the latest call, with the
        reservation of that call.

        Raises:
            AgentError: The ledger cannot be read, and there was no call.
        """
        try:
            totals = self._ledger.totals(now_s=self._clock.now_s(), task=self._task)
        except AgentError:
            if self._latest is None:
                raise
            totals = self._latest
        return AgentUsage(
            input_tokens=totals.input_tokens,
            output_tokens=totals.output_tokens,
            turns=totals.turns,
            tool_calls=tool_calls,
            cost=totals.task_spent.normalize(),
            estimated_cost=totals.estimated.normalize(),
            is_priced=self._price is not None,
        )

    def _until(self, problem: str, now_s: float) -> str:
        if not problem.startswith("resources.maxCostPerHour is 0") and "PerHour" in problem:
            window_end = datetime.fromtimestamp(now_s + HOUR_S, UTC)
            return f"; what is spent now counts until {window_end:%H:%M} UTC"
        return ""


def _dollars(amount: Decimal) -> str:
    return f"${amount.normalize():f}"
