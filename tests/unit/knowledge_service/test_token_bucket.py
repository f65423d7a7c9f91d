"""A token bucket: what it lets pass, and how long to wait otherwise."""

from __future__ import annotations

import pytest

from knowledge_client.models import Quota
from knowledge_service.domain.token_bucket import AGENT_DEFAULTS, TokenBucket, effective_quota

PASSED = {
    "a full bucket gives up what is taken": (60, 60.0, 0.0, 1, 59.0),
    "a bucket may be emptied": (60, 60.0, 0.0, 60, 0.0),
    "a minute fills an empty bucket": (60, 0.0, 60.0, 1, 59.0),
    "a second fills a sixtieth": (60, 0.0, 1.0, 1, 0.0),
    "time never fills it beyond its size": (60, 60.0, 3_600.0, 10, 50.0),
    "a clock that is set back fills nothing": (60, 5.0, -100.0, 5, 0.0),
    "more than the bucket holds passes when it is full, and empties it": (60, 60.0, 0.0, 500, 0.0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("per_minute", "tokens", "elapsed_s", "amount", "remaining"), PASSED.values(), ids=PASSED
)
def test_passed(
    per_minute: int, tokens: float, elapsed_s: float, amount: float, remaining: float
) -> None:
    bucket = TokenBucket(per_minute, tokens, 1_000.0)
    final_token_bucket = bucket.take(amount, 1_000.0 + elapsed_s)
    assert final_token_bucket == TokenBucket(per_minute, remaining, 1_000.0 + elapsed_s)


REFUSED = {
    "one token of sixty a minute takes a second": (60, 0.0, 0.0, 1, 1.0),
    "what is missing is waited for, not the whole amount": (60, 4.0, 0.0, 10, 6.0),
    "time that passed counts": (60, 0.0, 3.0, 10, 7.0),
    "more than the bucket holds waits until it is full": (60, 0.0, 0.0, 500, 60.0),
}


@pytest.mark.parametrize(
    ("per_minute", "tokens", "elapsed_s", "amount", "wait_s"), REFUSED.values(), ids=REFUSED
)
def test_refused_with_the_seconds_to_wait(
    per_minute: int, tokens: float, elapsed_s: float, amount: float, wait_s: float
) -> None:
    bucket = TokenBucket(per_minute, tokens, 1_000.0)
    assert bucket.take(amount, 1_000.0 + elapsed_s) == pytest.approx(wait_s)


def test_an_agent_without_a_quota_has_the_default() -> None:
    assert effective_quota(None, is_agent=True) == AGENT_DEFAULTS


def test_a_person_without_a_quota_has_no_bound() -> None:
    assert effective_quota(None, is_agent=False) == Quota()


def test_a_declared_quota_replaces_only_what_it_names() -> None:
    quota = effective_quota(Quota(writes_per_minute=5), is_agent=True)
    assert quota.writes_per_minute == 5
    assert quota.reads_per_minute == AGENT_DEFAULTS.reads_per_minute
