"""How much of its share a principal has left: buckets that fill with time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from knowledge_client.models import Quota

_MINUTE_S = 60.0
# A hundred a second, sustained, is far beyond what an agent has to say; people and the operator
# have no bound unless one is given.
AGENTS = Quota(
    writes_per_minute=6_000,
    facts_per_minute=6_000,
    bytes_per_minute=64 * 1024**2,
    recalls_per_minute=6_000,
    reads_per_minute=6_000,
)


@dataclass(frozen=True)
class Bucket:
    """A share of `per_minute`; full at first, and at most that full ever."""

    per_minute: int
    left: float
    at_s: float

    def take(self, amount: float, now_s: float) -> Bucket | float:
        """Return the bucket without the amount, or in how many seconds there will be enough.

        What is larger than the whole share passes when the bucket is full: it empties it.
        """
        share = float(self.per_minute)
        filled = min(share, self.left + max(0.0, now_s - self.at_s) * share / _MINUTE_S)
        needed = min(amount, share)
        if filled < needed:
            return (needed - filled) * _MINUTE_S / share
        return replace(self, left=filled - needed, at_s=now_s)


def settled(given: Quota | None, *, is_agent: bool) -> Quota:
    """Return the quota that holds: what was given, and for agents the default where nothing was."""
    default = AGENTS if is_agent else Quota()
    if given is None:
        return default
    return default.model_copy(update=given.model_dump(exclude_none=True))
