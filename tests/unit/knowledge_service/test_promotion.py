"""When a fact may be copied one level up, and when its scope's rule does so: sentence and case."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_client.models import Fact, Promotion, Source
from knowledge_service.domain.promotion import (
    Evidence,
    count_evidence,
    is_proven,
    reason_against_promotion,
)

MOMENT = datetime(2026, 3, 2, tzinfo=UTC)


def fact(**values: Any) -> Fact:
    required = {"id": "f", "scope": "realm:demo/formation:team", "kind": "fact", "content": "x"}
    rest = {"confidence": 0.9, "source": Source(), "recorded_at": MOMENT}
    return Fact(**(required | rest | values))


REFUSED = {
    "a fact of the platform is at the top": (
        {"scope": "platform"}, "it is at the top already",
    ),
    "a closed fact is named with how it ended": (
        {"lifecycle": "retracted", "closed_reason": "it was noon"}, "it is retracted: it was noon",
    ),
    "a draft waits for its review": (
        {"review": "draft"}, "its review is draft; approve it first",
    ),
    "a rejected fact needs an approval": (
        {"review": "rejected"}, "its review is rejected; approve it first",
    ),
    "a flagged fact needs a person": (
        {"flags": ("instructions",)}, "it is flagged (instructions); confirm or approve it first",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "reason"), REFUSED.values(), ids=REFUSED)
def test_reason_against_a_promotion(values: dict[str, Any], reason: str) -> None:
    assert reason_against_promotion(fact(**values)) == reason


@pytest.mark.parametrize("review", ["none", "approved"])
def test_a_live_fact_without_flags_may_be_promoted(review: str) -> None:
    assert reason_against_promotion(fact(review=review)) is None


OUTCOMES = {
    "no runs": ([], Evidence(0, 0, 0)),
    "a success counts its mission": ([("m", "Succeeded")], Evidence(1, 1, 0)),
    "two successes of one mission are one mission": (
        [("m", "Succeeded"), ("m", "Succeeded")], Evidence(1, 2, 0),
    ),
    "a failure counts no mission": ([("m", "Failed")], Evidence(0, 0, 1)),
    "a timeout is a failure": ([("m", "TimedOut")], Evidence(0, 0, 1)),
    "a run that exceeded its budget is a failure": ([("m", "BudgetExceeded")], Evidence(0, 0, 1)),
    "a mission with both outcomes counts once": (
        [("m", "Succeeded"), ("m", "Failed")], Evidence(1, 1, 1),
    ),
    "a cancelled run counts for nothing": ([("m", "Cancelled")], Evidence(0, 0, 0)),
    "an infrastructure failure counts for nothing": (
        [("m", "InfrastructureFailed")], Evidence(0, 0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "evidence"), OUTCOMES.values(), ids=OUTCOMES)
def test_evidence_of_closed_runs(runs: list[tuple[str, str]], evidence: Evidence) -> None:
    assert count_evidence(runs) == evidence


RULE = Promotion(policy="Automatic", min_missions=2, min_confidence=0.7)
PROVEN = Evidence(missions=2, succeeded=3, failed=1)


def test_a_fact_that_meets_every_condition_is_proven() -> None:
    assert is_proven(fact(), RULE, PROVEN)


UNPROVEN = {
    "another policy copies nothing by itself": (fact(), {"policy": "Manual"}, PROVEN),
    "one mission too few": (fact(), {}, Evidence(1, 3, 0)),
    "confidence at the bound is not above it": (fact(confidence=0.7), {}, PROVEN),
    "more failures than successes": (fact(), {}, Evidence(2, 2, 3)),
    "no runs at all": (fact(), {"min_missions": 1}, Evidence(0, 0, 0)),
}


@pytest.mark.parametrize(("case", "settings", "evidence"), UNPROVEN.values(), ids=UNPROVEN)
def test_a_fact_that_misses_a_condition_is_not_proven(
    case: Fact, settings: dict[str, Any], evidence: Evidence
) -> None:
    rule = RULE.model_validate(RULE.model_dump() | settings)
    assert not is_proven(case, rule, evidence)


def test_as_many_successes_as_failures_are_enough() -> None:
    assert is_proven(fact(), RULE, Evidence(missions=2, succeeded=2, failed=2))
