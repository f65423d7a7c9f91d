"""Statistics of Blueprints and of scopes."""

from __future__ import annotations

import operator
from datetime import datetime

from pydantic import Field

from knowledge_client.base_model import WireModel


class BlueprintName(WireModel):
    """A Blueprint's identity in the ledger."""

    namespace: str
    name: str


class Interval(WireModel):
    """A 95 % interval of a rate."""

    low: float
    high: float


class Counts(WireModel):
    """Runs by outcome; uses = running + succeeded + failed + excluded."""

    uses: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    excluded: int = 0
    success_rate: float | None = None
    interval: Interval | None = None


class RunMetrics(Counts):
    """Counts, with the durations and costs of the runs that count towards the success rate."""

    last_used: datetime | None = None
    median_duration_s: float | None = None
    avg_cost: float | None = None


class RevisionStats(RunMetrics):
    """The counts of one revision."""

    revision: int


class ValueStats(RunMetrics):
    """The counts of the runs that had one value of one parameter.

    `value` is the value as JSON, cut when long; None sums up the runs with rarer values.
    """

    value: str | None = None


class ParameterStats(WireModel):
    """Runs by the value of one parameter, most used value first."""

    name: str
    values: tuple[ValueStats, ...] = ()


class MedianStats(WireModel):
    """The median of the runs that reported a value, with its 95 % bootstrap interval."""

    runs: int
    median: float
    low: float
    high: float


class ArmStats(Counts):
    """The runs of one arm: outcomes, and what the counted runs took."""

    turns: MedianStats | None = None
    tokens: MedianStats | None = None
    cost: MedianStats | None = None


class DifferenceStats(WireModel):
    """The success rate with knowledge minus the rate without, with Newcombe's 95 % interval."""

    value: float
    low: float
    high: float


class ExcludedRun(WireModel):
    """A run that does not count, and how it ended."""

    run_id: str
    outcome: str


class ArmComparison(WireModel):
    """Runs of one revision with knowledge and without, of one value of a parameter if it is set.

    `without_knowledge` are the runs of the holdout. Runs with knowledge switched off are
    `not_compared`. `excluded_runs` lists at most 20, newest first.
    """

    revision: int
    value: str | None = Field(default=None, exclude_if=operator.not_)
    with_knowledge: ArmStats
    without_knowledge: ArmStats
    difference: DifferenceStats | None = None
    sentence: str
    not_compared: int = 0
    excluded_runs: tuple[ExcludedRun, ...] = ()


class CanaryCounts(Counts):
    """The runs of one revision that drew it by lot while a canary ran."""

    revision: int


class BlueprintStats(RunMetrics):
    """The statistics of one Blueprint; all zero for an unknown one."""

    namespace: str
    name: str
    last_revision: int | None = None
    revisions: tuple[RevisionStats, ...] = ()
    parameters: tuple[ParameterStats, ...] = Field(
        default=(), description="by parameter value; only in the answer for one Blueprint"
    )
    comparisons: tuple[ArmComparison, ...] = Field(
        default=(),
        exclude_if=operator.not_,
        description="with and without knowledge, newest revision first, if the request asks",
    )
    canary: tuple[CanaryCounts, ...] = Field(
        default=(),
        exclude_if=operator.not_,
        description="runs that drew their revision by lot for the canary that the request names",
    )


class ScopeStats(WireModel):
    """The contents of one scope, without the scopes above and below it."""

    path: str
    facts: int = 0
    recalls: int = 0
    usefulness: float | None = None
    last_write_at: datetime | None = None


class StatsIn(WireModel):
    """The Blueprints and scopes to return statistics for."""

    blueprints: tuple[BlueprintName, ...] = Field(default=(), max_length=2000)
    scopes: tuple[str, ...] = Field(default=(), max_length=2000)


class Stats(WireModel):
    """The statistics, in the order of the request."""

    blueprints: tuple[BlueprintStats, ...] = ()
    scopes: tuple[ScopeStats, ...] = ()
