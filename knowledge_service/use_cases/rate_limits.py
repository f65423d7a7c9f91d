"""Who has used up its share: one set of buckets per principal, in memory.

A restart fills every bucket. Beyond a share a caller gets 429 with `Retry-After`; nobody else
notices.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal

from knowledge_service.domain import token_bucket
from knowledge_service.domain.access_control import Principal
from knowledge_service.errors import QuotaExceeded

Share = Literal["writes", "facts", "bytes", "recalls", "reads"]
# The principals that were quiet longest start anew with full buckets.
_PRINCIPALS = 10_000


class Quotas:
    """Takes from the share of a principal. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, dict[str, token_bucket.TokenBucket]] = OrderedDict()

    def take(self, principal: Principal, amounts: Mapping[Share, int]) -> None:
        """Take every amount, or none of them.

        Raises:
            QuotaExceeded: one share is used up; it says which and for how long.
        """
        quota = token_bucket.effective_quota(principal.quota, is_agent=principal.type == "agent")
        wanted = {
            share: (amount, bound)
            for share, amount in amounts.items()
            if (bound := getattr(quota, f"{share}_per_minute")) is not None and amount
        }
        if not wanted:
            return
        now_s = self._monotonic()
        with self._lock:
            buckets = self._of(principal.identity)
            taken: dict[str, token_bucket.TokenBucket] = {}
            for share, (amount, bound) in wanted.items():
                bucket = buckets.get(share)
                if bucket is None or bucket.per_minute != bound:
                    bucket = token_bucket.TokenBucket(bound, bound, now_s)
                left = bucket.take(amount, now_s)
                if isinstance(left, float):
                    raise QuotaExceeded(
                        f"{principal.name} may have {bound} {share} a minute and used them up; "
                        "try again later or have its quota raised",
                        retry_after_s=max(1, math.ceil(left)),
                    )
                taken[share] = left
            buckets |= taken

    def _of(self, identity: str) -> dict[str, token_bucket.TokenBucket]:
        buckets = self._buckets.setdefault(identity, {})
        self._buckets.move_to_end(identity)
        while len(self._buckets) > _PRINCIPALS:
            self._buckets.popitem(last=False)
        return buckets
