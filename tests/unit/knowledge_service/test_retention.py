"""Which facts of a full scope are archived: a sentence for each rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_client.models import Retention
from knowledge_service.domain.retention import Candidate, choose_for_archive, surplus

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def candidate(fact_id: str, **values: Any) -> Candidate:
    return Candidate(**({"fact_id": fact_id, "confidence": 0.5, "since": days_ago(1)} | values))


def retention(**values: Any) -> Retention:
    return Retention(**({"max_facts": 2} | values))


PLAIN = retention(half_life_days=None)
CASES: dict[str, tuple[Candidate, Candidate, Retention]] = {
    "an expired fact goes before a less useful one": (
        candidate("b", expires_at=NOW), candidate("a", usefulness=0.0), PLAIN,
    ),
    "a fact beyond ttlDays counts as expired": (
        candidate("b", since=days_ago(30)), candidate("a", usefulness=0.0),
        retention(ttl_days=30, half_life_days=None),
    ),
    "ttlDays beyond the calendar expires nothing, so the less useful goes": (
        candidate("b", usefulness=0.2), candidate("a", usefulness=0.8, since=days_ago(30)),
        retention(ttl_days=9_999_999, half_life_days=None),
    ),
    "nor does the largest number": (
        candidate("b", usefulness=0.2), candidate("a", usefulness=0.8, since=days_ago(30)),
        retention(ttl_days=1e308, half_life_days=None),
    ),
    "of two live facts the less useful goes": (
        candidate("b", usefulness=0.2), candidate("a", usefulness=0.8), PLAIN,
    ),
    "a fact without outcomes counts as half useful": (
        candidate("b"), candidate("a", usefulness=0.6), PLAIN,
    ),
    "a failed fact goes before one without outcomes": (
        candidate("b", usefulness=0.4), candidate("a"), PLAIN,
    ),
    "of two equally useful facts the less sure goes": (
        candidate("b", confidence=0.4), candidate("a", confidence=0.9), PLAIN,
    ),
    "with a half-life the older of two equal facts goes": (
        candidate("b", since=days_ago(60)), candidate("a", since=days_ago(1)),
        retention(half_life_days=30),
    ),
    "without a half-life age does not count, the id decides": (
        candidate("a", since=days_ago(1)), candidate("b", since=days_ago(60)), PLAIN,
    ),
    "a half-life halves the worth: 0.8 after 30 days goes before 0.5 today": (
        candidate("b", usefulness=0.8, since=days_ago(30)),
        candidate("a", usefulness=0.5, since=NOW), retention(half_life_days=30),
    ),
    "a moment in the future decays nothing": (
        candidate("b", usefulness=0.4, since=days_ago(-30)),
        candidate("a", usefulness=0.5, since=NOW), retention(half_life_days=30),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("goes", "stays", "settings"), CASES.values(), ids=CASES)
def test_the_fact_that_goes(goes: Candidate, stays: Candidate, settings: Retention) -> None:
    for order in ((goes, stays), (stays, goes)):
        chosen = choose_for_archive(order, 1, settings, NOW)
        assert [choice.fact_id for choice in chosen] == [goes.fact_id]


def test_a_protected_fact_stays_even_when_it_is_expired() -> None:
    protected = candidate("a", expires_at=days_ago(1), is_protected=True)
    chosen = choose_for_archive([protected, candidate("b")], 2, PLAIN, NOW)
    assert [choice.fact_id for choice in chosen] == ["b"]


def test_a_choice_has_the_version_that_was_judged_and_a_reason_for_people() -> None:
    expired = candidate("a", expires_at=NOW, version=3)
    (first, second) = choose_for_archive([candidate("b", usefulness=0.1), expired], 2, PLAIN, NOW)
    assert (first.version, second.version) == (3, 1)
    assert first.reason == "the scope keeps 2 facts; this one expired"
    assert second.reason == "the scope keeps 2 facts; this one was the least useful"


def test_no_more_than_the_count_are_chosen() -> None:
    candidates = [candidate(f"{n:02}") for n in range(20)]
    assert len(choose_for_archive(candidates, 5, PLAIN, NOW)) == 5


@pytest.mark.parametrize(
    ("live", "settings", "expected"),
    [
        pytest.param(12, retention(max_facts=10), 2, id="two facts too many"),
        pytest.param(10, retention(max_facts=10), 0, id="exactly full"),
        pytest.param(3, retention(max_facts=10), 0, id="room left"),
        pytest.param(10_000, Retention(), 0, id="no bound declared"),
    ],
)
def test_surplus_is_what_exceeds_max_facts(live: int, settings: Retention, expected: int) -> None:
    assert surplus(live, settings) == expected
