"""Rate limits: one set of token buckets for each principal, in memory.

A restart refills every bucket. Beyond its quota, a caller gets 429 with `Retry-After`; other
callers are not affected.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal

from knowledge_service.domain import token_bucket
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import QuotaExceeded

QuotaName = Literal["writes", "facts", "bytes", "recalls", "reads"]
# Beyond these, the least recently active principals start again with full buckets.
_MAX_PRINCIPALS = 10_000


class RateLimiter:
    """Charges the quotas of principals. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, dict[str, token_bucket.TokenBucket]] = OrderedDict()

    def take(self, principal: Principal, amounts: Mapping[QuotaName, int]) -> None:
        """Charge every amount, or none of them.

        Raises:
            QuotaExceeded: a quota is used up; with the quota and the time to wait.
        """
        limited = _limited_amounts(principal, amounts)
        if not limited:
            return
        now_s = self._monotonic()
        with self._lock:
            buckets = self._buckets_of(principal.identity)
            updated_buckets: dict[str, token_bucket.TokenBucket] = {}
            for name, (amount, limit) in limited.items():
                bucket_or_wait = _bucket(buckets, name, limit, now_s).take(amount, now_s)
                if isinstance(bucket_or_wait, float):
                    raise QuotaExceeded(
                        f"{principal.name} may have {limit} {name} a minute and has used them up; "
                        "try again later or have its quota raised",
                        retry_after_s=max(1, math.ceil(bucket_or_wait)),
                    )
                updated_buckets[name] = bucket_or_wait
            buckets |= updated_buckets

    def owe(self, principal: Principal, amounts: Mapping[QuotaName, int]) -> None:
        """Charge amounts that are used already; what the quota does not cover is owed."""
        limited = _limited_amounts(principal, amounts)
        if not limited:
            return
        now_s = self._monotonic()
        with self._lock:
            buckets = self._buckets_of(principal.identity)
            for name, (amount, limit) in limited.items():
                buckets[name] = _bucket(buckets, name, limit, now_s).owe(amount, now_s)

    def _buckets_of(self, identity: str) -> dict[str, token_bucket.TokenBucket]:
        buckets = self._buckets.setdefault(identity, {})
        self._buckets.move_to_end(identity)
        while len(self._buckets) > _MAX_PRINCIPALS:
            self._buckets.popitem(last=False)
        return buckets


def _limited_amounts(
    principal: Principal, amounts: Mapping[QuotaName, int]
) -> dict[QuotaName, tuple[int, int]]:
    """Return each amount that a quota of the principal limits, with the limit."""
    quota = token_bucket.effective_quota(principal.quota, is_agent=principal.type == "agent")
    return {
        name: (amount, limit)
        for name, amount in amounts.items()
        if (limit := getattr(quota, f"{name}_per_minute")) is not None and amount
    }


def _bucket(
    buckets: Mapping[str, token_bucket.TokenBucket], name: str, limit: int, now_s: float
) -> token_bucket.TokenBucket:
    """Return the bucket of a quota; a full one if there is none or its limit has changed."""
    bucket = buckets.get(name)
    if bucket is None or bucket.per_minute != limit:
        return token_bucket.TokenBucket(limit, limit, now_s)
    return bucket
