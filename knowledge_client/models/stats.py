"""Statistics of Blueprints and of scopes."""

from __future__ import annotations

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


class BlueprintStats(RunMetrics):
    """The statistics of one Blueprint; all zero for an unknown one."""

    namespace: str
    name: str
    last_revision: int | None = None
    revisions: tuple[RevisionStats, ...] = ()
    parameters: tuple[ParameterStats, ...] = Field(
        default=(), description="by parameter value; only in the answer for one Blueprint"
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
