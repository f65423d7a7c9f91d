"""Computes statistics of runs and usage. Pure."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kais import outcomes
from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    Interval,
    ParameterStats,
    RevisionStats,
    ValueStats,
)

# A success rate of fewer than ten counted uses says little; one half is used instead.
_MIN_COUNTED = 10
_PRIOR_WEIGHT = 4
VALUES: Final = 20
"""Values of a parameter that are reported separately; rarer ones are summed up. Arbitrary."""
_VALUE_CHARACTERS = 200


@dataclass(frozen=True)
class LedgerRow:
    """The fields of a run that statistics use."""

    revision: int | None
    outcome: str | None
    last_at: datetime
    duration_s: float | None
    cost: float | None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def blueprint_stats(name: BlueprintName, rows: Sequence[LedgerRow]) -> BlueprintStats:
    """Count the runs of one Blueprint, in total and per revision."""
    by_revision: dict[int, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        if row.revision is not None:
            by_revision[row.revision].append(row)
    return BlueprintStats(
        namespace=name.namespace,
        name=name.name,
        last_revision=max(by_revision, default=None),
        revisions=tuple(
            RevisionStats(revision=revision, **_fields(revision_rows))
            for revision, revision_rows in sorted(by_revision.items())
        ),
        **_fields(rows),
    )


def parameter_stats(rows: Sequence[LedgerRow]) -> tuple[ParameterStats, ...]:
    """Count runs by the value of each of their parameters, by parameter name."""
    by_name: dict[str, dict[str, list[LedgerRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, value in row.parameters.items():
            by_name[name][_canonical_value(value)].append(row)
    return tuple(
        ParameterStats(name=name, values=_value_stats(rows_by_value))
        for name, rows_by_value in sorted(by_name.items())
    )


def _value_stats(rows_by_value: Mapping[str, Sequence[LedgerRow]]) -> tuple[ValueStats, ...]:
    by_use = sorted(rows_by_value.items(), key=lambda item: (-len(item[1]), item[0]))
    frequent = [ValueStats(value=value, **_fields(rows)) for value, rows in by_use[:VALUES]]
    rarer = [row for _, rows in by_use[VALUES:] for row in rows]
    return (*frequent, *([ValueStats(**_fields(rarer))] if rarer else []))


def _canonical_value(value: Any) -> str:
    """Encode a value so that equal values are equal texts; numbers as JSON compares them."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}…"


def usefulness(succeeded: int, failed: int) -> float | None:
    """Return the share of successful uses, drawn towards the prior; None while none is counted.

    (s + 4b) / (s + f + 4), with b the scope's own rate, or one half below ten counted uses.
    """
    counted = succeeded + failed
    if not counted:
        return None
    base = succeeded / counted if counted >= _MIN_COUNTED else 0.5
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
    durations = [row.duration_s for row in rows if row.duration_s is not None and _counts(row)]
    costs = [row.cost for row in rows if row.cost is not None and _counts(row)]
    return {
        "last_used": max((row.last_at for row in rows), default=None),
        "median_duration_s": statistics.median(durations) if durations else None,
        "avg_cost": statistics.fmean(costs) if costs else None,
        "uses": counts.uses,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "excluded": counts.excluded,
        "success_rate": counts.success_rate,
        "interval": Interval(low=interval[0], high=interval[1]) if interval else None,
    }
