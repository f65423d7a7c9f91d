from __future__ import annotations

import pytest

from knowledge_client.models import Quota
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import QuotaExceeded
from knowledge_service.routes.dependencies import quota_cost
from knowledge_service.use_cases.rate_limits import RateLimiter
from tests.fakes.clock import FakeClock
from tests.knowledge_builders import LEAD


def agent(name: str = "lead", **quota: int) -> Principal:
    return Principal(name, "agent", LEAD, quota=Quota(**quota) if quota else None)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def quotas(clock: FakeClock) -> RateLimiter:
    return RateLimiter(clock.monotonic)


def test_writer_beyond_its_rate_is_told_when_to_come_again(
    quotas: RateLimiter, clock: FakeClock
) -> None:
    lead = agent(writes_per_minute=6)
    for _ in range(6):
        quotas.take(lead, {"writes": 1})
    with pytest.raises(QuotaExceeded, match="lead may have 6 writes a minute") as caught:
        quotas.take(lead, {"writes": 1})
    assert caught.value.retry_after_s == 10
    clock.advance(10)
    quotas.take(lead, {"writes": 1})


def test_others_are_unaffected(quotas: RateLimiter) -> None:
    quotas.take(agent("a", writes_per_minute=1), {"writes": 1})
    with pytest.raises(QuotaExceeded):
        quotas.take(agent("a", writes_per_minute=1), {"writes": 1})
    quotas.take(agent("b", writes_per_minute=1), {"writes": 1})


@pytest.mark.parametrize(
    "other_caller",
    [
        Principal("lead", "human", LEAD, quota=Quota(writes_per_minute=1)),
        Principal("lead", "agent", "realm:other", quota=Quota(writes_per_minute=1)),
        Principal("lead", "agent", LEAD, quota=Quota(writes_per_minute=1), subject="made anew"),
    ],
    ids=["another kind", "another home", "another account"],
)
def test_callers_of_one_name_have_a_share_each(
    quotas: RateLimiter, other_caller: Principal
) -> None:
    lead = agent(writes_per_minute=1)
    quotas.take(lead, {"writes": 1})
    quotas.take(other_caller, {"writes": 1})
    with pytest.raises(QuotaExceeded):
        quotas.take(lead, {"writes": 1})


def test_size_counts_too_and_a_refusal_takes_nothing(quotas: RateLimiter) -> None:
    lead = agent(writes_per_minute=2, bytes_per_minute=100)
    quotas.take(lead, {"writes": 1, "bytes": 90})
    with pytest.raises(QuotaExceeded, match="100 bytes a minute"):
        quotas.take(lead, {"writes": 1, "bytes": 90})
    quotas.take(lead, {"writes": 1, "bytes": 10})


def test_what_is_larger_than_a_whole_share_passes_once_it_is_full(
    quotas: RateLimiter, clock: FakeClock
) -> None:
    lead = agent(bytes_per_minute=100)
    quotas.take(lead, {"bytes": 5000})
    with pytest.raises(QuotaExceeded) as caught:
        quotas.take(lead, {"bytes": 5000})
    assert caught.value.retry_after_s == 60
    clock.advance(60)
    quotas.take(lead, {"bytes": 5000})


def test_what_is_used_before_its_size_is_known_is_owed_for_two_minutes_at_most(
    quotas: RateLimiter, clock: FakeClock
) -> None:
    lead = agent(bytes_per_minute=60)
    quotas.owe(lead, {"bytes": 90})
    with pytest.raises(QuotaExceeded) as caught:
        quotas.take(lead, {"bytes": 1})
    assert caught.value.retry_after_s == 31
    quotas.owe(lead, {"bytes": 10**9})
    clock.advance(119)
    with pytest.raises(QuotaExceeded):
        quotas.take(lead, {"bytes": 60})
    clock.advance(1)
    quotas.take(lead, {"bytes": 60})


def test_nothing_is_owed_without_a_quota(quotas: RateLimiter) -> None:
    person = Principal("ada", "human", LEAD)
    quotas.owe(person, {"bytes": 10**9})
    quotas.take(person, {"bytes": 1})


def test_recall_whose_response_is_kept_costs_bytes() -> None:
    assert quota_cost("POST", "/v1/recall", "9", is_kept=True) == {"recalls": 1, "bytes": 9}


def test_agents_have_a_default_and_people_have_none(quotas: RateLimiter) -> None:
    person = Principal("ada", "human", LEAD)
    for _ in range(6000):
        quotas.take(agent(), {"writes": 1})
        quotas.take(person, {"writes": 1})
    with pytest.raises(QuotaExceeded):
        quotas.take(agent(), {"writes": 1})
    quotas.take(person, {"writes": 1})


def test_clock_that_goes_back_gives_nothing(quotas: RateLimiter, clock: FakeClock) -> None:
    lead = agent(writes_per_minute=1)
    quotas.take(lead, {"writes": 1})
    clock.advance(-3600)
    with pytest.raises(QuotaExceeded):
        quotas.take(lead, {"writes": 1})


@pytest.mark.parametrize(
    ("request_", "expected_cost"),
    {
        "reading has a share of its own": (("GET", "/v1/facts", None), {"reads": 1}),
        "asking for statistics is reading": (("POST", "/v1/stats:batch", "9"), {"reads": 1}),
        "recall has a share of its own": (("POST", "/v1/recall", "9"), {"recalls": 1}),
        "writing counts its bytes": (("PUT", "/v1/runs/r", "9"), {"writes": 1, "bytes": 9}),
        "a fact is counted as one": (
            ("POST", "/v1/facts", "9"),
            {"writes": 1, "facts": 1, "bytes": 9},
        ),
        "facts of a batch are counted when it is read": (
            ("POST", "/v1/facts:batch", "9"),
            {"writes": 1, "bytes": 9},
        ),
        "deleting has no body": (("DELETE", "/v1/links", None), {"writes": 1, "bytes": 0}),
        "length that is not said is the largest": (
            ("PUT", "/v1/runs/r", None),
            {"writes": 1, "bytes": 8 * 1024 * 1024},
        ),
    }.values(),
)
def test_each_request_takes_its_share(
    request_: tuple[str, str, str | None], expected_cost: dict[str, int]
) -> None:
    assert quota_cost(*request_) == expected_cost
