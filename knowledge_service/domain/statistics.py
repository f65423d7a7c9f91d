"""What runs and usage count up to. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kais import outcomes
from knowledge_client.models import BlueprintName, BlueprintStats, Interval, RevisionStats

# Below ten counted uses a scope's own success rate says little; one half stands in for it.
_ENOUGH = 10
_PRIOR_WEIGHT = 4


@dataclass(frozen=True)
class LedgerRow:
    """The part of a run that is counted."""

    revision: int | None
    outcome: str | None
    last_at: datetime
    duration_s: float | None
    cost: float | None


def blueprint_stats(name: BlueprintName, rows: Sequence[LedgerRow]) -> BlueprintStats:
    """Count the runs of one Blueprint, all together and per revision."""
    by_revision: dict[int, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        if row.revision is not None:
            by_revision[row.revision].append(row)
    durations = [row.duration_s for row in rows if row.duration_s is not None and _counts(row)]
    costs = [row.cost for row in rows if row.cost is not None]
    return BlueprintStats(
        namespace=name.namespace,
        name=name.name,
        last_used=max((row.last_at for row in rows), default=None),
        median_duration_s=statistics.median(durations) if durations else None,
        avg_cost=statistics.fmean(costs) if costs else None,
        last_revision=max(by_revision, default=None),
        revisions=tuple(
            RevisionStats(revision=revision, **_fields(found))
            for revision, found in sorted(by_revision.items())
        ),
        **_fields(rows),
    )


def usefulness(succeeded: int, failed: int) -> float | None:
    """Return the share of uses that went well, drawn towards the prior; None while nothing counted.

    (s + 4b) / (s + f + 4), with b the scope's own rate, one half while fewer than ten counted.
    """
    counted = succeeded + failed
    if not counted:
        return None
    base = succeeded / counted if counted >= _ENOUGH else 0.5
    return (succeeded + _PRIOR_WEIGHT * base) / (counted + _PRIOR_WEIGHT)


def _counts(row: LedgerRow) -> bool:
    return row.outcome is not None and not outcomes.is_excluded(outcomes.Outcome(row.outcome))


def _fields(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    ended = [outcomes.Outcome(row.outcome) for row in rows if row.outcome is not None]
    counts = outcomes.Counts(
        running=len(rows) - len(ended),
        succeeded=sum(outcomes.is_success(outcome) for outcome in ended),
        failed=sum(outcomes.is_failure(outcome) for outcome in ended),
        excluded=sum(outcomes.is_excluded(outcome) for outcome in ended),
    )
    interval = counts.interval
    return {
        "uses": counts.uses,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "excluded": counts.excluded,
        "success_rate": counts.success_rate,
        "interval": Interval(low=interval[0], high=interval[1]) if interval else None,
    }
