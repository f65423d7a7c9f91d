"""Computes statistics of runs and usage. Pure."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from kais import outcomes, run_comparison
from knowledge_client.models import (
    ArmComparison,
    ArmStats,
    BlueprintName,
    BlueprintStats,
    CanaryCounts,
    DifferenceStats,
    ExcludedRun,
    Interval,
    MedianStats,
    ParameterStats,
    RevisionStats,
    ValueStats,
)

# With fewer than ten counted uses, a success rate of one half is assumed.
_MIN_COUNTED = 10
_PRIOR_WEIGHT = 4
VALUES: Final = 20
"""Values of a parameter that are reported separately; rarer ones are summed up. Arbitrary."""
_VALUE_CHARACTERS = 200
_LISTED_RUNS = 20  # excluded runs that a comparison names; arbitrary


@dataclass(frozen=True)
class LedgerRow:
    """The fields of a run that statistics use."""

    revision: int | None
    outcome: str | None
    last_at: datetime
    duration_s: float | None
    cost: float | None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSample:
    """The fields of a run by which runs are compared, newest run first in a list.

    `canary` is the revision on trial for which the run drew its own by lot; None without a lot.
    Only missions have one, because agents may record other runs.
    """

    run_id: str
    revision: int | None
    arm: str
    outcome: str | None
    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    canary: int | None = None


def canary_counts(samples: Sequence[RunSample], *, canary: int) -> tuple[CanaryCounts, ...]:
    """Count the runs that drew their revision by lot for a canary, by revision, newest first."""
    by_revision: dict[int, list[RunSample]] = defaultdict(list)
    for sample in samples:
        if sample.canary == canary and sample.revision is not None:
            by_revision[sample.revision].append(sample)
    return tuple(
        CanaryCounts(
            revision=revision,
            **_count_fields(outcome_counts([sample.outcome for sample in by_revision[revision]])),
        )
        for revision in sorted(by_revision, reverse=True)
    )


def compare_arms(
    samples: Sequence[RunSample], *, parameter: str | None = None
) -> tuple[ArmComparison, ...]:
    """Compare the runs with and without knowledge of each revision, the newest revision first.

    With `parameter`, of each revision and value of it, and only of the most used values.
    """
    by_group: dict[tuple[int, str | None], list[RunSample]] = defaultdict(list)
    for sample in samples:
        if sample.revision is None or (parameter and parameter not in sample.parameters):
            continue
        value = _canonical_value(sample.parameters[parameter]) if parameter else None
        by_group[sample.revision, value].append(sample)
    groups = sorted(by_group.items(), key=lambda item: (-item[0][0], -len(item[1]), item[0][1]))
    comparison_counts: dict[int, int] = defaultdict(int)
    comparisons = []
    for (revision, value), members in groups:
        comparison_counts[revision] += 1
        if comparison_counts[revision] <= VALUES:
            comparisons.append(_compare(revision, value, members))
    return tuple(comparisons)


def _compare(revision: int, value: str | None, samples: Sequence[RunSample]) -> ArmComparison:
    arms = {arm: [s for s in samples if s.arm == arm] for arm in ("on", "holdout", "off")}
    with_knowledge, without_knowledge = _arm_stats(arms["on"]), _arm_stats(arms["holdout"])
    groups = [
        run_comparison.Group(stats.succeeded, stats.succeeded + stats.failed)
        for stats in (with_knowledge, without_knowledge)
    ]
    difference = run_comparison.newcombe(*groups)
    excluded = [
        ExcludedRun(run_id=sample.run_id, outcome=sample.outcome)
        for sample in (s for s in samples if s.arm != "off")
        if sample.outcome is not None and outcomes.is_excluded(outcomes.Outcome(sample.outcome))
    ]
    return ArmComparison(
        revision=revision,
        value=value,
        with_knowledge=with_knowledge,
        without_knowledge=without_knowledge,
        difference=DifferenceStats(**asdict(difference)) if difference else None,
        sentence=run_comparison.sentence(*groups),
        not_compared=len(arms["off"]),
        excluded_runs=tuple(excluded[:_LISTED_RUNS]),
    )


def _arm_stats(samples: Sequence[RunSample]) -> ArmStats:
    counts = outcome_counts([sample.outcome for sample in samples])
    counted = [sample for sample in samples if _counts(sample)]
    return ArmStats(
        **_count_fields(counts),
        turns=_median_stats([s.turns for s in counted]),
        tokens=_median_stats([s.tokens for s in counted]),
        cost=_median_stats([s.cost for s in counted]),
    )


def _median_stats(values: Sequence[float | None]) -> MedianStats | None:
    reported = [value for value in values if value is not None]
    median = run_comparison.median(reported)
    if median is None:
        return None
    return MedianStats(runs=len(reported), median=median.value, low=median.low, high=median.high)


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


def _counts(row: LedgerRow | RunSample) -> bool:
    return row.outcome is not None and not outcomes.is_excluded(outcomes.Outcome(row.outcome))


def _fields(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    counts = outcome_counts([row.outcome for row in rows])
    durations = [row.duration_s for row in rows if row.duration_s is not None and _counts(row)]
    costs = [row.cost for row in rows if row.cost is not None and _counts(row)]
    return {
        "last_used": max((row.last_at for row in rows), default=None),
        "median_duration_s": statistics.median(durations) if durations else None,
        "avg_cost": _mean(costs) if costs else None,
        **_count_fields(counts),
    }


def _mean(values: Sequence[float]) -> float:
    """Return the mean, also of stored values whose sum no float can hold."""
    try:
        return statistics.fmean(values)
    except OverflowError:
        return statistics.mean(values)


def outcome_counts(results: Sequence[str | None]) -> outcomes.Counts:
    """Count runs by their outcomes; None is a run without one."""
    ended = [outcomes.Outcome(outcome) for outcome in results if outcome is not None]
    return outcomes.Counts(
        running=len(results) - len(ended),
        succeeded=sum(outcomes.is_success(outcome) for outcome in ended),
        failed=sum(outcomes.is_failure(outcome) for outcome in ended),
        excluded=sum(outcomes.is_excluded(outcome) for outcome in ended),
    )


def _count_fields(counts: outcomes.Counts) -> dict[str, Any]:
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
