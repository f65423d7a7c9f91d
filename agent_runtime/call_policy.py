"""Limits the tries of a call of the model, their duration, and the wait between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """The limits of one call; all in seconds.

    `longest_s` bounds the wait that an endpoint asks for by Retry-After too.
    """

    tries: int = 4
    call_s: float = 600.0
    first_s: float = 1.0
    longest_s: float = 60.0


def retry_delay_s(
    policy: CallPolicy, *, tries: int, requested_s: float | None, jitter: float
) -> float | None:
    """Return the wait before the next try; None if there is none.

    `tries` is the number of tries so far, `requested_s` what the endpoint asks for, and `jitter`
    is between 0 and 1.
    """
    if tries >= policy.tries:
        return None
    if requested_s is not None:
        return requested_s if requested_s <= policy.longest_s else None
    delay = min(policy.longest_s, policy.first_s * 2.0 ** (tries - 1))
    return delay * (1 - jitter / 2)
