"""Which failed calls are retried, and when. Pure: the caller passes the time and the jitter.

retried:     429                                     until the deadline
             no connection, timeouts, 502, 503, 504  until `unavailable_s`
             principal-unregistered                  until `unregistered_s`
not retried: `ReadTimeout` and all other errors: the same request would fail in the same way
"""

from __future__ import annotations

from dataclasses import dataclass

from knowledge_client import errors


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The limits of a client's retries, in seconds.

    `deadline_s` bounds one call with its retries, `unregistered_s` the retries for an account that
    was created a moment ago, `unavailable_s` those for a service that does not answer. Delays
    double from `first_s` to `longest_s`, with a jitter of up to half.
    """

    deadline_s: float = 60.0
    unregistered_s: float = 30.0
    unavailable_s: float = 60.0
    first_s: float = 0.2
    longest_s: float = 5.0


DEFAULT_POLICY = RetryPolicy()
NO_RETRIES = RetryPolicy(deadline_s=0)


def retry_delay_s(
    policy: RetryPolicy,
    failure: errors.KnowledgeError,
    *,
    attempts: int,
    elapsed_s: float,
    jitter: float,
) -> float | None:
    """Return how long to wait before the next attempt, or None to give up and raise `failure`.

    `attempts` counts the attempts made (from 1), `elapsed_s` is the time since the first, `jitter`
    is in [0, 1). The service's own Retry-After is a lower bound of the pause.
    """
    limit = _retry_window_s(policy, failure)
    if limit is None:
        return None
    longest = min(policy.longest_s, policy.first_s * 2.0 ** min(attempts - 1, 30))
    pause = max(longest * (0.5 + jitter / 2), failure.retry_after_s or 0)
    return pause if elapsed_s + pause < limit else None


def _retry_window_s(policy: RetryPolicy, failure: errors.KnowledgeError) -> float | None:
    if isinstance(failure, errors.PrincipalUnregistered):
        return min(policy.unregistered_s, policy.deadline_s)
    if isinstance(failure, errors.ReadTimeout):
        return None
    if isinstance(failure, errors.KnowledgeUnavailable):
        return min(policy.unavailable_s, policy.deadline_s)
    if isinstance(failure, errors.QuotaExceeded):
        return policy.deadline_s
    return None
