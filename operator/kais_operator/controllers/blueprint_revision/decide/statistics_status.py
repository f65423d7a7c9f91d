"""Convert the ledger's counts to status fields and to texts for columns.

Nothing is counted in this module. The status shows the last answer of the knowledge service. Until
there is an answer, the numbers in the status stay.
"""

from __future__ import annotations

from typing import Any

from kais.resources.blueprint import Statistics
from knowledge_client import models

_FIELDS = (
    "usage_count",
    "last_used",
    "running",
    "succeeded",
    "failed",
    "excluded",
    "avg_success_rate",
    "success_interval",
    "median_duration_seconds",
    "avg_cost",
)
_DIGITS = 4  # digits of rates: enough for people, and the same on every machine


def fields_of(counts: models.Counts | None, previous: Statistics) -> dict[str, Any]:
    """Return the statistics of a status: from the ledger, else the previous ones."""
    if counts is None:
        return {name: getattr(previous, name) for name in _FIELDS}
    interval = counts.interval
    fields: dict[str, Any] = {
        "usage_count": counts.uses,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "excluded": counts.excluded,
        "avg_success_rate": _rounded(counts.success_rate),
    }
    if interval is not None:
        low, high = _rounded(interval.low), _rounded(interval.high)
        fields["success_interval"] = {"low": low, "high": high}
    if isinstance(counts, models.RunMetrics):
        fields["last_used"] = counts.last_used
        fields["median_duration_seconds"] = _rounded(counts.median_duration_s)
        fields["avg_cost"] = counts.avg_cost
    return fields


def of_revision(stats: models.BlueprintStats | None, number: int) -> models.RevisionStats | None:
    """Return a revision's counts: zeros if the ledger has none, None before its answer."""
    if stats is None:
        return None
    counts = next((counts for counts in stats.revisions if counts.revision == number), None)
    return counts or models.RevisionStats(revision=number)


def percent(share: float | None) -> str | None:
    """Format a rate for a column, such as `87%`."""
    return None if share is None else f"{round(share * 100)}%"


def percent_range(fields: dict[str, Any]) -> str | None:
    """Format the interval of a rate for a column, such as `62-97%`."""
    interval = fields.get("success_interval")
    if interval is None:
        return None
    ends = interval if isinstance(interval, dict) else interval.model_dump()
    return f"{round(ends['low'] * 100)}-{round(ends['high'] * 100)}%"


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
