"""Decides which of two statements about one thing is valid.

The key and the valid time decide, never the confidence. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True)
class Holder:
    """A live fact with the key of the new one.

    `since` is `valid_from`, or `recorded_at` without one.
    """

    fact_id: str
    since: datetime
    is_approved: bool


@dataclass(frozen=True)
class SupersessionVerdict:
    """The effect of a new fact on the live facts with its key.

    The facts in `closes` end where the new one begins. With `closed_at` the new fact is recorded as
    already closed at that time.
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
    """Compare the new fact, valid from `since`, with every live fact of its scope and key.

    With `is_approved` the new fact is a draft that is being approved: a later fact without approval
    does not supersede it, and both stay live.
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
