"""Compare the claims of a Blueprint's author with measurements.

A claim changes no behaviour. An experiment without a finding refers to something that cannot be
looked up here; this is reported, but is no error.
"""

from __future__ import annotations

from kais.resources.blueprint import Evidence
from knowledge_client import models

_MAX_SHOWN = 5  # experiments listed in a sentence


def claimed(evidence: Evidence | None) -> str | None:
    """Format the claims in short, such as `90%, 284s, $1.20`; None without any."""
    if evidence is None:
        return None
    time, cost = evidence.avg_completion_time, evidence.avg_cost
    parts = [
        None if evidence.success_rate is None else f"{evidence.success_rate:.0%}",
        f"{time:g}s" if isinstance(time, int | float) else time,
        None if cost is None else f"${cost:.2f}",
    ]
    return ", ".join(part for part in parts if part) or None


def claims_message(evidence: Evidence | None, stats: models.BlueprintStats | None) -> str:
    """Format claims and measurements as the end of a sentence; empty without evidence."""
    if evidence is None:
        return ""
    parts = []
    claims = claimed(evidence)
    if claims is not None:
        parts.append(f"its author claims {claims}; measured here: {_measured(stats)}")
    dangling = [experiment.name for experiment in evidence.experiments if not experiment.finding]
    if dangling:
        suffix = f" and {len(dangling) - _MAX_SHOWN} more" if len(dangling) > _MAX_SHOWN else ""
        listed = ", ".join(f"'{name}'" for name in dangling[:_MAX_SHOWN])
        parts.append(
            f"evidence.experiments {listed}{suffix} cannot be looked up here; write its finding"
        )
    return "".join(f"; {part}" for part in parts)


def _measured(stats: models.BlueprintStats | None) -> str:
    if stats is None:
        return "not known yet"
    counted = stats.succeeded + stats.failed
    if not counted:
        return "no run that counts"
    parts = [f"{stats.succeeded} of {counted} succeeded"]
    if stats.median_duration_s is not None:
        parts.append(f"{stats.median_duration_s:g}s")
    if stats.avg_cost is not None:
        parts.append(f"${stats.avg_cost:.2f}")
    return ", ".join(parts)
