"""The statistics of a blueprint, from the ledger of the knowledge service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kais_cli.blueprints import lookup
from kais_cli.views import quantities, table_layout

if TYPE_CHECKING:
    from kais_cli.session import Session
    from knowledge_client.models import (
        ArmComparison,
        ArmStats,
        BlueprintStats,
        Counts,
        MedianStats,
    )


_ARM_HEADERS = ("KNOWLEDGE", "RUNS", "SUCCEEDED", "SUCCESS", "CI95", "TURNS", "TOKENS", "COST")
_LEGEND = """
EXCLUDED runs were cancelled, or the cluster could not run them; they do not count.
CI95 is the 95 % confidence interval of the success rate.
"""


def fetch_stats(session: Session, name: str, *, by_parameter: str | None) -> BlueprintStats:
    """Fetch the statistics from the ledger, which keeps those of deleted blueprints.

    Raises:
        Refused: Neither the cluster nor the ledger knows the blueprint.
        Unreachable: The service does not answer.
    """
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)

    with connection.connect(
        session.environment, session.cluster, namespace=session.namespace
    ) as client:
        stats = client.blueprint_stats(
            session.namespace, name, compare=True, by_parameter=by_parameter
        )
    if not stats.uses:
        lookup.get(session, name)  # raises if there is no such blueprint
    return stats


def format_stats(stats: BlueprintStats, *, name: str, namespace: str) -> str:
    """Format the statistics: total, per revision, and per value of each parameter."""
    headers = (
        "USES", "SUCCEEDED", "FAILED", "EXCLUDED", "RUNNING", "SUCCESS", "CI95"
    )  # fmt: skip
    parts = [
        f"{name} in {namespace}\n\n",
        table_layout.format_table(headers, [_row(stats)]),
        _LEGEND,
    ]
    if stats.median_duration_s is not None:
        parts.append(f"\nmedian duration: {stats.median_duration_s:.1f} s\n")
    if stats.last_used is not None:
        parts.append(f"last used: {stats.last_used:%Y-%m-%d %H:%M} UTC\n")
    if stats.revisions:
        rows = [(revision.revision, *_row(revision)) for revision in stats.revisions]
        parts.append("\n" + table_layout.format_table(("REVISION", *headers), rows))
    for parameter in stats.parameters:
        rows = [(value.value or "(rarer values)", *_row(value)) for value in parameter.values]
        parts.append("\n" + table_layout.format_table((parameter.name, *headers), rows))
    parts += [_format_comparison(comparison) for comparison in stats.comparisons]
    return "".join(parts)


def _format_comparison(comparison: ArmComparison) -> str:
    """Format the runs of one revision with and without knowledge."""
    value = f", {comparison.value}" if comparison.value else ""
    arms = (("with", comparison.with_knowledge), ("without", comparison.without_knowledge))
    rows = [(name, *_arm_row(arm)) for name, arm in arms]
    parts = [
        f"\nKnowledge, revision {comparison.revision}{value}: {comparison.sentence}\n",
        table_layout.format_table(_ARM_HEADERS, rows),
    ]
    if comparison.not_compared:
        parts.append(f"not compared: {comparison.not_compared} with knowledge switched off\n")
    if comparison.excluded_runs:
        names = ", ".join(f"{run.run_id} ({run.outcome})" for run in comparison.excluded_runs)
        parts.append(f"excluded: {names}\n")
    return "".join(parts)


def _arm_row(arm: ArmStats) -> tuple[object, ...]:
    interval = arm.interval
    return (
        arm.succeeded + arm.failed,
        arm.succeeded,
        quantities.format_percent(arm.success_rate),
        quantities.format_interval(interval.low, interval.high) if interval else None,
        _format_median(arm.turns),
        _format_median(arm.tokens),
        _format_median(arm.cost, digits=4),
    )


def _format_median(median: MedianStats | None, *, digits: int = 0) -> str | None:
    """Format a median with its interval: `12 (9 to 15)`."""
    if median is None:
        return None
    value, low, high = (
        f"{number:.{digits}f}" for number in (median.median, median.low, median.high)
    )
    return f"{value} ({low} to {high})"


def _row(counts: Counts) -> tuple[object, ...]:
    interval = counts.interval
    return (
        counts.uses,
        counts.succeeded,
        counts.failed,
        counts.excluded,
        counts.running,
        quantities.format_percent(counts.success_rate),
        quantities.format_interval(interval.low, interval.high) if interval else None,
    )
