"""Token buckets for rate limits, and the default quota of agents. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from knowledge_client.models import Quota

_MINUTE_S = 60.0
# A hundred a second, sustained, is far more than an agent needs. People and the operator have no
# limit unless one is set.
AGENT_DEFAULTS = Quota(
    writes_per_minute=6_000,
    facts_per_minute=6_000,
    bytes_per_minute=64 * 1024**2,
    recalls_per_minute=6_000,
    reads_per_minute=6_000,
)
_NO_LIMITS = Quota()


@dataclass(frozen=True)
class TokenBucket:
    """A bucket of at most `per_minute` tokens, which refills in a minute and starts full."""

    per_minute: int
    tokens: float
    at_s: float

    def take(self, amount: float, now_s: float) -> TokenBucket | float:
        """Return the bucket without the amount, or the seconds until there are enough tokens.

        An amount above the capacity passes when the bucket is full, and empties it.
        """
        share, filled = float(self.per_minute), self._filled(now_s)
        needed = min(amount, share)
        if filled < needed:
            return (needed - filled) * _MINUTE_S / share
        return replace(self, tokens=filled - needed, at_s=now_s)

    def owe(self, amount: float, now_s: float) -> TokenBucket:
        """Return the bucket without an amount that is already used; it owes a minute at most."""
        tokens = max(-float(self.per_minute), self._filled(now_s) - amount)
        return replace(self, tokens=tokens, at_s=now_s)

    def _filled(self, now_s: float) -> float:
        share = float(self.per_minute)
        return min(share, self.tokens + max(0.0, now_s - self.at_s) * share / _MINUTE_S)


def effective_quota(quota: Quota | None, *, is_agent: bool) -> Quota:
    """Return the given limits; for agents, defaults replace those that are not set."""
    default = AGENT_DEFAULTS if is_agent else _NO_LIMITS
    if quota is None:
        return default
    return default.model_copy(update=quota.model_dump(exclude_none=True))
