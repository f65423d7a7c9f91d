"""Which of two statements about one thing holds.

Decided by key and valid time, never by confidence. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True)
class Holder:
    """A live fact with the key of the new one.

    `since` is valid_from, or recorded_at without one.
    """

    fact_id: str
    since: datetime
    is_approved: bool


@dataclass(frozen=True)
class SupersessionVerdict:
    """What the new fact does to those that held its key.

    `closes` end where the new one begins; with `until` the new one is recorded already closed at
    that moment.
    """

    closes: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    superseded_by: str | None = None
    closed_at: datetime | None = None


def decide_supersession(
    holders: Sequence[Holder],
    since: datetime,
    by: Literal["human", "agent", "system"],
    *,
    is_approved: bool = False,
) -> SupersessionVerdict:
    """Compare the new fact, true since `since`, with every live fact of its scope and key.

    With `is_approved` it is a draft that is being approved: a later fact without approval does not
    supersede it, and both stay live.
    """
    closes, contradicts = [], []
    successor: Holder | None = None
    for holder in holders:
        if holder.since == since or (holder.is_approved and by == "agent"):
            contradicts.append(holder.fact_id)
        elif holder.since < since:
            closes.append(holder.fact_id)
        elif is_approved and not holder.is_approved:
            contradicts.append(holder.fact_id)
        elif successor is None or holder.since < successor.since:
            successor = holder
    return SupersessionVerdict(
        closes=tuple(closes),
        contradicts=tuple(contradicts),
        superseded_by=successor.fact_id if successor else None,
        closed_at=successor.since if successor else None,
    )
