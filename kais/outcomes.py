"""How runs end, and what their counts say about a Blueprint.

Runs that were cancelled, or that the cluster could not carry, are uses but say nothing about the
Blueprint: they are in no rate. The interval is Wilson's, which stays inside 0 to 1 at small counts.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

_Z_95 = 1.959963984540054  # two-sided 95 % quantile of the normal distribution


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    BUDGET_EXCEEDED = "BudgetExceeded"
    CANCELLED = "Cancelled"
    INFRASTRUCTURE_FAILED = "InfrastructureFailed"


EXCLUDED = frozenset({Outcome.CANCELLED, Outcome.INFRASTRUCTURE_FAILED})
"""Outcomes that are in no rate."""


@dataclass(frozen=True)
class Counts:
    """The runs of a Blueprint or a revision by how they stand.

    `running` holds what has no outcome, uses without a mission too.
    """

    running: int = 0
    succeeded: int = 0
    failed: int = 0
    excluded: int = 0

    @property
    def uses(self) -> int:
        """Every run that was ever opened, each once."""
        return self.running + self.succeeded + self.failed + self.excluded

    @property
    def counted(self) -> int:
        """Runs that say something about the Blueprint."""
        return self.succeeded + self.failed

    @property
    def success_rate(self) -> float | None:
        """Succeeded among the counted, None while nothing counted."""
        return self.succeeded / self.counted if self.counted else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the success rate, None while nothing counted."""
        return wilson(self.succeeded, self.counted)


def is_success(outcome: Outcome) -> bool:
    """Whether a run with that outcome counts for the Blueprint."""
    return outcome is Outcome.SUCCEEDED


def is_excluded(outcome: Outcome) -> bool:
    """Whether a run with that outcome is in no rate."""
    return outcome in EXCLUDED


def is_failure(outcome: Outcome) -> bool:
    """Whether a run with that outcome counts against the Blueprint."""
    return not is_success(outcome) and not is_excluded(outcome)


def wilson(successes: int, trials: int) -> tuple[float, float] | None:
    """Return Wilson's 95 % score interval of a share, None without trials.

    Raises:
        ValueError: When the successes are not between 0 and the trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials cannot be")
    if trials == 0:
        return None
    share, z2 = successes / trials, _Z_95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = (
        _Z_95 / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    )
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high
