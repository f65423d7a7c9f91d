"""Decides whether a fact may be copied one level up, and whether its scope's rule does so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kais import outcomes
from knowledge_client.models import Fact, Promotion
from knowledge_service.domain import closure_messages
from knowledge_service.domain.access_control import PLATFORM

# A copy has a little less confidence: what is true for one team is mostly true for its neighbours.
COPY_CONFIDENCE_FACTOR = 0.9
_SUCCESS_RATE = 0.5


@dataclass(frozen=True)
class Evidence:
    """The outcomes of the closed runs that recalled a fact."""

    missions: int
    succeeded: int
    failed: int

    @property
    def success_rate(self) -> float:
        """Return the share of counted runs that succeeded; 0 while none is counted."""
        counted = self.succeeded + self.failed
        return self.succeeded / counted if counted else 0.0

    def as_data(self) -> Mapping[str, Any]:
        """Return the evidence as the promotion stores it."""
        return {"missions": self.missions, "succeeded": self.succeeded, "failed": self.failed}


def count_evidence(run_outcomes: Iterable[tuple[str, str]]) -> Evidence:
    """Count (mission, outcome) of closed runs; excluded outcomes do not count."""
    succeeded: list[str] = []
    failed = 0
    for mission, name in run_outcomes:
        outcome = outcomes.Outcome(name)
        if outcomes.is_success(outcome):
            succeeded.append(mission)
        elif outcomes.is_failure(outcome):
            failed += 1
    return Evidence(len(set(succeeded)), len(succeeded), failed)


def reason_against_promotion(fact: Fact) -> str | None:
    """Explain why a fact cannot be copied at all; None when it can."""
    if fact.scope == PLATFORM:
        return "it is at the top already"
    if fact.lifecycle != "live":
        return f"it is {closure_messages.describe_closure(fact)}"
    if fact.review in ("draft", "rejected"):
        return f"its review is {fact.review}; approve it first"
    if fact.flags:
        return f"it is flagged ({', '.join(fact.flags)}); confirm or approve it first"
    return None


def is_proven(fact: Fact, settings: Promotion, evidence: Evidence) -> bool:
    """Return whether the scope's own rule copies the fact."""
    return (
        settings.policy == "Automatic"
        and evidence.missions >= settings.min_missions
        and fact.confidence > settings.min_confidence
        and evidence.success_rate >= _SUCCESS_RATE
    )
