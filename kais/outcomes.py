"""The outcomes of runs, and the success rates of Blueprints.

Runs that were cancelled, or that failed because of the cluster, are counted as uses but say
nothing about the Blueprint, so no rate includes them. The interval is Wilson's, which stays within
0 and 1 even for small counts.
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
    """The numbers of runs of a Blueprint or revision, by outcome.

    `running` counts runs without an outcome, including instances without a mission.
    """

    running: int = 0
    succeeded: int = 0
    failed: int = 0
    excluded: int = 0

    @property
    def uses(self) -> int:
        """The number of all runs that were ever opened."""
        return self.running + self.succeeded + self.failed + self.excluded

    @property
    def counted(self) -> int:
        """The number of runs that are included in rates."""
        return self.succeeded + self.failed

    @property
    def success_rate(self) -> float | None:
        """The share of successes among the counted runs; None if no run counts."""
        return self.succeeded / self.counted if self.counted else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the success rate; None if no run counts."""
        return wilson(self.succeeded, self.counted)


def is_success(outcome: Outcome) -> bool:
    """Whether a run with that outcome counts as a success of the Blueprint."""
    return outcome is Outcome.SUCCEEDED


def is_excluded(outcome: Outcome) -> bool:
    """Whether a run with that outcome is excluded from rates."""
    return outcome in EXCLUDED


def is_failure(outcome: Outcome) -> bool:
    """Whether a run with that outcome counts as a failure of the Blueprint."""
    return not is_success(outcome) and not is_excluded(outcome)


def wilson(
    successes: int, trials: int, *, error: float | None = None
) -> tuple[float, float] | None:
    """Return Wilson's score interval of a share; None without trials.

    `error` is the two-sided probability that the interval misses the share. Default: 5 %.

    Raises:
        ValueError: The number of successes is not between 0 and the number of trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials cannot be")
    if trials == 0:
        return None
    z = _Z_95 if error is None else _two_sided_quantile(error)
    share, z2 = successes / trials, z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high


def _two_sided_quantile(error: float) -> float:
    import statistics  # noqa: PLC0415 (takes a tenth of a completion, which only names outcomes)

    return statistics.NormalDist().inv_cdf(1 - error / 2)
