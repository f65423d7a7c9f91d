"""What a Cell with a mind has cost so far: an annotation that each ended run adds to once.

The annotation has the ids of the latest runs, so that a repeated addition is recognised. A Mission
records in an annotation of its own when its run is counted, so that only runs that have just ended
are ever added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from kais import labels
from kais.agent_results import AgentUsage
from kais.resources.cell import Cell
from kais.resources.field_types import rfc3339
from kais_operator.planning import annotation_values

MAX_RUNS = 50
"""Number of runs that the annotation names; arbitrary, far more than end at the same time."""
MAX_TOKENS = 2**53
"""Largest sum of tokens; JSON in other languages has no larger whole numbers."""
HOUR = timedelta(hours=1)
_INTERVAL = timedelta(minutes=5)
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_INTERVALS = HOUR // _INTERVAL + 2


@dataclass(frozen=True)
class CountedRun:
    """A run that is part of the sum."""

    run_id: str
    ended_at: datetime
    cost: Decimal


@dataclass(frozen=True)
class PastCost:
    """The cost of the runs that ended in the five minutes before `until`."""

    until: datetime
    cost: Decimal


@dataclass(frozen=True)
class CellUsage:
    """The sum over all counted runs, and the latest of them, oldest first.

    `earlier` has the cost of runs before those, as far as it counts for the last hour.
    """

    cost: Decimal = Decimal(0)
    tokens: int = 0
    is_priced: bool = True
    runs: tuple[CountedRun, ...] = ()
    earlier: tuple[PastCost, ...] = ()

    def has(self, run_id: str) -> bool:
        """Whether a run is counted already."""
        return any(run.run_id == run_id for run in self.runs)

    def cost_within_hour(self, now: datetime) -> Decimal:
        """Return the cost of the runs that ended within the last hour."""
        latest = [run.cost for run in self.runs if now - run.ended_at < HOUR]
        earlier = [past.cost for past in self.earlier if now - past.until < HOUR]
        return sum((*latest, *earlier), Decimal(0))

    def add(self, run_id: str, usage: AgentUsage, *, ended_at: datetime) -> CellUsage:
        """Return the sum with one more run."""
        runs = (*self.runs, CountedRun(run_id, ended_at, usage.cost))
        return CellUsage(
            cost=self.cost + usage.cost,
            tokens=min(MAX_TOKENS, self.tokens + usage.input_tokens + usage.output_tokens),
            is_priced=self.is_priced and usage.is_priced,
            runs=runs[-MAX_RUNS:],
            earlier=_with_runs(self.earlier, runs[:-MAX_RUNS], now=ended_at),
        )


def _with_runs(
    earlier: tuple[PastCost, ...], runs: Iterable[CountedRun], *, now: datetime
) -> tuple[PastCost, ...]:
    """Add runs to the costs by interval, and drop those that are older than an hour."""
    past = (PastCost(run.ended_at + (_FIRST - run.ended_at) % _INTERVAL, run.cost) for run in runs)
    return _with_costs(earlier, past, now=now)


def _with_costs(
    earlier: Iterable[PastCost], added: Iterable[PastCost], *, now: datetime
) -> tuple[PastCost, ...]:
    costs: dict[datetime, Decimal] = {}
    for past in (*earlier, *added):
        if now - past.until < HOUR:
            costs[past.until] = costs.get(past.until, Decimal(0)) + past.cost
    return tuple(PastCost(until, costs[until]) for until in sorted(costs))


def read(cell: Cell) -> CellUsage | None:
    """Read what a cell has cost; None if no run is counted, or the annotation is not valid."""
    return read_annotations(cell.metadata.annotations)


def read_annotations(annotations: Mapping[str, str]) -> CellUsage | None:
    """Read the same from the annotations of a Cell, which need not be valid."""
    try:
        value = annotation_values.parse(annotations.get(labels.CELL_USAGE))
        return parse(value) if value is not None else None
    except annotation_values.BROKEN:
        return None


def hour_over_until(
    usages: Iterable[CellUsage | None], limit: Decimal, now: datetime
) -> datetime | None:
    """Return when cells that have used up a limit per hour are below it again; None if they are.

    Each cost leaves the sum an hour after its run has ended.
    """
    leaving = sorted(
        (at + HOUR, cost)
        for usage in usages
        if usage is not None
        for at, cost in (
            *((run.ended_at, run.cost) for run in usage.runs),
            *((past.until, past.cost) for past in usage.earlier),
        )
        if cost > 0 and now - at < HOUR
    )
    left = sum((cost for _, cost in leaving), Decimal(0))
    if not leaving or left < limit:
        return None
    for at, cost in leaving:
        left -= cost
        if left < limit:
            return at
    return leaving[-1][0]


def total(usages: Iterable[CellUsage | None]) -> CellUsage | None:
    """Sum up cells, without their runs; None if none of them has cost anything."""
    counted = [usage for usage in usages if usage is not None]
    if not counted:
        return None
    return CellUsage(
        cost=sum((usage.cost for usage in counted), Decimal(0)),
        tokens=sum(usage.tokens for usage in counted),
        is_priced=all(usage.is_priced for usage in counted),
    )


def merge(usages: Sequence[CellUsage], now: datetime) -> CellUsage | None:
    """Sum up cells with their latest runs and the costs of the last hour; None without cells."""
    summed = total(usages)
    if summed is None:
        return None
    runs = sorted(
        (run for usage in usages for run in usage.runs), key=lambda run: (run.ended_at, run.run_id)
    )
    earlier = _with_costs((), (past for usage in usages for past in usage.earlier), now=now)
    return replace(
        summed,
        tokens=min(MAX_TOKENS, summed.tokens),
        runs=tuple(runs[-MAX_RUNS:]),
        earlier=_with_runs(earlier, runs[:-MAX_RUNS], now=now),
    )


def dump(usage: CellUsage) -> str:
    """Serialise a sum for the annotation."""
    return json.dumps(to_value(usage), sort_keys=True, separators=(",", ":"))


def to_value(usage: CellUsage) -> dict[str, Any]:
    """Return a sum as a JSON object, with costs as text."""
    value: dict[str, Any] = {
        "cost": format(usage.cost, "f"),
        "tokens": usage.tokens,
        "priced": usage.is_priced,
        "runs": [[run.run_id, rfc3339(run.ended_at), format(run.cost, "f")] for run in usage.runs],
    }
    if usage.earlier:
        value["earlier"] = [[rfc3339(p.until), format(p.cost, "f")] for p in usage.earlier]
    return value


def parse(value: Any) -> CellUsage:
    """Parse the JSON object of a sum; raises one of `annotation_values.BROKEN` if it is none."""
    tokens = value["tokens"]
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 <= tokens <= MAX_TOKENS:
        raise ValueError(f"{tokens!r} is no number of tokens")
    return CellUsage(
        cost=annotation_values.parse_cost(value["cost"]),
        tokens=tokens,
        is_priced=bool(value["priced"]),
        runs=tuple(_run(*entry) for entry in value["runs"][-MAX_RUNS:]),
        earlier=tuple(
            PastCost(_time(until), annotation_values.parse_cost(cost))
            for until, cost in (value.get("earlier") or ())[-_MAX_INTERVALS:]
        ),
    )


def _run(run_id: str, ended_at: str, cost: str) -> CountedRun:
    return CountedRun(
        annotation_values.parse_text(run_id), _time(ended_at), annotation_values.parse_cost(cost)
    )


def _time(value: Any) -> datetime:
    at = annotation_values.time(value)
    if at is None:
        raise ValueError("a counted run has an end")
    return at
