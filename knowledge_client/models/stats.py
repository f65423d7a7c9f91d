"""Counts, rates and intervals of Blueprints, and what a scope holds."""

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
    """Runs by what became of them. uses = running + succeeded + failed + excluded."""

    uses: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    excluded: int = 0
    success_rate: float | None = None
    interval: Interval | None = None


class RunMetrics(Counts):
    """Counts, and what the runs took: durations and costs of those that are in the rate."""

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
    """How runs went by the value of one parameter, the most used value first."""

    name: str
    values: tuple[ValueStats, ...] = ()


class BlueprintStats(RunMetrics):
    """What the ledger knows of one Blueprint. All zero for one that it never saw."""

    namespace: str
    name: str
    last_revision: int | None = None
    revisions: tuple[RevisionStats, ...] = ()
    parameters: tuple[ParameterStats, ...] = Field(
        default=(), description="by parameter value; only in the answer for one Blueprint"
    )


class ScopeStats(WireModel):
    """What the store holds in exactly one scope; ancestors and descendants are not counted."""

    path: str
    facts: int = 0
    recalls: int = 0
    usefulness: float | None = None
    last_write_at: datetime | None = None


class StatsIn(WireModel):
    """A batch of questions for the statistics of Blueprints and scopes."""

    blueprints: tuple[BlueprintName, ...] = Field(default=(), max_length=2000)
    scopes: tuple[str, ...] = Field(default=(), max_length=2000)


class Stats(WireModel):
    """The answers, in the order of the questions."""

    blueprints: tuple[BlueprintStats, ...] = ()
    scopes: tuple[ScopeStats, ...] = ()
