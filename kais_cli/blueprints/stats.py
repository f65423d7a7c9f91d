"""The statistics of a blueprint, from the ledger of the knowledge service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kais_cli.blueprints import lookup
from kais_cli.views import quantities, table_layout

if TYPE_CHECKING:
    from kais_cli.session import Session
    from knowledge_client.models import BlueprintStats, Counts


_LEGEND = """
EXCLUDED runs were cancelled, or the cluster could not run them; they do not count.
CI95 is the 95 % confidence interval of the success rate.
"""


def fetch_stats(session: Session, name: str) -> BlueprintStats:
    """Fetch the statistics from the ledger, which keeps those of deleted blueprints.

    Raises:
        Refused: Neither the cluster nor the ledger knows the blueprint.
        Unreachable: The service does not answer.
    """
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)

    with connection.connect(
        session.environment, session.cluster, namespace=session.namespace
    ) as client:
        stats = client.blueprint_stats(session.namespace, name)
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
    return "".join(parts)


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
