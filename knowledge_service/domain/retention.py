"""Chooses the live facts of a full scope to archive. Archiving destroys nothing. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from knowledge_client.models import Retention

_UNTRIED = 0.5
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Candidate:
    """A live fact as retention sees it.

    Attributes:
        since: the time of the last confirmation, or of the recording.
        usefulness: None while no use is counted.
        is_protected: never archive it: it is approved, a promoted copy, or referenced by an open
            run.
    """

    fact_id: str
    confidence: float
    since: datetime
    usefulness: float | None = None
    expires_at: datetime | None = None
    is_protected: bool = False
    version: int = 1


@dataclass(frozen=True)
class Choice:
    """A fact to archive, the version that was examined, and the reason."""

    fact_id: str
    version: int
    reason: str


def surplus(live_facts: int, settings: Retention) -> int:
    """Return the number of facts above `maxFacts`; 0 without that bound."""
    return max(0, live_facts - settings.max_facts) if settings.max_facts else 0


def choose_for_archive(
    candidates: Iterable[Candidate], count: int, settings: Retention, now: datetime
) -> tuple[Choice, ...]:
    """Choose `count` facts to archive, in order; holds at most `count` candidates in memory."""
    chosen = heapq.nsmallest(
        count,
        (candidate for candidate in candidates if not candidate.is_protected),
        key=lambda candidate: (
            not _is_expired(candidate, settings, now),
            *_worth(candidate, settings, now),
        ),
    )
    return tuple(
        Choice(candidate.fact_id, candidate.version, _reason(candidate, settings, now))
        for candidate in chosen
    )


def _reason(candidate: Candidate, settings: Retention, now: datetime) -> str:
    cause = "expired" if _is_expired(candidate, settings, now) else "was the least useful"
    return f"the scope keeps {settings.max_facts} facts; this one {cause}"


def _is_expired(candidate: Candidate, settings: Retention, now: datetime) -> bool:
    if candidate.expires_at is not None and candidate.expires_at <= now:
        return True
    return settings.ttl_days is not None and _age_days(candidate, now) >= settings.ttl_days


def _worth(candidate: Candidate, settings: Retention, now: datetime) -> tuple[float, str]:
    useful = _UNTRIED if candidate.usefulness is None else candidate.usefulness
    days = max(0.0, _age_days(candidate, now))
    decay = 2.0 ** (-days / settings.half_life_days) if settings.half_life_days else 1.0
    return useful * candidate.confidence * decay, candidate.fact_id


def _age_days(candidate: Candidate, now: datetime) -> float:
    return (now - candidate.since).total_seconds() / _DAY_S
