"""Compares groups of runs: success rates and their difference, medians, and a sentence. Pure.

Intervals of rates are Wilson's, those of differences Newcombe's (hybrid score), and those of
medians the percentiles of a bootstrap. The bootstrap has a fixed seed, so the same runs always
have the same interval.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kais import outcomes

MIN_RUNS: Final = 5
"""Runs that each group needs before a sentence compares them. Arbitrary."""
_RESAMPLES: Final = 2000
_SEED: Final = 20_250_101  # arbitrary, but fixed


@dataclass(frozen=True)
class Group:
    """The runs of one group that count: how many, and how many of them succeeded."""

    succeeded: int
    counted: int

    @property
    def rate(self) -> float | None:
        """The share of runs that succeeded; None without runs."""
        return self.succeeded / self.counted if self.counted else None


@dataclass(frozen=True)
class Difference:
    """The success rate of one group minus that of another, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Median:
    """A median with its 95 % interval."""

    value: float
    low: float
    high: float


def newcombe(first: Group, second: Group, *, error: float = 0.05) -> Difference | None:
    """Return the difference `first` - `second` with Newcombe's interval; None if one has no runs.

    `error` is the two-sided probability that the interval misses the difference.
    """
    intervals = [outcomes.wilson(g.succeeded, g.counted, error=error) for g in (first, second)]
    if first.rate is None or second.rate is None or intervals[0] is None or intervals[1] is None:
        return None
    (low_1, high_1), (low_2, high_2) = intervals[0], intervals[1]
    value = first.rate - second.rate
    low = value - math.hypot(first.rate - low_1, high_2 - second.rate)
    high = value + math.hypot(high_1 - first.rate, second.rate - low_2)
    return Difference(value, max(-1.0, low), min(1.0, high))


def median(values: Sequence[float]) -> Median | None:
    """Return the median with the 95 % percentile interval of its bootstrap; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    medians = sorted(_midpoint(ordered[i], ordered[j]) for i, j in _median_places(len(ordered)))
    margin = int(len(medians) * 0.025)
    value = _midpoint(ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2])
    return Median(value, medians[margin], medians[-1 - margin])


def _midpoint(first: float, second: float) -> float:
    """Return the mean of two values, also of such whose sum no float can hold."""
    total = first + second
    return total / 2 if math.isfinite(total) else first / 2 + second / 2


# A Blueprint has few different numbers of runs at a time; 256 is an arbitrary bound.
@functools.lru_cache(maxsize=256)
def _median_places(count: int) -> tuple[tuple[int, int], ...]:
    """Return for each resample the two indexes into the sorted values whose mean is its median.

    The middle order statistics of uniform draws are beta distributed, so that a resample takes two
    draws instead of `count`.
    """
    generator = random.Random(_SEED)  # noqa: S311 (resamples are no secrets)
    return tuple(_middle_places(count, generator) for _ in range(_RESAMPLES))


def _middle_places(count: int, generator: random.Random) -> tuple[int, int]:
    lower = (count + 1) // 2
    first = generator.betavariate(lower, count + 1 - lower)
    if count % 2:
        second = first
    else:  # the next of the draws above the first
        second = first + (1 - first) * (1 - generator.random() ** (1 / (count - lower)))
    return min(count - 1, int(first * count)), min(count - 1, int(second * count))


def sentence(with_knowledge: Group, without_knowledge: Group) -> str:
    """Describe the effect of knowledge in one sentence."""
    if min(with_knowledge.counted, without_knowledge.counted) < MIN_RUNS:
        return "Too few runs to tell."
    difference = newcombe(with_knowledge, without_knowledge)
    assert difference is not None  # noqa: S101 (both groups have runs)
    counts = (
        f"With knowledge {with_knowledge.succeeded} of {with_knowledge.counted},"
        f" without {without_knowledge.succeeded} of {without_knowledge.counted}"
    )
    points, low, high = (
        round(share * 100) for share in (difference.value, difference.low, difference.high)
    )
    if difference.low > 0:
        return f"{counts}: {points} points more, between {low} and {high}."
    if difference.high < 0:
        return f"{counts}: {-points} points fewer, between {-high} and {-low}."
    return f"{counts}: no clear difference, between {-low} points fewer and {high} more."
